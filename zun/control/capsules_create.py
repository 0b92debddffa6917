"""Create a capsule (scenario 2): volumes, a host claimed, then all rows, quota and operation in one transaction.

Nothing of a request that fails stays: no row, no claim, no volume that it made.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.control import capsules_volumes, container_quota, telling
from zun.control.base import Control
from zun.control.container_placing import give_back, place
from zun.control.container_record import Asked, note_ended, queue
from zun.control.containers_create import NO_VALID_HOST, NOT_ENOUGH_HOSTS, require_image
from zun.domain.capsule import Volume
from zun.domain.container import Container, Type, VolumeMapping
from zun.domain.errors import ZunError
from zun.domain.lifecycle import Status, Task
from zun.domain.operation import CAPSULE, Kind
from zun.scheduler.scheduler import NoValidHost
from zun.store import capsules as store
from zun.store import containers as rows

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NewCapsule:
    """What a checked request asks for; the rows lack their host only."""

    capsule: Container
    members: Sequence[Container]
    volumes: Sequence[Volume] = ()


async def check_quota(control: Control, new: NewCapsule) -> None:
    """Refuse early what the reservation would refuse anyway. Raises OverQuota."""
    async with control.db.read() as connection:
        await container_quota.check(connection, control.conf, new.capsule.project_id, _amounts(new))


Also = Callable[[AsyncConnection, NewCapsule], Awaitable[None]]
"""What else is written in the transaction of the rows; called several times perhaps, does database calls only."""


async def create(control: Control, asked: Asked, new: NewCapsule, also: Also | None = None) -> NewCapsule:
    """The rows as stored: ``Creating`` on their host, or ``Error`` when no host can take the capsule (S2.2–S2.5).

    Raises OverQuota, ImageNotFound, the errors of volumes, and Unavailable; then nothing of the request is left.
    """
    mappings = await capsules_volumes.prepare(control, asked.caller, new.capsule, new.volumes)
    try:
        selection = await place(control, new.capsule)
    except NoValidHost as reason:
        return await _record_refused(control, asked, new, mappings, reason, also)
    except BaseException:
        await capsules_volumes.discard(control, mappings)
        raise
    placed = _with(new, host=selection.host, status=Status.CREATING, task_state=Task.CREATING)
    try:
        for image in {member.image: member for member in placed.members}.values():
            await require_image(control, image, selection.host)
        await _record_placed(control, asked, placed, mappings, selection.host, also)
    except BaseException:
        await _take_back(control, new.capsule, mappings)
        raise
    await control.bus.ring(selection.host)
    return placed


async def _record_placed(
    control: Control,
    asked: Asked,
    new: NewCapsule,
    mappings: Sequence[VolumeMapping],
    host: str,
    also: Also | None,
) -> None:
    waits = any(member.container_type == Type.INIT for member in new.members)
    more = control.conf.compute.capsule_init_timeout if waits else 0

    async def record(connection: AsyncConnection) -> None:
        await _insert(connection, control, new, mappings)
        await queue(
            connection,
            control,
            asked,
            new.capsule,
            Kind.CREATE,
            host=host,
            params={CAPSULE: True, "run": False},
            more_seconds=more,
        )
        if also is not None:
            await also(connection, new)

    await control.db.run(record)


async def _record_refused(
    control: Control,
    asked: Asked,
    new: NewCapsule,
    mappings: Sequence[VolumeMapping],
    reason: NoValidHost,
    also: Also | None,
) -> NewCapsule:
    """No host: the rows say so, and the action with what the scheduler found."""
    left = await capsules_volumes.discard(control, mappings)
    refused = _with(new, status=Status.ERROR, status_reason=NOT_ENOUGH_HOSTS)

    async def record(connection: AsyncConnection) -> None:
        await _insert(connection, control, refused, left)
        await note_ended(
            connection,
            control,
            asked,
            refused.capsule,
            Kind.CREATE,
            step="schedule",
            error=reason.message,
            code=NO_VALID_HOST,
        )
        if also is not None:
            await also(connection, refused)

    await control.db.run(record)
    telling.refused(control, asked, refused.capsule, Kind.CREATE, reason.message)
    return refused


def _with(new: NewCapsule, **values: object) -> NewCapsule:
    """Capsule and members with the same values; only the capsule has a task."""
    of_members = {name: value for name, value in values.items() if name != "task_state"}
    members = [dataclasses.replace(member, **of_members) for member in new.members]  # type: ignore[arg-type]
    return dataclasses.replace(new, capsule=dataclasses.replace(new.capsule, **values), members=members)  # type: ignore[arg-type]


async def _insert(
    connection: AsyncConnection, control: Control, new: NewCapsule, mappings: Sequence[VolumeMapping]
) -> None:
    await container_quota.reserve(connection, control.conf, new.capsule.project_id, _amounts(new))
    await rows.insert(connection, new.capsule, *new.members)
    for mapping in mappings:
        await capsules_volumes.record(connection, mapping)


def _amounts(new: NewCapsule) -> dict[str, int]:
    return store.sum_of([new.capsule, *new.members])


async def _take_back(control: Control, capsule: Container, mappings: Sequence[VolumeMapping]) -> None:
    try:
        await give_back(control, capsule.uuid)
    except ZunError as error:
        # The node's sync gives back claims whose capsule does not exist.
        LOG.warning("claim left behind capsule=%s reason=%s", capsule.uuid, error.message)
    await capsules_volumes.discard(control, mappings)
