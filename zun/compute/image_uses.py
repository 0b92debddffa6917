"""Images that work at hand needs: had for it, kept until it is over, and noted where a pull of ours brought them."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Hashable

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.compute.node import Node
from zun.domain.errors import ZunError
from zun.domain.node_image import NodeImage
from zun.image.base import ImageRequest, Images, Progress
from zun.runtime.base import ImageFacts
from zun.store import node_images

LOG = logging.getLogger(__name__)


async def ensure(
    node: Node, driver: Images, request: ImageRequest, progress: Progress, who: Hashable, *, note: bool = True
) -> ImageFacts:
    """``driver.ensure``; the image stays in the engine until ``who`` is done with it (``ImageUses.free``). ``note``:
    it may be removed once no container uses it."""
    name = driver.engine_name(request)
    await node.image_uses.need(who, name)
    noted = note and _is_noted(node, driver, name)
    before = await _present(node, name) if noted else None
    facts = await driver.ensure(request, progress)
    while await node.image_uses.need(who, facts.image_id):  # under another name of it
        facts = await driver.ensure(request, progress)
    if noted:
        await _note(node, driver.name, name, before, facts)
    return facts


def _is_noted(node: Node, driver: Images, name: str) -> bool:
    """Only where images are removed at all; those of the capsules' engine are not."""
    wanted = node.conf.compute.image_unused_seconds > 0 and len(name) <= node_images.LONGEST
    return wanted and any(driver is known for known in node.images.values())


async def _present(node: Node, name: str) -> str:
    """The id that the name has before the pull; empty for none. Where that cannot be told the image counts as
    somebody else's."""
    try:
        found = await node.runtime.image(name)
    except ZunError as error:
        LOG.warning("action=image_care reference=%s result=not noted reason=%s", name, error.message)
        return "unknown"
    return found.image_id if found else ""


async def _note(node: Node, driver: str, name: str, before: str | None, facts: ImageFacts) -> None:
    """Never in the way of what the image was wanted for."""
    now = node.clock.now()
    image = NodeImage(node.host, driver, name, facts.image_id, now, now)

    async def record(connection: AsyncConnection) -> None:
        known = await node_images.get(connection, node.host, name)
        if not before:
            await node_images.put(connection, image)
        elif known is None:
            return  # it was there before us
        elif known.image_id == facts.image_id:
            await node_images.put(connection, dataclasses.replace(known, used_at=now))
        elif known.image_id == before:  # the name has moved: the older image is ours still
            await node_images.put(connection, dataclasses.replace(known, reference=before))
            await node_images.put(connection, image)
        else:  # somebody else has moved it meanwhile
            await node_images.forget(connection, node.host, name)

    try:
        await node.db.run(record)
    except ZunError as error:
        LOG.warning("action=image_care reference=%s result=not noted reason=%s", name, error.message)
    except Exception:
        LOG.exception("action=image_care reference=%s result=not noted", name)
