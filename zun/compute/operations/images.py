"""Images pulled to this host ahead of time, and removed from it. The operation's subject is the image's record."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from zun.compute import image_uses
from zun.compute.holdings.image import image_request
from zun.compute.operations.common import reason_of
from zun.compute.work import Outcome, Work
from zun.domain.errors import ImageFailed
from zun.image.base import ImageRequest, Images
from zun.store import images

LOG = logging.getLogger(__name__)


async def pull(work: Work) -> Outcome:
    """The record says what the engine has only when it has it."""
    row = await _row(work)
    if row is None:
        return Outcome(error="The image's record is gone.")
    driver, request = await _wanted(work, row)
    async with work.journal.step("image") as progress:
        facts = await image_uses.ensure(work.node, driver, request, progress, work.operation.id, note=False)
    now = work.node.clock.now()
    record = partial(images.set_pulled, uuid=work.uuid, image_id=facts.image_id, size=facts.size, now=now)
    return Outcome(record=record)


async def fail_pull(work: Work, error: Exception) -> Outcome:
    """There is no word for an image that could not be had: its record goes, the log says why."""
    LOG.warning("action=image_pull image=%s result=failed reason=%s", work.uuid, reason_of(error))
    return Outcome(error=reason_of(error), record=partial(images.delete, uuid=work.uuid))


async def delete(work: Work) -> Outcome:
    """Absent is success; what a container uses by now stays, with its record."""
    row = await _row(work)
    if row is not None:
        driver, request = await _wanted(work, row)
        async with work.journal.step("remove_image"):
            await driver.forget(request)
    return Outcome(record=partial(images.delete, uuid=work.uuid))


async def fail_delete(work: Work, error: Exception) -> Outcome:
    """The record stays, and with it the way to ask again."""
    return Outcome(error=reason_of(error))


async def _row(work: Work) -> Mapping[str, Any] | None:
    async with work.node.db.read() as connection:
        return await images.get(connection, work.uuid)


async def _wanted(work: Work, row: Mapping[str, Any]) -> tuple[Images, ImageRequest]:
    driver = work.node.images.get(row["image_driver"])
    if driver is None:
        raise ImageFailed(f"This host has no image driver '{row['image_driver']}'")
    separator = "@" if ":" in row["tag"] else ":"
    name = f"{row['repo']}{separator}{row['tag']}" if row["tag"] else row["repo"]
    request = await image_request(work.node, None, driver.name, name, "always", row["image_uuid"])
    return driver, request
