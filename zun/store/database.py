"""Connections and transactions. Reads and writes are separate so that SQLite's one writer never starves readers.

No transaction may be open while an outside system is called.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from zun.domain.errors import Unavailable
from zun.store.steady import SteadyConnection, steady


class DatabaseUnavailable(Unavailable):
    """The database does not answer, or its disk is full."""


def async_url(connection: str) -> sa.URL:
    """``[database]/connection`` with the asyncio driver of each dialect; accepts the original's URLs."""
    url = sa.make_url(connection)
    drivers = {
        "sqlite": "sqlite+aiosqlite",
        "mysql": "mysql+asyncmy",
        "mariadb": "mariadb+asyncmy",
        "postgresql": "postgresql+psycopg",
    }
    return url.set(drivername=drivers.get(url.get_backend_name(), url.drivername))


class Database:
    """``read()`` gives a connection, ``write()`` a transaction that commits at the end of the block."""

    def __init__(self, connection: str, *, pool_size: int = 5) -> None:
        self.url = async_url(connection)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._reader = self._engine(pool_size)
        self._writer = self._engine(1) if self.is_sqlite else self._reader
        if self.is_sqlite:
            _prepare_sqlite(self._reader, writer=False)
            _prepare_sqlite(self._writer, writer=True)

    def _engine(self, pool_size: int) -> AsyncEngine:
        options: dict[str, Any] = {"pool_size": pool_size, "max_overflow": 0 if self.is_sqlite else pool_size * 2}
        if self.is_sqlite:
            options["poolclass"] = sa.pool.AsyncAdaptedQueuePool
            options["connect_args"] = {"timeout": 30}
        else:
            options["pool_pre_ping"] = True
        return create_async_engine(self.url, **options)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A connection for SELECTs; each sees what was committed when it ran."""
        with _translated():
            async with _open(self._reader) as connection:
                yield connection

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """A transaction; rolled back when the block raises."""
        with _translated():
            async with _open(self._writer) as connection, connection.begin():
                yield connection

    async def close(self) -> None:
        await self._reader.dispose()
        if self._writer is not self._reader:
            await self._writer.dispose()


@asynccontextmanager
async def _open(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    connection = SteadyConnection(engine)
    try:
        await steady(connection.start())
        yield connection
    finally:
        if connection.sync_connection is not None:  # None: it could not be opened, and that is what has to be told
            await steady(connection.close())


class _translated:
    """Turns the driver's "cannot reach, locked, full" into DatabaseUnavailable."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        # A DatabaseError of no finer class is SQLite's "file is not a database", "disk image is malformed".
        broken = type(error) is sa.exc.DatabaseError
        if broken or isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError | sa.exc.TimeoutError):
            cause = getattr(error, "orig", None) or error
            raise DatabaseUnavailable(f"The database does not answer: {cause}") from error


def _prepare_sqlite(engine: AsyncEngine, *, writer: bool) -> None:
    @sa.event.listens_for(engine.sync_engine, "connect")
    def on_connect(connection: Any, record: object) -> None:
        connection.isolation_level = None  # transactions are ours, not the driver's
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")  # safe against kill -9; a power cut may lose the last moment
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA busy_timeout=30000")
        if not writer:
            cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    @sa.event.listens_for(engine.sync_engine, "begin")
    def on_begin(connection: sa.Connection) -> None:
        # IMMEDIATE takes the write lock at once: no upgrade of a read lock, so no deadlock with another writer.
        if writer:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
