"""Status events for all listeners of this process: one reader of the table, however many listen.

The reader runs while there are listeners. Each has a short queue; whoever is behind by more than that catches up from
the table, as who comes back does, and then listens again: nothing is lost, and nothing grows.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import Counter, Gauge

from zun.domain.errors import EventsGone, InvalidValue, TooManyListeners, ZunError
from zun.domain.status_event import StatusEvent
from zun.store import status_events
from zun.store.database import Database
from zun.store.pace import Pace

LOG = logging.getLogger(__name__)

_BATCH = 500
_QUEUE = 256
"""Events that wait for one listener."""

_LISTENERS = Gauge("zun_api_event_listeners", "Listeners of status events now.")
_TOLD = Counter("zun_api_events_told", "Status events given to listeners.")
_BEHIND = Counter("zun_api_event_listeners_behind", "Times a listener was too slow for its queue.")


class FeedClosed(Exception):
    """The process is shutting down."""


class Listener:
    """One who listens. ``position``: the number up to which all was given to it."""

    def __init__(self, feed: EventFeed, scope: Mapping[str, Any], position: int) -> None:
        self.position = position
        self._feed = feed
        self._scope = scope
        self._queue: deque[StatusEvent] = deque()
        self._wake = asyncio.Event()
        self._live = False

    def offer(self, events: Sequence[StatusEvent]) -> None:
        """The reader has these; what does not fit is read again from the table."""
        if not self._live:
            return
        mine = [one for one in events if one.number > self.position and self._wants(one)]
        if not mine:
            return
        if len(self._queue) + len(mine) > _QUEUE:
            self._live = False
            _BEHIND.inc()
        else:
            self._queue.extend(mine)
        self._wake.set()

    def _wants(self, event: StatusEvent) -> bool:
        return all(getattr(event, name) == value for name, value in self._scope.items())

    def wake(self) -> None:
        """Look up, there is something other than events."""
        self._wake.set()

    async def next(self, seconds: float) -> Sequence[StatusEvent]:
        """The next events, a few at a time; none after ``seconds``. Raises FeedClosed, Unavailable."""
        if self._feed.closed:
            raise FeedClosed
        if self._live and not self._queue:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
        self._wake.clear()
        if self._feed.closed:
            raise FeedClosed
        if self._queue:
            found: Sequence[StatusEvent] = list(self._queue)
            self._queue.clear()
            self.position = found[-1].number
        elif not self._live:
            found = await self._catch_up()
        else:
            found, self.position = (), max(self.position, self._feed.position)
        _TOLD.inc(len(found))
        return found

    async def _catch_up(self) -> Sequence[StatusEvent]:
        """From the table, until the reader's place is reached; from there on the reader gives."""
        target = self._feed.position
        found = await self._feed.read(self.position, self._scope)
        if len(found) == _BATCH:
            self.position = found[-1].number
            return found
        found = [one for one in found if one.number <= target]
        self.position = max(self.position, target)
        # Nothing is awaited from here on: what the reader finds next is offered, or it found more meanwhile.
        self._live = self._feed.position == target
        return found


class EventFeed:
    """Of one process."""

    def __init__(self, db: Database, conf: Any) -> None:
        self._db = db
        self._most: int = conf.api.event_listeners
        self._pace = Pace(db, conf.api.event_poll_interval)
        self._listeners: set[Listener] = set()
        self._reader: asyncio.Task[None] | None = None
        self._places = 0
        self._starting = asyncio.Lock()
        self.position = 0
        """The number up to which the reader has told."""
        self.closed = False

    @asynccontextmanager
    async def listen(self, scope: Mapping[str, Any], after: int | None) -> AsyncIterator[Listener]:
        """Events of ``scope`` (columns) behind the number ``after``; None: from now on.

        Raises EventsGone when some behind ``after`` are not kept any more, InvalidValue for a number that was never
        given, TooManyListeners, Unavailable.
        """
        if self._places >= self._most or self.closed:
            raise TooManyListeners(f"This API process serves {self._most} listeners at once; try again.")
        self._places += 1
        _LISTENERS.inc()
        listener = None
        try:
            listener = await self._place(scope, after)
            yield listener
        finally:
            self._places -= 1
            _LISTENERS.dec()
            if listener is not None:
                self._listeners.discard(listener)
            if not self._places:
                await self._stop()

    async def _place(self, scope: Mapping[str, Any], after: int | None) -> Listener:
        async with self._starting:
            forgotten, last = await self._now()
            if self._reader is None or self._reader.done():
                self.position = last
                self._reader = asyncio.create_task(self._read(), name="event-reader")
        if after is not None and after > last:
            raise InvalidValue(f"No event has the id {after}; the last one is {last}.")
        if after is not None and after < forgotten:
            raise EventsGone(
                f"Events up to {forgotten} are not kept any more: what happened after {after} cannot be told. List the"
                " containers, and listen without Last-Event-ID."
            )
        listener = Listener(self, scope, last if after is None else after)
        self._listeners.add(listener)
        return listener

    async def _now(self) -> tuple[int, int]:
        """(what is forgotten, the last number), with all that is committed numbered."""
        await self._number()
        async with self._db.read() as connection:
            return await status_events.bounds(connection)

    async def _number(self) -> None:
        while True:
            async with self._db.read() as connection:
                if not await status_events.has_new(connection):
                    return
            await self._db.run(status_events.number)

    async def read(self, position: int, scope: Mapping[str, Any]) -> Sequence[StatusEvent]:
        """What is behind ``position``, some of it. Raises Unavailable."""
        async with self._db.read() as connection:
            return await status_events.after(connection, position, _BATCH, scope)

    async def _read(self) -> None:
        failed = False
        while True:
            await self._pace.pause()
            self._pace.begin()
            try:
                await self._number()
                while found := await self.read(self.position, {}):
                    self.position = found[-1].number
                    for listener in self._listeners:
                        listener.offer(found)
                failed = False
            except ZunError as error:
                if not failed:  # once an outage; listeners go on when it is over
                    LOG.warning("action=events result=not read reason=%s", error.message)
                failed = True
            except Exception:
                LOG.exception("action=events result=crashed")

    async def close(self) -> None:
        """All listeners are told that the process ends."""
        self.closed = True
        for listener in self._listeners:
            listener.wake()
        await self._stop()

    async def _stop(self) -> None:
        """The reader gives its connection back before it ends."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
