"""The embedded network: one bridge network of the engine for each project, made when first needed.

Addresses are given in our database, so they are known before the engine is asked, and hold while it is away.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from ipaddress import IPv4Address, IPv4Network
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.conf import ConfigError
from zun.domain.caller import Caller
from zun.domain.clock import Clock
from zun.domain.container import Container, RequestedNetwork
from zun.domain.errors import (
    Conflict,
    EngineConflict,
    EngineNotFound,
    InvalidValue,
    NetworkNotFound,
    NetworkSetupFailed,
    PortNotFound,
)
from zun.domain.held import Held
from zun.domain.observed import Attachment, EngineNetwork
from zun.network.plugged import PluggedByEngine
from zun.network.subnets import first_free, host_routes
from zun.plumbing.routing import BRIDGE_PREFIX
from zun.runtime.base import Runtime
from zun.store import local_networks as store
from zun.store.database import Database

log = logging.getLogger(__name__)

DEFAULT_NAME = "default"
_PREFIX = "zun-"
_BRIDGE_OPTION = "com.docker.network.bridge.name"
_GATEWAY = 1
_FIRST = 2
_ATTEMPTS = 20


class LocalNetwork(PluggedByEngine):
    """See ``zun.network.base.Network``."""

    plugs = False

    def __init__(self, db: Database, runtime: Runtime, conf: Any, clock: Clock) -> None:
        self._db = db
        self._runtime = runtime
        self._conf = conf.local
        self._pool = _pool(conf.local)
        self._clock = clock

    # -- the API's side ----------------------------------------------------------------------------

    async def resolve(
        self, caller: Caller, nets: Sequence[Mapping[str, Any]], *, external: bool = False
    ) -> Sequence[RequestedNetwork]:
        """Entries of the request to ids (S1.4). Raises NetworkNotFound, PortNotFound, Conflict, InvalidValue."""
        project = caller.project_id or caller.user_id
        if not nets:
            return [RequestedNetwork((await self.default_network(project))["uuid"])]
        found = [await self._resolve_one(project, entry) for entry in nets]
        if len({one.network_id for one in found}) < len(found):
            raise InvalidValue("A network is named more than once; a container joins an embedded network once.")
        return found

    async def _resolve_one(self, project: str, entry: Mapping[str, Any]) -> RequestedNetwork:
        if port := entry.get("port"):
            raise PortNotFound(str(port))
        ident = str(entry.get("network") or DEFAULT_NAME)
        async with self._db.read() as connection:
            rows = await store.find(connection, ident, project)
        if len(rows) > 1:
            raise Conflict(f"Multiple networks are named {ident}; use the id.")
        if not rows and ident != DEFAULT_NAME:
            raise NetworkNotFound(ident)
        row = rows[0] if rows else await self.default_network(project)
        if entry.get("v6-fixed-ip"):
            raise InvalidValue("The embedded network is IPv4 only; v6-fixed-ip is not possible.")
        address = entry.get("v4-fixed-ip")
        if address:
            await self._check_address(row, str(address))
        return RequestedNetwork(row["uuid"], v4_fixed_ip=str(address) if address else None)

    async def _check_address(self, row: RowMapping, address: str) -> None:
        number = _number(row, address)
        async with self._db.read() as connection:
            if await store.address_taken(connection, row["uuid"], number):
                raise InvalidValue(f"Address {address} is in use on network {row['uuid']}.")

    async def security_groups(self, caller: Caller, names: Sequence[str]) -> Sequence[str]:
        """Only ``default`` exists, and it needs no id. Raises InvalidValue."""
        for name in names:
            if name != DEFAULT_NAME:
                raise InvalidValue(f"Security group {name} not found.")
        return []

    async def port_id(self, caller: Caller, ident: str) -> str:
        """Ports of the embedded network cannot be named by users; those of containers are known by their id there."""
        raise PortNotFound(ident)

    async def default_network(self, project_id: str) -> RowMapping:
        """The project's own network, made if there is none. Raises Conflict when the pool is used up."""
        for _ in range(_ATTEMPTS):
            async with self._db.read() as connection:
                row = await store.default_of(connection, project_id)
            if row is not None:
                return row
            await self._make_default(project_id)
        raise Conflict(f"No network could be made for project {project_id}: others take every subnet first.")

    async def _make_default(self, project_id: str) -> None:
        routes = host_routes()

        async def make(connection: AsyncConnection) -> None:
            taken = routes + [IPv4Network(cidr) for cidr in await store.cidrs(connection)]
            subnet = first_free(self._pool, self._conf.subnet_prefix, taken)
            if subnet is None:
                raise Conflict(
                    f"There is no free subnet left in {self._pool} for another network; enlarge [local]/subnet_pool."
                )
            values = {
                "uuid": str(uuid4()),
                "subnet_uuid": str(uuid4()),
                "name": DEFAULT_NAME,
                "project_id": project_id,
                "shared": False,
                "cidr": str(subnet),
                "gateway": str(subnet[_GATEWAY]),
                "is_default": True,
                "created_at": self._clock.now(),
            }
            if await store.insert(connection, values):
                log.info("action=make-network network=%s project=%s subnet=%s", values["uuid"], project_id, subnet)

        await self._db.run(make)

    # -- the node's side ---------------------------------------------------------------------------

    async def expose(self, container: Container) -> Sequence[str] | None:
        """Nothing closes a port here."""
        return None

    async def ensure_ports(
        self, container: Container, requested: Sequence[RequestedNetwork], *, new: bool = False
    ) -> Sequence[Attachment]:
        """The container's ports, made or found by device id, in the order asked (S1.21). Raises NetworkSetupFailed."""
        for _ in range(_ATTEMPTS):
            try:
                return await self._db.run(lambda connection: self._ensure(connection, container.uuid, requested))
            except sa.exc.IntegrityError:
                log.info("action=ensure-ports container=%s result=raced", container.uuid)
        raise NetworkSetupFailed(f"No address could be given to container {container.uuid}: others are always faster.")

    async def _ensure(
        self, connection: AsyncConnection, device_id: str, requested: Sequence[RequestedNetwork]
    ) -> Sequence[Attachment]:
        wanted = [one.network_id for one in requested]
        await store.touch(connection, wanted, self._clock.now())
        networks = await store.get(connection, wanted)
        present = {port["network_uuid"]: port for port in await store.ports_of(connection, device_id)}
        positions = {port["position"] for port in present.values()}
        attachments = []
        for index, one in enumerate(requested):
            network = networks.get(one.network_id)
            if network is None:
                raise NetworkSetupFailed(f"Network {one.network_id} does not exist any more.")
            port: Any = present.get(one.network_id)
            if port is None:
                position = index if index not in positions else max(positions) + 1
                positions.add(position)
                port = await self._make_port(connection, network, one, device_id, position)
            attachments.append(self._attachment(network, port))
        return attachments

    async def _make_port(
        self, connection: AsyncConnection, network: RowMapping, one: RequestedNetwork, device_id: str, position: int
    ) -> dict[str, Any]:
        subnet = IPv4Network(network["cidr"])
        if one.v4_fixed_ip:
            number = _number(network, one.v4_fixed_ip)
            if await store.address_taken(connection, network["uuid"], number):
                raise NetworkSetupFailed(f"Address {one.v4_fixed_ip} is in use on network {network['uuid']}.")
        else:
            end = subnet.num_addresses - 1
            number = await store.free_number(connection, network["uuid"], _FIRST, end)
            if number >= end:
                raise NetworkSetupFailed(f"Network {network['uuid']} ({subnet}) has no free address left.")
        address = subnet[number]
        port = {
            "uuid": str(uuid4()),
            "network_uuid": network["uuid"],
            "device_id": device_id,
            "position": position,
            "number": number,
            "address": str(address),
            "mac": mac_of(address),
        }
        await store.insert_port(connection, port)
        return port

    def _attachment(self, network: RowMapping, port: Any) -> Attachment:
        return Attachment(
            network_id=network["uuid"],
            port_id=port["uuid"],
            subnet_id=network["subnet_uuid"],
            address=port["address"],
            mac=port["mac"],
            version=4,
            preserve_on_delete=False,
            engine_network=self._engine_network(network),
        )

    def _engine_network(self, network: RowMapping) -> EngineNetwork:
        options = {_BRIDGE_OPTION: bridge_of(network["uuid"])}
        if self._conf.mtu:
            options["com.docker.network.driver.mtu"] = str(self._conf.mtu)
        return EngineNetwork(
            name=f"{_PREFIX}{network['uuid']}",
            subnet=network["cidr"],
            gateway=network["gateway"],
            driver="bridge",
            options=options,
        )

    async def release_ports(self, container_uuid: str, *, exposed: bool = True) -> None:
        """Give the container's addresses back (S3.5). None is success."""

        async def release(connection: AsyncConnection) -> None:
            networks = {port["network_uuid"] for port in await store.ports_of(connection, container_uuid)}
            if networks:
                await store.touch(connection, sorted(networks), self._clock.now())  # networks are locked before ports
                await store.delete_ports(connection, container_uuid)

        await self._db.run(release)

    async def attach(self, container: Container, requested: RequestedNetwork) -> Sequence[Attachment]:
        """A port on one more network, then the bridge. Raises NetworkSetupFailed, EngineError."""
        attachments = await self.ensure_ports(container, [requested])
        await self._runtime.connect_network(container.uuid, attachments)
        return attachments

    async def detach(self, container: Container, network_id: str) -> None:
        """The engine's container leaves before its address can be another's. Raises EngineError."""
        with contextlib.suppress(EngineNotFound):
            await self._runtime.disconnect_network(container.uuid, f"{_PREFIX}{network_id}")

        async def release(connection: AsyncConnection) -> None:
            await store.touch(connection, [network_id], self._clock.now())
            await store.delete_port(connection, container.uuid, network_id)

        await self._db.run(release)

    async def change_security_groups(
        self, container_uuid: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> None:
        """Ports of the embedded network have no groups, and ``security_groups`` gives none out."""

    async def make_network(self, network_id: str) -> str:
        """The bridge, ahead of its first port. Raises NetworkNotFound."""
        async with self._db.read() as connection:
            rows = await store.get(connection, [network_id])
        if network_id not in rows:
            raise NetworkNotFound(network_id)
        network = self._engine_network(rows[network_id])
        await self._runtime.ensure_network(network)
        return network.name

    async def remove_network(self, network_id: str) -> bool:
        """Remove the bridge; was there one? Raises Conflict while containers or capsules are on it."""
        name = await self.engine_name(network_id)
        if not name:
            return False
        async with self._db.read() as connection:
            if await store.in_use(connection, network_id):  # the engine does not know of capsules' interfaces
                raise Conflict(f"Network {network_id} is in use: it has ports.")
        try:
            await self._runtime.remove_network(name)
        except EngineConflict as error:
            raise Conflict(f"Network {network_id} is in use: {error.text}.") from error
        return True

    async def engine_name(self, network_id: str) -> str:
        """The name of the engine's network, empty while it has none. Raises EngineError."""
        name = f"{_PREFIX}{network_id}"
        return name if name in await self._runtime.list_networks(name) else ""

    async def is_idle(self, network_id: str) -> bool:
        """Had it no port for a while, or is there no such network any more?"""
        async with self._db.read() as connection:
            known = await store.get(connection, [network_id])
        return network_id not in known or bool(await self._idle([network_id]))

    async def collect_idle(self) -> None:
        """Remove engine networks of ours without ports for a while; the row stays, and the next port remakes it."""
        names = await self._runtime.list_networks(_PREFIX)
        for start in range(0, len(names), 200):
            for uuid in await self._idle([name.removeprefix(_PREFIX) for name in names[start : start + 200]]):
                await self._remove_idle(uuid)

    async def ports(self) -> Sequence[Held]:
        """All of this deployment."""
        async with self._db.read() as connection:
            rows = await store.all_ports(connection)
        return [Held(row["uuid"], row["device_id"], ours=True) for row in rows]

    async def groups(self) -> Sequence[Held]:
        """There are none."""
        return []

    async def _idle(self, uuids: Sequence[str]) -> Sequence[str]:
        before = self._clock.now() - timedelta(seconds=self._conf.network_idle_seconds)
        async with self._db.read() as connection:
            return await store.idle(connection, uuids, before)

    async def _remove_idle(self, uuid: str) -> None:
        if not await self._idle([uuid]):  # used since the list was read
            return
        try:
            await self._runtime.remove_network(f"{_PREFIX}{uuid}")
        except EngineConflict as error:
            log.info("action=collect-network network=%s result=busy reason=%r", uuid, error.text)
        else:
            log.info("action=collect-network network=%s result=removed", uuid)


def _pool(conf: Any) -> IPv4Network:
    """Raises ConfigError."""
    try:
        pool = IPv4Network(conf.subnet_pool)
    except ValueError as error:
        raise ConfigError(f"[local]/subnet_pool is not an IPv4 subnet: {error}.") from error
    if pool.prefixlen > conf.subnet_prefix:
        raise ConfigError(f"[local]/subnet_prefix {conf.subnet_prefix} does not fit in the pool {pool}.")
    return pool


def bridge_of(network_id: str) -> str:
    """Name of the network's bridge, whoever makes it: Docker, or we ourselves for capsules where it is not."""
    return f"{BRIDGE_PREFIX}{network_id.replace('-', '')[:11]}"


def mac_of(address: IPv4Address) -> str:
    """A locally administered MAC made from the address: unique where the address is, and stable when it returns."""
    return "02:42:" + ":".join(f"{byte:02x}" for byte in address.packed)


def _number(network: RowMapping, address: str) -> int:
    """Number of an address within the network's subnet. Raises InvalidValue when containers cannot have it."""
    subnet = IPv4Network(network["cidr"])
    try:
        parsed = ipaddress.IPv4Address(address)
    except ValueError as error:
        raise InvalidValue(f"{address} is not an IPv4 address.") from error
    number = int(parsed) - int(subnet.network_address)
    if not _FIRST <= number < subnet.num_addresses - 1:
        raise InvalidValue(f"Address {address} is not one that containers on {subnet} can have.")
    return number
