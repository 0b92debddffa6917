"""Time that only moves when the test says so; sleepers wake in their order."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from datetime import datetime, timedelta

_ROUNDS = 30
"""Turns of the event loop given to what was woken, before time moves on."""


class StandingClock:
    """Stands still until told; whoever sleeps moves it on."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1)

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


class VirtualClock:
    """A ``zun.domain.clock.Clock``."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = itertools.count()

    def now(self) -> datetime:
        return datetime(2026, 1, 1) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.seconds + seconds, next(self._number), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass; everything that becomes due on the way happens at its own time."""
        end = self.seconds + seconds
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, future = heapq.heappop(self._sleepers)
            self.seconds = max(self.seconds, due)
            if not future.done():
                future.set_result(None)
                await self._settle()
        self.seconds = end
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
