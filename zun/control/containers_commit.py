"""Commit: the image is on record at once, in the caller's name; the node makes it and sends its data later."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from zun.control.base import Control
from zun.control.container_record import Asked, queue
from zun.control.containers_lookup import require_host
from zun.domain.container import Container
from zun.domain.errors import Conflict, ZunError
from zun.domain.lifecycle import require
from zun.domain.operation import Kind
from zun.image.base import NewImage
from zun.store import operations

HELD = timedelta(seconds=60)
"""How long the node leaves the operation alone, should this process die before the image is on record."""


async def commit(control: Control, asked: Asked, container: Container, repository: str, tag: str) -> str:
    """The new image's id. The operation is written first: whatever happens then, somebody knows of the image.

    Raises InvalidStateException, ContainerHostNotUp, Conflict where images cannot be kept, what the image service
    says to the caller, and Unavailable; then no image is left.
    """
    store = control.image_store
    require("commit", container.uuid, container.status)
    if store is None:
        raise Conflict("Making an image of a container is not offered by this deployment: it has no Glance.")
    host = await require_host(control, asked.caller, container)
    image = NewImage(str(uuid4()), repository, tag)
    params: dict[str, Any] = {"image": image.uuid, "repository": repository, "tag": tag}
    async with control.db.write() as connection:
        until = control.clock.now() + HELD
        operation_id = await queue(
            connection, control, asked, container, Kind.COMMIT, host=host, params=params, not_before=until
        )
    try:
        await store.announce(asked.caller, image)
    except ZunError as error:
        await _give_up(control, operation_id, params, error)
        await control.bus.ring(host)
        raise
    async with control.db.write() as connection:
        await operations.let_go(connection, operation_id)
    await control.bus.ring(host)
    return image.uuid


async def _give_up(control: Control, operation_id: int, params: dict[str, Any], error: ZunError) -> None:
    """A refusal is the end. Where no answer came the image may exist: the node removes it, and its action ends."""
    async with control.db.write() as connection:
        if error.retryable:
            await operations.let_go(connection, operation_id, {**params, "abandoned": True})
            return
        now = control.clock.now()
        if await operations.finish(connection, operation_id, worker=None, now=now, error=True):
            await operations.add_event(
                connection, operation_id, "record_image", started=now, finished=now, error=error.message
            )
