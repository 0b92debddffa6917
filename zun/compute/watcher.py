"""The watcher: engine events become statuses at once (scenario 5); what events miss, the sync finds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from zun.compute.node import Node
from zun.compute.pauses import Pauses
from zun.compute.refresh import refresh
from zun.domain.errors import ZunError

LOG = logging.getLogger(__name__)

IGNORED = (
    "exec_create",
    "exec_start",
    "exec_die",
    "exec_detach",
    "top",
    "attach",
    "resize",
    "archive-path",
    "extract-to-dir",
    "copy",
    "commit",
    "export",
)


class Watcher:
    """Follows the event stream until cancelled; a cut stream asks for a sync once it is back."""

    def __init__(self, node: Node, sync_soon: Callable[[], None]) -> None:
        self._node = node
        self._sync_soon = sync_soon
        self._pending: set[str] = set()
        self._looks: set[asyncio.Task[None]] = set()
        node.settled = self._after_operation

    async def run(self) -> None:
        pauses = Pauses()
        try:
            while True:
                started = self._node.clock.monotonic()
                try:
                    await self._follow()
                except ZunError as error:
                    LOG.warning("action=watch result=cut reason=%s", error.message)
                except Exception:
                    LOG.exception("action=watch result=crashed")
                await self._node.clock.sleep(pauses.after(self._node.clock.monotonic() - started))
                self._sync_soon()
        finally:
            looks = list(self._looks)
            for task in looks:
                task.cancel()
            await asyncio.gather(*looks, return_exceptions=True)

    async def _follow(self) -> None:
        async for event in self._node.runtime.events():
            if event.owner and event.owner != self._node.owner:
                continue
            if event.action.split(":", 1)[0] not in IGNORED:
                self._look(event.uuid)
            if event.action == "die":
                self._keep(asyncio.create_task(self._ended(event.uuid), name=f"ended-{event.uuid}"))

    def _after_operation(self, uuid: str) -> None:
        """What the engine told while the operation was at work may be newer than what the operation read."""
        if uuid in self._node.unseen:
            self._look(uuid)

    def _look(self, uuid: str) -> None:
        if uuid not in self._pending:
            self._pending.add(uuid)
            task = asyncio.create_task(self._observe(uuid), name=f"observe-{uuid}")
            self._keep(task)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    async def _ended(self, uuid: str) -> None:
        try:
            await self._node.ended(uuid)
        except ZunError as error:
            LOG.warning("action=ended container=%s result=failed reason=%s", uuid, error.message)
        except Exception:
            LOG.exception("action=ended container=%s", uuid)

    async def _observe(self, uuid: str) -> None:
        """A burst of events of one container is one look at it, a moment later."""
        try:
            await self._node.clock.sleep(0.02)
            self._pending.discard(uuid)
            await refresh(self._node, uuid, settled=False)
        except ZunError as error:
            LOG.warning("action=observe container=%s result=failed reason=%s", uuid, error.message)
            self._sync_soon()
        except Exception:
            LOG.exception("action=observe container=%s", uuid)
            self._sync_soon()
