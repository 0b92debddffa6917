"""Commit: an image of the container, made by the engine and then sent to where images are kept.

Only the first part concerns the container, which goes on (and may be deleted) while the data is sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging

from zun.compute.node import Node
from zun.compute.operations.common import reason_of
from zun.compute.work import Outcome, Work
from zun.domain.errors import ImageStoreFailed, InvalidValue, ZunError
from zun.domain.image import COMMITTED, parse_reference
from zun.domain.operation import Kind
from zun.image.base import ImageStore, NewImage
from zun.store import operations

LOG = logging.getLogger(__name__)


def _mine(node: Node) -> str:
    """What names of this node's images begin with: agents of several deployments may share an engine."""
    return f"{COMMITTED}/{hashlib.sha256(node.owner.encode()).hexdigest()[:16]}"


def engine_name(node: Node, uuid: str) -> str:
    """What the image is called in the engine until it is sent."""
    return f"{_mine(node)}/{uuid}:latest"


async def run(work: Work) -> Outcome:
    """Safe to run again: what the engine has made is not made twice, what has been sent is not sent again."""
    node, image = work.node, _image(work)
    name = engine_name(node, image.uuid)
    try:
        store = _store(node)
        if work.params.get("abandoned"):
            raise ImageStoreFailed("The request for this image was not accepted in the end.")
        if await node.runtime.image(name) is None:
            if work.container is None:
                raise ImageStoreFailed("The container is gone.")
            async with work.journal.step("commit"):
                await node.runtime.commit(work.uuid, name)
        await work.leave()
        async with work.journal.step("upload") as progress:
            await store.upload(image, node.runtime.export_image(name, _shown(image, name)), progress)
        await node.runtime.remove_image(name)
    except asyncio.CancelledError:
        if not node.stopping:  # ended from elsewhere: nobody comes back to it
            await asyncio.shield(_clean_quietly(node, image.uuid))
        raise
    return Outcome()


async def fail(work: Work, error: Exception) -> Outcome:
    """The record without data goes, and so does the engine's image; the action says why."""
    await clean(work.node, _image(work).uuid)
    return Outcome(error=reason_of(error))


async def clean(node: Node, uuid: str) -> None:
    """Remove what an image that will not be has left. Raises ZunError."""
    if node.image_store is not None:
        await node.image_store.discard(uuid)
    await node.runtime.remove_image(engine_name(node, uuid))


async def clean_leftovers(node: Node) -> int:
    """Images in the engine whose commit was given up while nobody here could clean; how many."""
    names = await node.runtime.images_of(_mine(node))
    if not names:
        return 0
    async with node.db.read() as connection:
        wanted = {
            operation.params.get("image") for operation in await operations.of_kind(connection, node.host, Kind.COMMIT)
        }
    left = [uuid for uuid in (name.rpartition("/")[2].partition(":")[0] for name in names) if uuid not in wanted]
    return sum([await _clean_quietly(node, uuid) for uuid in left])


async def _clean_quietly(node: Node, uuid: str) -> bool:
    try:
        await clean(node, uuid)
    except ZunError as error:
        LOG.warning("action=commit image=%s result=left behind reason=%s", uuid, error.message)
        return False
    LOG.info("action=commit image=%s result=cleaned up", uuid)
    return True


def _image(work: Work) -> NewImage:
    return NewImage(work.params["image"], work.params["repository"], work.params["tag"])


def _store(node: Node) -> ImageStore:
    if node.image_store is None:
        raise ImageStoreFailed("This host has no image service to keep images in.")
    return node.image_store


def _shown(image: NewImage, otherwise: str) -> str:
    """The name inside the archive: what the user asked for where that can be an image's name."""
    try:
        return str(parse_reference(f"{image.repository}:{image.tag}"))
    except InvalidValue:
        return otherwise
