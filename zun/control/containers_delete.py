"""Delete a container (scenario 3): accepted at once, done by its node; without a host done from here.

What a second DELETE means while the first is at work: docs/decisions/0002-parallel-deletes.md.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.control import container_volumes, containers_lost, telling
from zun.control.base import Control
from zun.control.container_exclusive import changing
from zun.control.container_placing import give_back
from zun.control.container_record import Asked, queue
from zun.control.containers_lookup import again, host_is_up
from zun.control.containers_power import TRIES, as_read
from zun.domain.container import Container, Type
from zun.domain.errors import ZunError
from zun.domain.lifecycle import Status, Task, require
from zun.domain.notification import Phase
from zun.domain.operation import CAPSULE, FREED, Kind, Operation
from zun.store import capsules, operations, volume_mappings
from zun.store import containers as store

LOG = logging.getLogger(__name__)

STOP_SECONDS = 10
"""Grace of the stop that ``stop=true`` asks for."""

HERE = ""
"""``host`` of operations that the control plane carries out itself."""

HERE_SECONDS = 60
"""After this the reaper finishes a delete from here, should its process have died."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How to delete; ``force`` was allowed by rule before."""

    force: bool = False
    stop: bool = False
    any_status: bool = False
    """Whatever the status, and whatever is at work: that is called off (capsules)."""

    @property
    def word(self) -> str:
        """The operation as the status table names it; both flags count as stop (contract §10.3)."""
        if self.stop:
            return "delete_after_stop"
        return "delete_force" if self.force else "delete"


async def delete(control: Control, asked: Asked, container: Container, manner: Manner) -> None:
    """Accept the delete. Raises InvalidStateException (S3.1); Unavailable when something it has to give back from
    here does not answer."""
    for _ in range(TRIES):
        async with control.db.read() as connection:
            live = await operations.unfinished_of_container(connection, container.uuid)
        lost = container.host is not None and not await host_is_up(control, container.host)
        if _is_under_way(live, manner):
            if not lost or await containers_lost.free(control, container, live):
                return
            container = await again(control, container.uuid)
            continue
        stuck = manner.any_status or _given_up(control, container, live, lost=lost)
        if not (stuck or _left_half_deleted(container, live)):
            require(manner.word, container.uuid, container.status)
        if container.host is None:
            done = await _delete_here(control, asked, container)
        elif manner.force and lost:
            done = await _delete_without_node(control, asked, container, container.host)
        else:
            cancel = manner.force or stuck
            frees = lost and control.conf.compute.free_on_lost_host
            done = await _leave_to_node(control, asked, container, manner, cancel=cancel, frees=frees)
            if done and frees:
                await containers_lost.release_allocation(control, container.uuid)
        if done:
            return
        container = await again(control, container.uuid)
    raise changing(container)


def _is_under_way(live: Sequence[Operation], manner: Manner) -> bool:
    """A delete is queued or running already, and this one asks for nothing stronger."""
    deletes = [operation for operation in live if operation.kind == Kind.DELETE]
    forced = any(operation.params.get("force") for operation in deletes)
    return bool(deletes) and (forced or not manner.force)


def _given_up(control: Control, container: Container, live: Sequence[Operation], *, lost: bool) -> bool:
    """May the owner give a container up that is still ``Creating``: half its time is over, or nobody works on it, its
    host being down (S1.26)."""
    if container.status != Status.CREATING:
        return False
    if lost:
        return True
    creates = [operation for operation in live if operation.kind == Kind.CREATE]
    now = control.clock.now()
    return all(now >= one.start_time + (one.deadline - one.start_time) / 2 for one in creates)


def _left_half_deleted(container: Container, live: Sequence[Operation]) -> bool:
    """A delete from here that was cut off: the row says so, has no host, and nobody works on it."""
    return container.status == Status.DELETING and container.host is None and not live


async def _leave_to_node(
    control: Control, asked: Asked, container: Container, manner: Manner, *, cancel: bool, frees: bool
) -> bool:
    """``Deleting``, and the operations for the node, whether it is up or will be (S3.2, S3.4). ``frees``: its quota
    is given back now."""
    host = str(container.host)
    values: dict[str, Any] = {"status": Status.DELETING, "task_state": Task.DELETING}
    if frees:
        values["counted"] = False
    stop = manner.stop and container.status == Status.RUNNING

    async def announce(connection: AsyncConnection) -> bool:
        if not await store.update(connection, container.uuid, as_read(container), values, control.clock.now()):
            return False
        first: int | None = None
        if stop:
            params: dict[str, Any] = {"timeout": STOP_SECONDS}
            first = await queue(connection, control, asked, container, Kind.STOP, host=host, params=params)
        if frees:
            await capsules.stop_counting(connection, container, control.clock.now())
        params = {"force": manner.force, "stop": stop, "status_before": container.status, **kind_of(container)}
        if frees:
            params[FREED] = True
        last = await queue(connection, control, asked, container, Kind.DELETE, host=host, params=params)
        if cancel:
            before = last if first is None else first
            await operations.cancel_unfinished(connection, container.uuid, control.clock.now(), before=before)
        return True

    if not await control.db.run(announce):
        return False
    await control.bus.ring(host)
    return True


