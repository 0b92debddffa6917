"""What ends a session that does not end by itself: a client or node that is gone without a word, and time limits."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass

from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed

from zun.wsproxy.ending import LOST, NORMAL, REFUSED, End
from zun.wsproxy.far import Far


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds; 0 for ``idle`` and ``total`` is no limit."""

    idle: float
    total: float
    ping_interval: float
    ping_timeout: float


class _Side:
    """Pings of one connection. While its reading or our writing stands still by back-pressure, no answer is awaited."""

    def __init__(self, connection: Connection | Far) -> None:
        self._connection = connection
        self._pong: Awaitable[float] | None = None
        self._sent = 0.0
        self.held = False
        """We do not read from it, as the other side does not take what came."""

    async def ping(self, now: float) -> None:
        if self._waits() or self._still:
            return
        with contextlib.suppress(ConnectionClosed):
            self._pong, self._sent = await self._connection.ping(), now

    def silent(self, now: float, timeout: float) -> bool:
        """Did it not answer in time? Its time starts anew after back-pressure."""
        if self._still:
            self._sent = now
        return self._waits() and now - self._sent >= timeout

    @property
    def _still(self) -> bool:
        return self.held or self._connection.paused

    def _waits(self) -> bool:
        return self._pong is not None and not asyncio.ensure_future(self._pong).done()


class Watch:
    """Told of traffic by the pipe; ``run_to_end`` returns when the session has to end."""

    def __init__(self, client: Connection, relay: Far, limits: Limits) -> None:
        self._client = _Side(client)
        self._relay = _Side(relay)
        self._limits = limits
        self._last = time.monotonic()

    def heard(self) -> None:
        """Something came from either side."""
        self._last = time.monotonic()

    @contextlib.contextmanager
    def client_waits(self) -> Iterator[None]:
        """Its input is being given to the relay: nothing is read from it meanwhile."""
        self._client.held = True
        try:
            yield
        finally:
            self._client.held = False

    @contextlib.contextmanager
    def relay_waits(self) -> Iterator[None]:
        """The same the other way."""
        self._relay.held = True
        try:
            yield
        finally:
            self._relay.held = False

    async def run_to_end(self) -> End:
        """Looks once a second at most, and less often where no limit is near."""
        limits, begun = self._limits, time.monotonic()
        next_ping = begun + limits.ping_interval
        while True:
            now = time.monotonic()
            if limits.total and now - begun >= limits.total:
                return End(REFUSED, f"A session lasts {limits.total:g} seconds at most.", "limit")
            if limits.idle and now - self._last >= limits.idle:
                return End(REFUSED, f"Nothing was sent for {limits.idle:g} seconds.", "limit")
            if self._client.silent(now, limits.ping_timeout):
                return End(NORMAL, "The client does not answer.", "left")
            if self._relay.silent(now, limits.ping_timeout):
                return End(LOST, "The node of the container does not answer.", "lost")
            if now >= next_ping:
                next_ping = now + limits.ping_interval
                await self._client.ping(now)
                await self._relay.ping(now)
            await asyncio.sleep(self._pause(now, begun, next_ping))

    def _pause(self, now: float, begun: float, next_ping: float) -> float:
        limits = self._limits
        due = [next_ping, now + limits.ping_timeout / 2]
        if limits.total:
            due.append(begun + limits.total)
        if limits.idle:
            due.append(self._last + limits.idle)
        return max(0.01, min(due) - now)
