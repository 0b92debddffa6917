"""What ends a session that does not end by itself: a client or node that is gone without a word, and time limits."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass

from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed

from zun.relay.link import established
from zun.wsproxy.ending import LOST, NORMAL, REFUSED, End
from zun.wsproxy.far import Far

_PROBE = 1.0
"""Seconds."""


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
        self._held_since: float | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Meanwhile we do not read from it, as the other side does not take what came."""
        self._held_since = time.monotonic()
        try:
            yield
        finally:
            self._held_since = None

    def held_for(self, now: float) -> float:
        """Seconds."""
        return 0.0 if self._held_since is None else now - self._held_since

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
        return self._held_since is not None or self._connection.paused

    def _waits(self) -> bool:
        return self._pong is not None and not asyncio.ensure_future(self._pong).done()


class Watch:
    """Told of traffic by the pipe; ``run_to_end`` returns when the session has to end."""

    def __init__(self, client: Connection, relay: Far, limits: Limits) -> None:
        self._connection = client
        self._client = _Side(client)
        self._relay = _Side(relay)
        self._limits = limits
        self._last = time.monotonic()

    def heard(self) -> None:
        """Something came from either side."""
        self._last = time.monotonic()

    def client_waits(self) -> contextlib.AbstractContextManager[None]:
        """Its input is being given to the relay: nothing is read from it meanwhile."""
        return self._client.held()

    def relay_waits(self) -> contextlib.AbstractContextManager[None]:
        """The same the other way."""
        return self._relay.held()

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
                if self._client.held_for(now) >= limits.ping_interval and await self._vanished():
                    return End(NORMAL, "The client is gone.", "left")
                await self._client.ping(now)
                await self._relay.ping(now)
            await asyncio.sleep(self._pause(now, begun, next_ping))

    async def _vanished(self) -> bool:
        """Of a client that is not read: its end stands behind input that the program does not take. Something is sent,
        which the machine of one that is gone refuses, and the kernel is asked."""
        if not self._connection.paused:
            with contextlib.suppress(TimeoutError, ConnectionClosed):
                async with asyncio.timeout(_PROBE):
                    await self._connection.ping()
            await asyncio.sleep(_PROBE / 10)
        return not established(self._connection)

    def _pause(self, now: float, begun: float, next_ping: float) -> float:
        limits = self._limits
        due = [next_ping, now + limits.ping_timeout / 2]
        if limits.total:
            due.append(begun + limits.total)
        if limits.idle:
            due.append(self._last + limits.idle)
        return max(0.01, min(due) - now)
