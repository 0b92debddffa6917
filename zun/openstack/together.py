"""Many who ask the same at once are answered by few calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Together(Generic[T]):
    """Who comes while a call is under way shares the next one, which begins when that one has ended: no answer is older
    than its question, so nothing has to be kept or forgotten. A fault is told to all who wait then, the next ones too:
    of a service that is silent for as long as one waits, nobody hears later than the first."""

    def __init__(self) -> None:
        self._now: dict[Hashable, asyncio.Task[T]] = {}
        self._next: dict[Hashable, asyncio.Task[T]] = {}

    async def ask(self, key: Hashable, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """``key``: what tells equal questions; ``call`` asks. One who leaves does not end it for the others."""
        task = self._next.get(key)
        if task is None:
            before = self._now.get(key)
            if before is None:
                task = self._begin(self._now, key, call())
            else:
                task = self._begin(self._next, key, self._after(before, key, call))
        return await asyncio.shield(task)

    def _begin(
        self, flights: dict[Hashable, asyncio.Task[T]], key: Hashable, work: Coroutine[Any, Any, T]
    ) -> asyncio.Task[T]:
        task = flights[key] = asyncio.create_task(work)
        task.add_done_callback(lambda done: self._over(key, done))
        return task

    async def _after(self, before: asyncio.Task[T], key: Hashable, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        await asyncio.wait({before})
        self._now[key] = self._next.pop(key)
        if not before.cancelled() and (fault := before.exception()) is not None:
            raise fault
        return await call()

    def _over(self, key: Hashable, task: asyncio.Task[T]) -> None:
        for flights in (self._now, self._next):
            if flights.get(key) is task:
                del flights[key]
        if not task.cancelled():
            task.exception()  # seen here: nobody may be waiting any more
