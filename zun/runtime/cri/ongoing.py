"""Calls that go on to their end though nobody waits for them any more: what containerd is told to stop making it
forgets, and leaves half of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

LOG = logging.getLogger(__name__)

_CLOSE_SECONDS = 10.0


class Ongoing:
    """Tasks of one adapter, which end with it. Their calls have deadlines of their own."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, call: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """It runs from now on; to be waited for through a shield."""
        task = asyncio.create_task(call, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def to_its_end(self, call: Coroutine[Any, Any, T], name: str) -> T:
        """Its result. A caller that is cancelled goes at once, and the call goes on."""
        return await asyncio.shield(self.begin(call, name))

    async def close(self) -> None:
        """What does not end within seconds is broken off: what the engine makes of it is found later."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(set(self._tasks), timeout=_CLOSE_SECONDS)
        for task in late:
            LOG.warning("action=close call=%s result=broken off", task.get_name())
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:  # asked for: its caller may be gone
            LOG.debug("action=call call=%s result=failed reason=%s", task.get_name(), task.exception())
