"""Create a container (scenario 1): volumes, a host claimed, then row, quota and operation in one transaction.

Nothing of a request that fails stays: no row, no claim, no volume.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.control import container_quota, container_volumes, telling
from zun.control.base import Control
from zun.control.container_placing import give_back, place
from zun.control.container_record import Asked, note_ended, queue
from zun.control.container_unique import require_free_name
from zun.control.container_values import Mount
from zun.domain.container import Container, Type, VolumeMapping
from zun.domain.errors import BrokerUnreachable, HostUnreachable, ImageNotFound, RequestedHostNotFound, ZunError
from zun.domain.lifecycle import Status, Task
from zun.domain.operation import CAPSULE, Kind
from zun.scheduler.scheduler import NoValidHost, Selection
from zun.store import candidates
from zun.store import containers as store

LOG = logging.getLogger(__name__)

NOT_ENOUGH_HOSTS = "There are not enough hosts available."
"""Clients and operators know this text (S1.10)."""
NO_VALID_HOST = "no-valid-host"


@dataclass(frozen=True, slots=True)
class NewContainer:
    """What a checked create request asks for. ``container`` carries every value to be stored but host and status."""

    container: Container
    mounts: Sequence[Mount] = ()
    run: bool = False
    host: str | None = None
    """The host asked for by name."""
    registry: str | None = None
    """The uuid of the registry that ``container.registry_id`` names."""


async def check_quota(control: Control, container: Container) -> None:
    """Refuse early what the reservation would refuse anyway (S1.6). Raises OverQuota."""
    async with control.db.read() as connection:
        await container_quota.check(connection, control.conf, container.project_id, container.quota)


Also = Callable[[AsyncConnection, Container], Awaitable[None]]
"""What else is written in the transaction of the row; called several times perhaps, does database calls only."""


async def create(control: Control, asked: Asked, new: NewContainer, also: Also | None = None) -> Container:
    """The row as stored: ``Creating`` on its host, or ``Error`` when no host can take it (S1.11).

    Raises RequestedHostNotFound, ImageNotFound, OverQuota, ContainerAlreadyExists, the errors of volumes, and
    Unavailable; then nothing of the request is left.
    """
    if new.host is not None:
        await _require_host(control, new.host)
    container = dataclasses.replace(new.container, created_at=control.clock.now())
    mappings = await container_volumes.prepare(control, asked.caller, container, new.mounts)
    try:
        selection = await place(control, container, new.host)
    except NoValidHost as reason:
        return await _record_refused(control, asked, container, mappings, reason, also)
    except BaseException:
        await container_volumes.discard(control, mappings)
        raise
    try:
        await require_image(control, container, selection.host)
        placed = await _record_placed(control, asked, new, container, mappings, selection, also)
    except BaseException:
        await _take_back(control, container, mappings)
        raise
    await control.bus.ring(selection.host)
    return placed


async def _record_placed(
    control: Control,
    asked: Asked,
    new: NewContainer,
    container: Container,
    mappings: Sequence[VolumeMapping],
    selection: Selection,
    also: Also | None,
) -> Container:
    """Row, quota, mounts and the operation at once: all of it or nothing. The host is known from now on (S1.19)."""
    row = dataclasses.replace(
        container,
        host=selection.host,
        disk=selection.disk,
        status=Status.CREATING,
        task_state=Task.CREATING,
    )

    async def record(connection: AsyncConnection) -> None:
        await _insert(connection, control, row, mappings)
        await queue(connection, control, asked, row, Kind.CREATE, host=selection.host, params={"run": new.run})
        if also is not None:
            await also(connection, row)

    await control.db.run(record)
    return row


async def _record_refused(
    control: Control,
    asked: Asked,
    container: Container,
    mappings: Sequence[VolumeMapping],
    reason: NoValidHost,
    also: Also | None,
) -> Container:
    """No host: the row says so, and the action with what the scheduler found (S1.10, S1.11, S1.13)."""
    left = await container_volumes.discard(control, mappings)
    row = dataclasses.replace(container, status=Status.ERROR, status_reason=NOT_ENOUGH_HOSTS)

    async def record(connection: AsyncConnection) -> None:
        await _insert(connection, control, row, left)
        await note_ended(
            connection,
            control,
            asked,
            row,
            Kind.CREATE,
            step="schedule",
            error=reason.message,
            code=NO_VALID_HOST,
        )
        if also is not None:
            await also(connection, row)

    await control.db.run(record)
    telling.refused(control, asked, row, Kind.CREATE, reason.message)
    return row


async def _insert(
    connection: AsyncConnection, control: Control, row: Container, mappings: Sequence[VolumeMapping]
) -> None:
    await require_free_name(connection, control.conf, row.name, row.project_id)
    await container_quota.reserve(connection, control.conf, row.project_id, row.quota)
    await store.insert(connection, row)
    for mapping in mappings:
        await container_volumes.record(connection, mapping)


async def _take_back(control: Control, container: Container, mappings: Sequence[VolumeMapping]) -> None:
    try:
        await give_back(control, container.uuid)
    except ZunError as error:
        # The node's sync gives back claims whose container does not exist.
        LOG.warning("claim left behind container=%s reason=%s", container.uuid, error.message)
    await container_volumes.discard(control, mappings)


async def require_image(control: Control, container: Container, host: str) -> None:
    """With [api]/enable_image_validation the chosen node says whether the image exists, before there is a row.

    Raises ImageNotFound; Unavailable when neither node nor registry can tell.
    """
    if not control.conf.api.enable_image_validation:
        return
    wanted: dict[str, Any] = {
        "image": container.image,
        "image_driver": container.image_driver,
        "image_uuid": container.image_uuid,
        "image_pull_policy": container.image_pull_policy,
        "registry_id": container.registry_id,
    }
    if container.container_type != Type.CONTAINER:
        wanted[CAPSULE] = True
    deadline = float(control.conf.rpc_response_timeout)
    try:
        exists = await control.bus.call(host, "image_exists", wanted, deadline)
    except HostUnreachable as error:
        # Its text names the host, which is for administrators.
        LOG.warning("action=image_exists container=%s error=%s", container.uuid, error.message)
        text = "The chosen host did not say whether the image exists. Try again."
        if isinstance(error, BrokerUnreachable):
            text = "The message broker does not answer: the chosen host cannot say whether the image exists. Try again."
        raise HostUnreachable(text) from error
    if not exists:
        raise ImageNotFound(f"Image {container.image} could not be found.")


async def _require_host(control: Control, host: str) -> None:
    async with control.db.read() as connection:
        if await candidates.provider(connection, host) is None:
            raise RequestedHostNotFound(host)