async def _delete_here(control: Control, asked: Asked, container: Container) -> bool:
    """A row without host: ports, allocation and volumes are given back from the control plane, then it goes (S3.3).

    The operation is no node's: should this process die, the reaper finishes it.
    """
    claimed = {"status": Status.DELETING, "task_state": Task.DELETING}
    async with control.db.write() as connection:
        now = control.clock.now()
        if not await store.update(connection, container.uuid, as_read(container), claimed, now):
            return False
        operation_id = await operations.insert(
            connection,
            container_uuid=container.uuid,
            kind=Kind.DELETE,
            host=HERE,
            request_id=asked.request_id,
            user_id=asked.caller.user_id,
            project_id=asked.caller.project_id or container.project_id,
            params=kind_of(container),
            now=now,
            deadline=now + timedelta(seconds=HERE_SECONDS),
        )
    telling.tell(control, asked, container, Kind.DELETE, Phase.START)
    try:
        await finish_here(control, container.uuid, operation_id)
    except BaseException as error:
        telling.tell(control, asked, container, Kind.DELETE, Phase.ERROR, str(error))
        back = {"status": Status.ERROR, "task_state": None}
        async with control.db.write() as connection:
            now = control.clock.now()
            await store.lock(connection, container.uuid)
            await operations.finish(connection, operation_id, worker=None, now=now, error=True)
            await store.update(connection, container.uuid, {"status": Status.DELETING, "host": None}, back, now)
        raise
    telling.tell(control, asked, _gone(container), Kind.DELETE, Phase.END)
    return True


def _gone(container: Container) -> Container:
    return dataclasses.replace(container, status=Status.DELETED)


async def finish_here(control: Control, uuid: str, operation_id: int) -> None:
    """Give back what a container without host holds, remove its row, end the operation. Safe to run again."""
    started = control.clock.now()
    async with control.db.read() as connection:
        mappings = await volume_mappings.of_container(connection, uuid)
    await release_from_here(control, uuid)
    await container_volumes.discard(control, mappings)

    async def finish(connection: AsyncConnection) -> None:
        now = control.clock.now()
        await store.lock(connection, uuid)
        if await operations.finish(connection, operation_id, worker=None, now=now, error=False):
            await operations.add_event(connection, operation_id, "release", started=started, finished=now, error=None)
        if await capsules.remove(connection, uuid, {"status": Status.DELETING, "host": None}):
            await volume_mappings.delete_of_container(connection, uuid)

    await control.db.run(finish)


async def _delete_without_node(control: Control, asked: Asked, container: Container, host: str) -> bool:
    """Forced while the host is down: everything the control plane can free is free at once, the row goes; the node
    finds a tombstone when it returns and removes what it still has, mounts included (S3.2)."""

    async with control.db.read() as connection:
        mappings = await volume_mappings.of_container(connection, container.uuid)

    async def entomb(connection: AsyncConnection) -> bool:
        now = control.clock.now()
        claimed = {"status": Status.DELETING, "task_state": Task.DELETING}
        if not await store.update(connection, container.uuid, as_read(container), claimed, now):
            return False
        params = {
            "force": True,
            "tombstone": True,
            "container_id": container.container_id,
            **kind_of(container),
        }
        tomb = await queue(connection, control, asked, container, Kind.DELETE, host=host, params=params)
        await operations.cancel_unfinished(connection, container.uuid, now, before=tomb)
        await capsules.remove(connection, container.uuid, {"status": Status.DELETING})
        return True

    if not await control.db.run(entomb):
        return False
    LOG.warning("action=delete container=%s host=%s result=tombstone reason=host down", container.uuid, host)
    telling.tell(control, asked, container, Kind.DELETE, Phase.START)
    telling.tell(control, asked, _gone(container), Kind.DELETE, Phase.END)
    try:
        await release_from_here(control, container.uuid)
    except ZunError as error:
        # The tombstone walks the same way once the node is back.
        LOG.warning("action=delete container=%s result=release postponed reason=%s", container.uuid, error.message)
    await container_volumes.let_go(control, mappings)
    return True


async def release_from_here(control: Control, uuid: str) -> None:
    """Ports, then the allocation; both are found by the container's uuid in the services themselves."""
    await control.network.release_ports(uuid)
    await give_back(control, uuid)


def kind_of(container: Container) -> dict[str, Any]:
    """Parameter of operations of capsules: by it they are known when the row is gone."""
    return {CAPSULE: True} if container.container_type == Type.CAPSULE else {}
