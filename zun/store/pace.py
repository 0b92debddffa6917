"""Between two looks at the database of one who waits for what others write."""

from __future__ import annotations

import asyncio
import time

from zun.store.database import Database

_LEAST_SECONDS = 0.01
_SHARE = 4.0
"""Looking takes a fifth of the time at most, however much is written."""


class Pace:
    """``begin`` each look; ``pause`` after it lasts until this process has written something, at most the interval:
    what another process writes is seen by then."""

    def __init__(self, db: Database, interval: float) -> None:
        """``interval``: seconds."""
        self._interval = interval
        self._written = asyncio.Event()
        self._began = 0.0
        db.on_commit(self._written.set)

    def begin(self) -> None:
        """What is written from now on may be missed by this look."""
        self._written.clear()
        self._began = time.monotonic()

    async def pause(self, stopping: asyncio.Event | None = None) -> None:
        """Returns early once ``stopping`` is set."""
        rest = min(self._interval, max(_LEAST_SECONDS, _SHARE * (time.monotonic() - self._began)))
        stops = [stopping] if stopping is not None else []
        await _first_of(stops, rest)
        if self._interval > rest:
            await _first_of([self._written, *stops], self._interval - rest)


async def _first_of(events: list[asyncio.Event], seconds: float) -> None:
    if not events:
        await asyncio.sleep(seconds)
        return
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
