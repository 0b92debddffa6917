"""Connections to SQLite on which a statement is one trip to the thread that has the connection.

The driver's own cursor makes four of a SELECT: cursor, execute, fetch, close; and SQLAlchemy rolls back after each use,
also where nothing was begun. Each trip is a switch of threads there and back, most of what a short statement costs.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import aiosqlite
import sqlalchemy as sa

from zun.store import wal

_ROWS_A_TRIP = 64
"""For iteration over a cursor of the driver's own, which SQLAlchemy never does."""


def creator(
    url: sa.URL, options: dict[str, Any], pragmas: Sequence[str], leaving: set[asyncio.Future[Any]] | None = None
) -> Callable[[], Awaitable[aiosqlite.Connection]]:
    """For ``create_async_engine``'s ``async_creator``. ``options``: of ``sqlite3.connect``, beside the URL's.
    ``leaving``: gets what tells that a connection's thread has ended whose opener did not wait for it.

    A connection is whole, with ``pragmas`` and in the write-ahead log's mode, when SQLAlchemy gets it: what its events
    would do afterwards can be cancelled, and SQLAlchemy then forgets a connection that nobody has closed.
    """
    where, given = url.get_dialect()().create_connect_args(url)
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect
    opens = partial(connect, *where, **{**given, **options})

    def prepare(raw: sqlite3.Connection) -> None:
        for pragma in pragmas:
            raw.execute(f"PRAGMA {pragma}").close()

    async def make() -> aiosqlite.Connection:
        connection = _Connection(opens, _ROWS_A_TRIP)
        await connection
        try:
            await wal.switch(connection)
            await connection.within(prepare)
        except Exception:
            if stopped := connection.stop():  # its thread closes it, and tells the loop, which has to be there then
                await stopped
            raise
        except BaseException:
            # Who was cancelled does not wait for a thread that may hang.
            if (stopped := connection.stop()) and leaving is not None:
                leaving.add(stopped)
                stopped.add_done_callback(leaving.discard)
            raise
        return connection

    return make


class _Connection(aiosqlite.Connection):
    """The driver's connection, with cursors of ours."""

    def __init__(self, connector: Callable[[], sqlite3.Connection], rows_a_trip: int) -> None:
        super().__init__(connector, rows_a_trip)
        self._thread.daemon = True  # as SQLAlchemy has it: a connection that nobody closed keeps no process alive

    def cursor(self) -> Any:
        return _Cursor(self)

    async def rollback(self) -> None:
        if self.in_transaction:
            await super().rollback()

    async def create_function(self, *_: Any, **__: Any) -> None:
        """SQLAlchemy's own of each new connection, REGEXP and FLOOR: no statement of ours has them."""

    async def within(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Do it in the connection's thread. Raises what ``work`` does, ValueError on a closed connection."""
        in_thread: Any = self._execute
        await in_thread(lambda: work(self._conn))


class _Cursor:
    """What SQLAlchemy uses of a cursor. All rows are fetched with the statement."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = 1

    async def __aenter__(self) -> _Cursor:
        return self

    async def execute(self, statement: str, parameters: Any = ()) -> _Cursor:
        await self._connection.within(lambda raw: self._take(raw.execute, statement, parameters))
        return self

    async def executemany(self, statement: str, parameters: Sequence[Any]) -> _Cursor:
        await self._connection.within(lambda raw: self._take(raw.executemany, statement, parameters))
        return self

    async def fetchall(self) -> list[Any]:
        rows, self._rows = self._rows, []
        return rows

    async def close(self) -> None:
        """It is closed as soon as it was executed."""

    def _take(self, run: Callable[..., sqlite3.Cursor], statement: str, parameters: Any) -> None:
        cursor = run(statement, parameters)
        try:
            self.description = cursor.description
            self._rows = cursor.fetchall() if cursor.description else []
            self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid  # final once all rows are fetched
        finally:
            cursor.close()
