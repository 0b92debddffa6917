"""Start, stop, reboot, pause, unpause, kill, rebuild: announced in the row and left for the node in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.control import container_quota, container_volumes
from zun.control.base import Control
from zun.control.container_exclusive import changing, exclusive
from zun.control.container_placing import give_back, place
from zun.control.container_record import Asked, queue
from zun.control.containers_create import NOT_ENOUGH_HOSTS
from zun.control.containers_lookup import again, require_host
from zun.domain.container import Container
from zun.domain.errors import Conflict
from zun.domain.lifecycle import Status, Task, require
from zun.domain.operation import Kind
from zun.scheduler.scheduler import NoValidHost, Selection
from zun.store import containers as store
from zun.store import volume_mappings

LOG = logging.getLogger(__name__)

TRIES = 5
"""Times a row that changed under us is read again before the caller is told."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """What the row says as soon as the request is accepted. ``status`` None: as it was."""

    task: Task
    status: Status | None = None


ANNOUNCED: Mapping[str, Announcement] = {
    Kind.START: Announcement(Task.STARTING),
    Kind.STOP: Announcement(Task.STOPPING),
    Kind.REBOOT: Announcement(Task.REBOOTING, Status.RESTARTING),
    Kind.PAUSE: Announcement(Task.PAUSING),
    Kind.UNPAUSE: Announcement(Task.UNPAUSING),
    Kind.KILL: Announcement(Task.KILLING),
    Kind.REBUILD: Announcement(Task.REBUILDING, Status.REBUILDING),
}

PLACEABLE = frozenset({Kind.START, Kind.REBOOT, Kind.REBUILD})
"""What gives a container without host (its create failed) another try on a host chosen anew."""


async def request(control: Control, asked: Asked, container: Container, kind: str, params: Mapping[str, Any]) -> None:
    """Accept the operation. Raises InvalidStateException, ContainerHostNotUp, Conflict; nothing is half-announced."""
    for _ in range(TRIES):
        require(kind, container.uuid, container.status)
        if container.host is None and kind in PLACEABLE:
            host = await _place_anew(control, asked, container, kind, params)
        else:
            host = await require_host(control, asked.caller, container)
            if not await _announce(control, asked, container, kind, params):
                host = None
        if host is not None:
            await control.bus.ring(host)
            return
        container = await again(control, container.uuid)
    raise changing(container)


def as_read(container: Container) -> dict[str, Any]:
    """What a guarded write expects of the row: the facts its decision was made from."""
    return {"status": container.status, "host": container.host, "task_state": container.task_state}


async def _announce(
    control: Control,
    asked: Asked,
    container: Container,
    kind: str,
    params: Mapping[str, Any],
    selection: Selection | None = None,
) -> bool:
    """Status, task and operation at once; False when the row is no longer as read."""
    said, host = ANNOUNCED[kind], selection.host if selection else container.host
    values: dict[str, Any] = {"task_state": container.task_state or said.task}
    if said.status is not None:
        values["status"] = said.status
    if selection is not None:
        values |= {"host": selection.host, "disk": selection.disk, "status_reason": None}
    full = {**params, "status_before": container.status}
    if kind == Kind.REBUILD:
        full["run"] = container.status == Status.RUNNING

    async def announce(connection: AsyncConnection) -> bool:
        if not await store.update(connection, container.uuid, as_read(container), values, control.clock.now()):
            return False
        if selection is not None and selection.disk != container.disk:
            await container_quota.reserve(
                connection, control.conf, container.project_id, {"disk": selection.disk - container.disk}
            )
        await queue(
            connection,
            control,
            asked,
            container,
            kind,
            host=str(host),
            params=full,
            makes_container=container.container_id is None,
        )
        return True

    return await control.db.run(announce)


async def _place_anew(
    control: Control, asked: Asked, container: Container, kind: str, params: Mapping[str, Any]
) -> str | None:
    """Claim a host for a row without one and announce; its name, None when the row is no longer as read.

    A claim replaces what the consumer held, so only one request at a time may place a container.
    """
    async with exclusive(control, asked, container):
        await _make_missing_volumes(control, asked, container)
        try:
            selection = await place(control, container)
        except NoValidHost as reason:
            LOG.info("action=%s container=%s result=refused reason=%s", kind, container.uuid, reason.message)
            raise Conflict(NOT_ENOUGH_HOSTS) from reason
        try:
            if await _announce(control, asked, container, kind, params, selection):
                return selection.host
        except BaseException:
            await give_back(control, container.uuid)
            raise
        await give_back(control, container.uuid)
        return None


async def _make_missing_volumes(control: Control, asked: Asked, container: Container) -> None:
    """Volumes of ``size`` mounts that were deleted when the container found no host."""
    async with control.db.read() as connection:
        mappings = await volume_mappings.of_container(connection, container.uuid)
    for mapping in mappings:
        if mapping.kind == "volume" and mapping.volume_id is None and container_volumes.SIZE in mapping.connection:
            made = await container_volumes.make(control, asked.caller, mapping)
            async with control.db.write() as connection:
                await container_volumes.require(connection, made)
                kept = await volume_mappings.set_volume(connection, mapping.uuid, str(made.volume_id))
            if not kept:
                await container_volumes.discard(control, [made])
