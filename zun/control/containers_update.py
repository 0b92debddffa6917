"""Change name, healing, cpu and memory of a container."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zun.control import container_quota
from zun.control.base import Control
from zun.control.container_exclusive import Turn, changing, exclusive
from zun.control.container_record import Asked
from zun.control.container_unique import require_free_name
from zun.control.containers_lookup import again, require_host
from zun.control.containers_queries import ask_node
from zun.domain.container import Container
from zun.domain.errors import Conflict, ContainerHostNotUp, ZunError
from zun.domain.numa import cpus_needed
from zun.domain.resources import Amounts
from zun.store import candidates
from zun.store import containers as store

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Size:
    """cpu in cores, memory in MiB."""

    cpu: float
    memory: int

    def quota(self) -> dict[str, int]:
        return {"cpu": round(self.cpu * 1000), "memory": self.memory}


async def update(control: Control, asked: Asked, container: Container, changes: Mapping[str, Any]) -> Container:
    """Apply ``name``, ``auto_heal``, ``cpu``, ``memory`` (those given); the row afterwards. The size is changed first,
    because only it can be refused by the node.

    Raises OverQuota, ContainerHostNotUp, HostUnreachable, ContainerAlreadyExists, Conflict.
    """
    if "cpu" in changes or "memory" in changes:
        async with exclusive(control, asked, container) as turn:
            container = await again(control, container.uuid)
            wanted = Size(changes.get("cpu", container.cpu), changes.get("memory", container.memory))
            if wanted != Size(container.cpu, container.memory):
                await _resize(control, asked, container, wanted, turn)
    plain = {name: changes[name] for name in ("name", "auto_heal") if name in changes}
    if plain:
        await _write(control, container, plain)
    return await again(control, container.uuid) if changes else container


async def rename(control: Control, container: Container, name: str) -> Container:
    """A new name (up to 1.13). Raises Conflict for the same name, ContainerAlreadyExists for a taken one."""
    if name == container.name:
        raise Conflict("The new name for the container is the same as the old name.")
    await _write(control, container, {"name": name})
    return await again(control, container.uuid)


async def _write(control: Control, container: Container, values: Mapping[str, Any]) -> None:
    async with control.db.write() as connection:
        if "name" in values and values["name"] != container.name:
            await require_free_name(connection, control.conf, values["name"], container.project_id)
        if not await store.update(connection, container.uuid, {}, values, control.clock.now()):
            raise changing(container)


async def _resize(control: Control, asked: Asked, container: Container, wanted: Size, turn: Turn) -> None:
    """Claim, engine, then row and quota at once: each step is undone when a later one is refused. Quota is counted
    in the transaction of the row it is for, so that no death in between leaves it counted. A node that did not answer
    may have done it all the same: that is set right later."""
    old = Size(container.cpu, container.memory)
    if container.cpu_policy == "dedicated" and cpus_needed(wanted.cpu) != cpus_needed(old.cpu):
        raise Conflict("A container with cpu_policy dedicated keeps the number of its CPUs; create another one.")
    host = await require_host(control, asked.caller, container)
    more, less = _difference(old, wanted)
    async with control.db.read() as connection:
        await container_quota.check(connection, control.conf, container.project_id, more)
    held = Size(max(old.cpu, wanted.cpu), max(old.memory, wanted.memory))  # nobody else's until the engine agreed
    turn.unsure = True
    if held != old:
        await claim_size(control, container, host, held)
    try:
        await _tell_node(control, asked, container, wanted)
        try:
            await _store_size(control, container, old, wanted, more, less)
        except BaseException:
            await _tell_node(control, asked, container, old)
            raise
    except BaseException as error:
        if held != old:
            await claim_size(control, container, host, old)
        turn.unsure = not isinstance(error, ZunError) or error.retryable
        raise
    turn.unsure = False
    if held != wanted:
        await _give_rest_back(control, container, host, wanted)


async def _give_rest_back(control: Control, container: Container, host: str, size: Size) -> None:
    """The container has its new size by now: what it held beyond that is nobody's fault to wait for."""
    try:
        await claim_size(control, container, host, size)
    except ZunError as error:
        LOG.warning("action=resize container=%s result=larger claim kept reason=%s", container.uuid, error.message)


async def _tell_node(control: Control, asked: Asked, container: Container, size: Size) -> None:
    params = {"uuid": container.uuid, "cpu": size.cpu, "memory": size.memory}
    await ask_node(control, asked.caller, container, "update", params)


def _difference(old: Size, new: Size) -> tuple[dict[str, int], dict[str, int]]:
    """(what is asked more, what less), for quota."""
    before, after = old.quota(), new.quota()
    more = {name: after[name] - before[name] for name in after if after[name] > before[name]}
    less = {name: before[name] - after[name] for name in after if after[name] < before[name]}
    return more, less


async def claim_size(control: Control, container: Container, host: str, size: Size) -> None:
    """Raises Conflict where there is no room, ContainerHostNotUp where the host has no provider."""
    async with control.db.read() as connection:
        found = await candidates.provider(connection, host)
    if found is None:
        raise ContainerHostNotUp(container.uuid)
    amounts = Amounts(size.cpu, size.memory, container.disk)
    resources = amounts.placement(fractional=control.conf.compute.fractional_cpu)
    claimed = await control.placement.claim(
        container.uuid, found[0], resources, project_id=container.project_id, user_id=container.user_id
    )
    if not claimed:
        raise Conflict(f"The host of container {container.uuid} has no room for the new size.")


async def _store_size(
    control: Control, container: Container, old: Size, new: Size, more: Mapping[str, int], less: Mapping[str, int]
) -> None:
    expect = {"cpu": old.cpu, "memory": old.memory}
    values = {"cpu": new.cpu, "memory": new.memory}
    async with control.db.write() as connection:
        if not await store.update(connection, container.uuid, expect, values, control.clock.now()):
            raise changing(container)
        await container_quota.reserve(connection, control.conf, container.project_id, more)
        await container_quota.give_back(connection, container.project_id, less)
