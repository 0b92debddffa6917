"""Images that nothing has used for long are removed while the engine's disk is too full (decision 0096).

Only those that pulls of ours brought; the engine has the last word. Runs in zun-compute, as a task of its own: removals
may take long, and the heartbeat must not.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

from zun.compute import disk
from zun.compute.node import LONGEST_ROUND, Node
from zun.domain.errors import EngineConflict, EngineError, EngineUnreachable, ZunError
from zun.domain.node_image import Marks, Needed, NodeImage, removable
from zun.store import node_images

LOG = logging.getLogger(__name__)


class ImageCare:
    """``round`` does it once; ``run`` every ``periodic_interval_max`` seconds."""

    def __init__(self, node: Node) -> None:
        self._node = node
        conf = node.conf.compute
        self._marks = Marks(conf.image_high_percent, conf.image_low_percent)
        self._unused = timedelta(seconds=conf.image_unused_seconds)
        self._interval = float(node.conf.periodic_interval_max)
        self._told = False

    async def run(self) -> None:
        """Returns at once where nothing is ever removed."""
        while self._unused:
            self._beat()
            try:
                await self.round()
            except ZunError as error:
                LOG.warning("action=image_care result=failed reason=%s", error.message)
            except Exception:
                LOG.exception("action=image_care result=crashed")
            await self._node.clock.sleep(self._interval)

    def _beat(self) -> None:
        self._node.vitals.beat("images", self._interval + LONGEST_ROUND)

    async def round(self) -> None:
        """Note what is in use; between the marks, remove what is not."""
        root = (await self._node.runtime.info()).root_dir
        candidates = list(await self._candidates())
        use, begun = await disk.percent(self._node, [root]), False
        while candidates and self._marks.wanting(use, begun=begun):
            begun = True
            self._beat()
            image = candidates.pop(0)
            size = await self._remove(image)
            use = await disk.percent(self._node, [root])
            if size is not None:
                LOG.info(
                    "action=image_care reference=%s image=%s size=%d disk=%.1f%% result=removed",
                    image.reference, image.image_id, size, use,
                )  # fmt: skip
        if begun:
            self._node.usage_changed()  # the host may take containers again
        self._tell(use)

    def _tell(self, use: float) -> None:
        """Once, until it is better."""
        full = use >= self._marks.high
        if full and not self._told:
            LOG.warning(
                "action=image_care disk=%.1f%% image_high_percent=%d result=no unused image is left to remove",
                use, self._marks.high,
            )  # fmt: skip
        self._told = full

    async def _candidates(self) -> Sequence[NodeImage]:
        node = self._node
        now, needed = node.clock.now(), await self._needed()
        async with node.db.write() as connection:
            await node_images.used(connection, node.host, needed.ids, now)
            rows = await node_images.of_host(connection, node.host)
        return removable(rows, needed, now - self._unused)

    async def _needed(self) -> Needed:
        """By anybody's containers in the engine, and by ours wherever they are."""
        node = self._node
        in_engine = await node.runtime.images_in_use()
        async with node.db.read() as connection:
            ours = await node_images.needed(connection, node.host)
        return Needed(in_engine.union(ours.ids), ours.names)

    async def _remove(self, image: NodeImage) -> int | None:
        """Its size in bytes; None when it stays. Raises EngineUnreachable, DatabaseUnavailable."""
        node = self._node
        async with node.image_uses.removing(image.reference, image.image_id) as may:
            if not may or (await self._needed()).covers(image):
                return None
            found = await node.runtime.image(image.reference)
            renamed = image.reference == image.image_id and found is not None and found.names
            if found is None or found.image_id != image.image_id or renamed:
                await self._forget(image)  # gone, or somebody else's by now
                return None
            try:
                await node.runtime.remove_image(image.reference)
            except EngineConflict as error:
                LOG.info("action=image_care reference=%s result=in use reason=%s", image.reference, error.message)
                return None
            except EngineUnreachable:
                raise
            except EngineError as error:
                LOG.warning("action=image_care reference=%s result=failed reason=%s", image.reference, error.message)
                return None
            await self._forget(image)
            return found.size

    async def _forget(self, image: NodeImage) -> None:
        async with self._node.db.write() as connection:
            await node_images.forget(connection, self._node.host, image.reference)
