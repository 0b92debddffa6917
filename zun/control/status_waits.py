"""Requests that wait for a status: one look at the database for all of them, while there are any.

The bus brings nothing to the API, and any process may have changed the row: so this one looks, twice a second by
default and soon after it has written something itself, whether one request waits or a thousand.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from zun.domain.awaited import Seen
from zun.domain.errors import ZunError
from zun.store import containers
from zun.store.database import Database
from zun.store.pace import Pace

LOG = logging.getLogger(__name__)

_AT_ONCE = 500
"""Rows a query asks for."""


@dataclass(eq=False, slots=True)
class _Waiter:
    uuid: str
    over: Callable[[Seen | None], bool]
    told: asyncio.Future[None]


class StatusWaits:
    """Those of one API process."""

    def __init__(self, db: Database, interval: float, stopping: asyncio.Event) -> None:
        """Looks every ``interval`` seconds at least; nothing waits any more once ``stopping`` is set."""
        self._db = db
        self._pace = Pace(db, interval)
        self._stopping = stopping
        self._waiters: set[_Waiter] = set()
        self._looking: asyncio.Task[None] | None = None

    async def wait(self, uuid: str, over: Callable[[Seen | None], bool], seconds: float) -> None:
        """Return once ``over`` is true of the row (None: it is gone), after ``seconds``, or when the process stops."""
        if self._stopping.is_set() or seconds <= 0:
            return
        waiter = _Waiter(uuid, over, asyncio.get_running_loop().create_future())
        self._waiters.add(waiter)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_on(), name="status-waits")
        try:
            async with asyncio.timeout(seconds) as limit:
                await waiter.told
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            self._waiters.discard(waiter)

    async def _look_on(self) -> None:
        try:
            while self._waiters and not self._stopping.is_set():
                self._pace.begin()
                try:
                    await self._look()
                except ZunError as error:  # each waiter has its own end, and is told then
                    LOG.warning("action=wait result=not looked reason=%s", error.message)
                await self._pace.pause(self._stopping)
        except Exception:
            LOG.exception("action=wait result=crashed")
        finally:  # no await from the last look at the waiters on: who comes next starts another
            self._looking = None
            for waiter in self._waiters:
                _tell(waiter)

    async def _look(self) -> None:
        wanted = sorted({waiter.uuid for waiter in self._waiters})
        seen: dict[str, Seen] = {}
        async with self._db.read() as connection:
            for first in range(0, len(wanted), _AT_ONCE):
                seen |= await containers.seen(connection, wanted[first : first + _AT_ONCE])
        looked = set(wanted)
        for waiter in self._waiters:
            if waiter.uuid in looked and waiter.over(seen.get(waiter.uuid)):
                _tell(waiter)


def _tell(waiter: _Waiter) -> None:
    if not waiter.told.done():
        waiter.told.set_result(None)
