"""The database's clock, the one that all processes of a deployment agree on: heartbeats, leases and due times are
written and judged by it. See docs/decisions/0095-one-clock.md.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from zun.domain.clock import SystemClock
from zun.domain.errors import Unavailable
from zun.store import settings
from zun.store.database import Database, DatabaseUnavailable

LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 30.0
_SLEW = 0.1
"""Seconds that a machine's clock is followed in one second, where it was moved."""
_MOVED_SECONDS = 1.0
_NEVER_RIGHT_SECONDS = 86400.0
"""A clock that is moved further was never right, as that of a machine without a battery."""
_KEPT_SECONDS = 0.1
_TOLD_SECONDS = 10.0
_NAME = "clock"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_ASKED = {
    "mysql": "SELECT UTC_TIMESTAMP(6)",
    "postgresql": "SELECT clock_timestamp() AT TIME ZONE 'utc'",
}


def _steady() -> float:
    """Seconds that no change of the wall clock moves, and that go on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class DatabaseClock(SystemClock):
    """``now`` is the server's time as last looked at, carried on by this machine's steady clock: what happens to this
    machine's wall clock changes nothing. SQLite's clock is that of the machine; it is followed slowly."""

    def __init__(
        self,
        db: Database,
        *,
        steady: Callable[[], float] = _steady,
        wall: Callable[[], float] = time.time,
        server: Callable[[], Awaitable[float]] | None = None,
    ) -> None:
        """``steady`` and ``wall``: this machine's two clocks, seconds; ``server``: the database server's time, seconds
        since 1970."""
        self._db = db
        self._steady = steady
        self._wall = wall
        self._server = server or (None if db.is_sqlite else self._ask)
        self._booted = _BOOT.read_text().strip()
        self._offset = wall() - steady()
        self._looked: float | None = None
        self._apart = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.timestamp(), UTC).replace(tzinfo=None)

    def timestamp(self) -> float:
        """Seconds since 1970."""
        return self._offset + self._steady()

    async def look(self) -> None:
        """Compare with the database's clock now. Raises DatabaseUnavailable."""
        if self._server is None:
            await self._follow_machine()
        else:
            await self._follow_server(self._server)

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Looked at now, and on schedule inside. Raises DatabaseUnavailable."""
        await self.look()
        following = asyncio.create_task(self._run(), name="clock")
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self.look()
            except Unavailable as error:
                LOG.debug("action=clock result=not asked reason=%s", error.message)

    async def _follow_machine(self) -> None:
        """All processes of this machine go on from where one of them was, also after they were started anew."""
        at = self._steady()
        wall = self._wall() - at
        kept = await self._kept()
        offset, since = kept or (wall, at)
        since, self._looked = max(since, self._looked or at), at
        moved = wall - offset
        followed = wall
        if _MOVED_SECONDS < abs(moved) < _NEVER_RIGHT_SECONDS:
            most = max(0.0, at - since) * _SLEW
            followed = offset + max(-most, min(most, moved))
            if not self._apart:
                LOG.warning("action=clock result=the machine's clock was moved by=%.0f s; it is followed slowly", moved)
        self._apart = wall - followed
        self._offset = followed
        if kept is None or abs(followed - offset) > _KEPT_SECONDS:
            await self._keep(followed, at)

    async def _kept(self) -> tuple[float, float] | None:
        """What was kept since this machine was booted: the clock's lead over the steady one, and when that was."""
        try:
            async with self._db.read() as connection:
                told = await settings.get(connection, _NAME)
        except DatabaseUnavailable as error:
            if "no such table" in error.message:
                return None
            raise
        booted, offset, at = (told or "- 0 0").split()
        return (float(offset), float(at)) if booted == self._booted else None

    async def _keep(self, offset: float, at: float) -> None:
        value = f"{self._booted} {offset:.6f} {at:.6f}"
        try:
            await self._db.run(lambda connection: settings.put(connection, _NAME, value))
        except DatabaseUnavailable as error:  # the next look comes to it
            LOG.debug("action=clock result=not kept reason=%s", error.message)

    async def _follow_server(self, server: Callable[[], Awaitable[float]]) -> None:
        before = self._steady()
        told = await server()
        after = self._steady()
        earliest, latest = told - after, told - before  # it was told at some moment between the two
        found = min(max(self._offset, earliest), latest)
        if self._looked is None:
            found = (earliest + latest) / 2
        elif abs(found - self._offset) > _MOVED_SECONDS:
            LOG.warning("action=clock result=the database's clock was moved by=%.1f s", found - self._offset)
        self._offset, self._looked = found, after
        apart = self._wall() - self.timestamp()
        if abs(apart - self._apart) > _TOLD_SECONDS:
            LOG.warning("action=clock result=this machine's clock and the database's differ by=%.0f s", apart)
            self._apart = apart

    async def _ask(self) -> float:
        async with self._db.read() as connection:
            told = (await connection.execute(sa.text(_ASKED[self._db.url.get_backend_name()]))).scalar_one()
        found: datetime = told if isinstance(told, datetime) else datetime.fromisoformat(told)
        return found.replace(tzinfo=UTC).timestamp()
