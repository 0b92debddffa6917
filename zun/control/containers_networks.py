"""Join and leave networks: what is asked is checked against what the container has, and will have, then left for the
node in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from ipaddress import ip_address
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.control.base import Control
from zun.control.container_exclusive import changing
from zun.control.container_record import Asked, queue
from zun.control.containers_lookup import require_host
from zun.domain.container import Container, RequestedNetwork
from zun.domain.errors import Conflict, ContainerNotFound, Invalid, NetworkNotFound, PortNotFound
from zun.domain.lifecycle import Task, require
from zun.domain.operation import Kind, Operation
from zun.store import containers as store
from zun.store import operations

Decide = Callable[[Container, Sequence[Operation]], Mapping[str, Any]]
"""From the row as it is and what is still to be done to it, to the operation's parameters."""


async def attach(
    control: Control,
    asked: Asked,
    container: Container,
    *,
    network: str | None = None,
    port: str | None = None,
    fixed_ip: str | None = None,
    external: bool = False,
) -> None:
    """Join one more network: the one named, that of the port, or the project's default. ``external``: the caller may
    use external networks.

    Raises Invalid when attached already, what ``Network.resolve`` raises, InvalidStateException, ContainerHostNotUp.
    """
    require(Kind.NETWORK_ATTACH, container.uuid, container.status)
    host = await require_host(control, asked.caller, container)
    wanted = await _resolve(control, asked, network, port, fixed_ip, external=external)

    def decide(row: Container, pending: Sequence[Operation]) -> Mapping[str, Any]:
        if wanted.network_id in networks_after(row, pending):
            raise Invalid(f"Container {row.uuid} is attached to network {wanted.network_id} already.")
        return {"requested": asdict(wanted)}

    await announce(control, asked, container, host, Kind.NETWORK_ATTACH, Task.NETWORK_ATTACHING, decide)


async def _resolve(
    control: Control, asked: Asked, network: str | None, port: str | None, fixed_ip: str | None, *, external: bool
) -> RequestedNetwork:
    entry: dict[str, Any] = {"port": port} if port is not None else {"network": network}
    if port is None and network is None:
        (default,) = await control.network.resolve(asked.caller, [], external=external)
        if fixed_ip is None:
            return default
        entry = {"network": default.network_id}
    if fixed_ip is not None:
        entry[f"v{ip_address(fixed_ip).version}-fixed-ip"] = fixed_ip
    (found,) = await control.network.resolve(asked.caller, [entry], external=external)
    return found


async def detach(
    control: Control, asked: Asked, container: Container, *, network: str | None = None, port: str | None = None
) -> None:
    """Leave a network, named by itself or by the container's port on it. The last one may be left too.

    Raises Invalid when not attached, Conflict (ambiguous name), InvalidStateException, ContainerHostNotUp.
    """
    require(Kind.NETWORK_DETACH, container.uuid, container.status)
    host = await require_host(control, asked.caller, container)
    named = network if network is not None else str(port)
    not_attached = Invalid(f"Container {container.uuid} is not attached to {'network' if network else 'port'} {named}.")
    try:
        if network is not None:
            network_id = await _network_of(control, asked, container, network)
        else:
            network_id = await _network_of_port(control, asked, container, named)
    except (NetworkNotFound, PortNotFound) as error:
        raise not_attached from error

    def decide(row: Container, pending: Sequence[Operation]) -> Mapping[str, Any]:
        if network_id not in networks_after(row, pending):
            raise not_attached
        return {"network_id": network_id}

    await announce(control, asked, container, host, Kind.NETWORK_DETACH, Task.NETWORK_DETACHING, decide)


async def _network_of(control: Control, asked: Asked, container: Container, ident: str) -> str:
    """By id whatever the caller still sees of it, else by name with the caller's rights."""
    if any(entry["network_id"] == ident for entry in container.requested_networks or ()):
        return ident
    (found,) = await control.network.resolve(asked.caller, [{"network": ident}], external=True)
    return found.network_id


async def _network_of_port(control: Control, asked: Asked, container: Container, ident: str) -> str:
    """Raises PortNotFound when it is no port of the container."""
    ports = {entry["port_id"]: entry["network_id"] for entry in container.requested_networks or () if entry["port_id"]}
    ports |= {item["port"]: name for name, items in (container.addresses or {}).items() for item in items}
    found = ports.get(ident) or ports.get(await control.network.port_id(asked.caller, ident))
    if found is None:
        raise PortNotFound(ident)
    return str(found)


def networks_after(row: Container, pending: Sequence[Operation]) -> set[str]:
    """Ids of the networks the container is on once ``pending`` is done, in its order."""
    networks = {str(entry["network_id"]) for entry in row.requested_networks or ()}
    for operation in pending:
        if operation.kind == Kind.NETWORK_ATTACH:
            networks.add(operation.params["requested"]["network_id"])
        elif operation.kind == Kind.NETWORK_DETACH:
            networks.discard(operation.params["network_id"])
    return networks


async def announce(
    control: Control, asked: Asked, container: Container, host: str, kind: Kind, task: Task, decide: Decide
) -> None:
    """Task and operation at once, decided on the row and the unfinished operations as they are in the transaction."""

    async def record(connection: AsyncConnection) -> None:
        await store.lock(connection, container.uuid)
        row = await store.get(connection, container.uuid)
        if row is None:
            raise ContainerNotFound(container.uuid)
        require(kind, row.uuid, row.status)
        pending = await operations.unfinished_of_container(connection, row.uuid)
        if row.container_id is None and not pending:
            raise Conflict(f"Container {row.uuid} was never made on its host; start or rebuild it first.")
        params = decide(row, pending)
        values = {"task_state": row.task_state or task}
        if not await store.update(connection, row.uuid, {"host": host}, values, control.clock.now()):
            raise changing(row)
        await queue(connection, control, asked, row, kind, host=host, params=params)

    await control.db.run(record)
    await control.bus.ring(host)
