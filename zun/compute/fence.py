"""The fence: a node that cannot report stops what others will start, before they may (docs/decisions/0098).

The node's lease is ``[DEFAULT]/service_down_time`` seconds from its last heartbeat on, by a clock that goes on while
the machine sleeps. It is renewed here, often and beside everything else, so that nothing slow costs it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from zun.compute import moved
from zun.compute.heartbeat import heartbeat
from zun.compute.node import Node
from zun.compute.refresh import announce
from zun.domain.errors import EngineNotFound, ZunError
from zun.domain.lifecycle import Task
from zun.domain.moving import LIVE, promise, stays
from zun.domain.operation import Kind
from zun.store import containers, moves

LOG = logging.getLogger(__name__)

RENEWALS = 4
"""In one lease."""
LOOK = 1.0
"""Seconds between looks at what runs while the node is cut off."""
RUNS = frozenset({"running", "restarting"})
_TRIES = 5


def _steady() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Fence:
    """``run`` works until cancelled. ``steady``: seconds of a clock that nobody moves."""

    def __init__(self, node: Node, sync_soon: Callable[[], None], steady: Callable[[], float] = _steady) -> None:
        self._node = node
        self._sync_soon = sync_soon
        self._steady = steady
        self._lease = float(node.conf.service_down_time)
        self._stop_seconds = max(1, int(node.conf.compute.fence_seconds) // 2)
        self._file = Path(node.conf.state_path) / "fenced.json"
        self._renewed = steady()
        self._stays: frozenset[str] = frozenset()
        """What nobody else will start: it is left running."""
        self._turn = asyncio.Lock()
        with suppress(FileNotFoundError):
            node.fenced |= set(json.loads(self._file.read_text()))

    async def run(self) -> None:
        """Nothing where the node has promised nothing."""
        if promise(self._node.conf) is None:
            await self._keep_reopening()
            return
        await self._renew()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_renewing(), name="lease")
            group.create_task(self._watch(), name="fence")

    # -- the lease -----------------------------------------------------------------------------------

    async def _keep_renewing(self) -> None:
        every = self._lease / RENEWALS
        while True:
            heard = await self._renew()
            await asyncio.sleep(every if heard else min(LOOK, every))

    async def _keep_reopening(self) -> None:
        """A process before this one was cut off, and the options have changed since."""
        while self._node.fenced:
            await self._reopen_guarded()
            await self._node.clock.sleep(LOOK)

    async def _renew(self) -> bool:
        began = self._steady()
        try:
            async with asyncio.timeout(self._lease):
                heard = await self._report()
        except (ZunError, TimeoutError) as error:
            LOG.warning("action=fence result=not renewed reason=%s", error or "the database takes too long")
            return False
        if heard:
            self._renewed = began
            if self._node.fenced:
                await self._reopen_guarded()
        return heard

    async def _report(self) -> bool:
        """The heartbeat, and what stays if it is the last one."""
        node = self._node
        heard = await heartbeat(node)
        async with node.db.read() as connection:
            found = await moves.of_host(connection, node.host)
        self._stays = frozenset(row.uuid for row, mappings in found if stays(row, mappings))
        return heard

    # -- closed --------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Sleeps until the lease is over, and then looks again and again until it is not."""
        while True:
            left = self._renewed + self._lease - self._steady()
            if left > 0:
                await asyncio.sleep(left)
                continue
            try:
                async with self._turn:
                    await self._close()
            except ZunError as error:
                LOG.error("action=fence host=%s result=failed reason=%s", self._node.host, error.message)
            except Exception:
                LOG.exception("action=fence host=%s result=crashed", self._node.host)
            await asyncio.sleep(LOOK)

    async def _close(self) -> None:
        """Stop what runs and would be lost, and have what it wrote on its disks."""
        node = self._node
        running = [
            item.uuid
            for item in await node.runtime.list()
            if item.owner == node.owner and item.state in RUNS and item.uuid not in self._stays
        ]
        if not running:
            return
        LOG.error("action=fence host=%s result=cut off: stopping containers=%s", node.host, ",".join(running))
        self._put(node.fenced | set(running))
        stopping = (self._stop(uuid) for uuid in running)
        for uuid, result in zip(running, await asyncio.gather(*stopping, return_exceptions=True), strict=True):
            if isinstance(result, BaseException):
                LOG.error("action=fence container=%s result=failed reason=%s", uuid, result)
        await asyncio.wait({asyncio.create_task(asyncio.to_thread(os.sync))}, timeout=self._stop_seconds)
        LOG.error("action=fence host=%s result=stopped containers=%s", node.host, len(running))

    async def _stop(self, uuid: str) -> None:
        with suppress(EngineNotFound):
            await self._node.runtime.stop(uuid, self._stop_seconds)

    # -- open again ----------------------------------------------------------------------------------

    async def _reopen_guarded(self) -> None:
        """What cannot be done now is done at the next renewal."""
        try:
            async with self._turn:
                await self._reopen()
        except ZunError as error:
            LOG.warning("action=fence host=%s result=not reopened reason=%s", self._node.host, error.message)

    async def _reopen(self) -> None:
        """What is still this node's is started again; what has moved goes. What an operation works on, which had begun
        before the node was cut off, waits for its end."""
        await moved.take_back(self._node)
        started = removed = 0
        before = set(self._node.fenced)
        for uuid in sorted(self._node.fenced):
            for _ in range(_TRIES):
                async with self._node.db.read() as connection:
                    row = await containers.get(connection, uuid)
                if row is not None and row.host == self._node.host and row.task_state is not None:
                    break
                if row is None or row.host != self._node.host:
                    await moved.remove(self._node, uuid)
                    removed += 1
                elif row.status in LIVE and row.container_id is not None:
                    if not await announce(self._node, row, Kind.START, {}, {}, Task.STARTING):
                        continue
                    started += 1
                self._put(self._node.fenced - {uuid})
                break
        if self._node.fenced == before:
            return
        if removed:
            await moved.forget_mounts(self._node)
        LOG.warning("action=fence host=%s result=open again started=%s removed=%s", self._node.host, started, removed)
        self._sync_soon()

    def _put(self, fenced: set[str]) -> None:
        """Known to the next process, too."""
        self._node.fenced = set(fenced)
        if not fenced:
            self._file.unlink(missing_ok=True)
            return
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(sorted(fenced)))
        os.replace(fresh, self._file)
