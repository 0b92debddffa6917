"""One transfer serves all who want the same image; one that stands still is given up and tried again."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from zun.domain.clock import Clock
from zun.domain.errors import ImagePullFailed
from zun.runtime.base import ImageFacts, PullProgress

LOG = logging.getLogger(__name__)

Progress = Callable[[PullProgress], None]

T = TypeVar("T")

_BACKOFF = 1.0
_LONGEST_BACKOFF = 30.0


@dataclass(frozen=True, slots=True)
class Transfer:
    """What is to be had: ``key`` tells same from other, ``failed`` begins the texts of faults."""

    key: Hashable
    image: str
    failed: str
    attempt: Callable[[Progress], Awaitable[ImageFacts]]


@dataclass(slots=True, eq=False)
class _Flight:
    """One transfer under way and who waits for it."""

    listeners: dict[object, Progress] = field(default_factory=dict)
    last: PullProgress | None = None
    task: asyncio.Task[ImageFacts] | None = None

    def tell(self, state: PullProgress) -> None:
        self.last = state
        for listener in list(self.listeners.values()):
            listener(state)


class Flights:
    """Transfers under way. ``conf``: the group with ``pull_attempts`` and ``pull_stall_timeout``."""

    def __init__(self, conf: Any, clock: Clock) -> None:
        self._conf = conf
        self._clock = clock
        self._flights: dict[Hashable, _Flight] = {}

    async def join(self, wanted: Transfer, progress: Progress) -> ImageFacts:
        """Begin the transfer or wait for the one at work; the last to leave ends it. Raises what the last try
        raised."""
        key, me = wanted.key, object()
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight()
            flight.task = asyncio.create_task(self._carry_out(wanted, flight.tell), name=f"pull {wanted.image}")
            flight.task.add_done_callback(partial(self._forget, key, flight))
        elif flight.last is not None:
            progress(flight.last)
        flight.listeners[me] = progress
        assert flight.task is not None  # noqa: S101 - set when the flight was made
        try:
            # The wait may be cancelled, the transfer not: others may wait for it too.
            await asyncio.wait({flight.task})
            return flight.task.result()
        finally:
            del flight.listeners[me]
            if not flight.listeners and not flight.task.done():
                self._flights.pop(key, None)
                flight.task.cancel()
                LOG.info("action=pull image=%s result=cancelled", wanted.image)

    def _forget(self, key: Hashable, flight: _Flight, task: asyncio.Task[ImageFacts]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
        if not task.cancelled():
            task.exception()  # seen, though all who waited may be gone

    async def _carry_out(self, wanted: Transfer, tell: Progress) -> ImageFacts:
        attempts = self._conf.pull_attempts
        for attempt in range(1, attempts + 1):
            try:
                facts = await self._attempt(wanted, tell)
            except ImagePullFailed as error:
                LOG.warning(
                    "action=pull image=%s attempt=%d/%d error=%s", wanted.image, attempt, attempts, error.message
                )
                if attempt == attempts:
                    raise
            else:
                LOG.info("action=pull image=%s attempt=%d result=ok bytes=%d", wanted.image, attempt, facts.size)
                return facts
            pause = min(_LONGEST_BACKOFF, _BACKOFF * 2 ** (attempt - 1))
            await self._clock.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
        raise ImagePullFailed(f"{wanted.failed}: no try was permitted")

    async def _attempt(self, wanted: Transfer, tell: Progress) -> ImageFacts:
        limit = float(self._conf.pull_stall_timeout)
        return await unless_stalled(wanted.attempt, tell, limit, wanted.failed, self._clock)


async def unless_stalled(
    attempt: Callable[[Progress], Awaitable[T]], tell: Progress, limit: float, failed: str, clock: Clock
) -> T:
    """One try; raises ImagePullFailed when it makes no progress for ``limit`` seconds."""
    beat = clock.monotonic()

    def heard(state: PullProgress) -> None:
        nonlocal beat
        beat = clock.monotonic()
        tell(state)

    async def stalled() -> None:
        while (left := beat + limit - clock.monotonic()) > 0:
            await clock.sleep(left)

    work = asyncio.ensure_future(attempt(heard))
    watch = asyncio.create_task(stalled())
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        raise ImagePullFailed(f"{failed}: no progress for {limit:g} seconds")
    finally:
        work.cancel()
        watch.cancel()
        await asyncio.gather(work, watch, return_exceptions=True)
