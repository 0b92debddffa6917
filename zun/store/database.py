"""Connections and transactions. Reads and writes are separate so that SQLite's one writer never starves readers.

No transaction may be open while an outside system is called. Servers run at READ COMMITTED: each statement sees what
was committed when it ran, as on SQLite. Rows are locked in one order (container, operations, quota).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from zun.domain.errors import Unavailable
from zun.store import faults, sqlite_thread
from zun.store.address import SQLITE_WAITS, async_url, connect_args, missing_driver
from zun.store.steady import NoAnswer, SteadyConnection, steady

LOG = logging.getLogger(__name__)

T = TypeVar("T")

ATTEMPTS = 6
"""How often ``run`` tries one transaction; with its pauses that is about a second and a half at most."""


LEAVES = 10.0
"""Seconds that ``close`` waits for threads whose connection was given up while it was opened."""


class DatabaseUnavailable(Unavailable):
    """The database does not answer, or its disk is full."""


class TransactionLost(DatabaseUnavailable):
    """The server gave this transaction up (deadlock, lock timeout, connection lost): nothing of it was written."""


class Database:
    """``read()`` gives a connection, ``write()`` a transaction that commits at the end of the block."""

    def __init__(
        self, connection: str, *, pool_size: int = 5, max_overflow: int = 20, recycle_seconds: int = 3600
    ) -> None:
        """``pool_size`` connections are kept, ``max_overflow`` more opened under load (servers only); none is used
        longer than ``recycle_seconds``. Raises DatabaseUnavailable when the driver is not installed."""
        if missing := missing_driver(connection):
            raise DatabaseUnavailable(f"{missing}.")
        self.url = async_url(connection)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._pool = {"max_overflow": max_overflow, "pool_recycle": recycle_seconds}
        self._leaving: set[asyncio.Future[Any]] = set()
        self._reader = self._engine(pool_size)
        self._writer = self._engine(1, writer=True) if self.is_sqlite else self._reader
        self._told: list[Callable[[], None]] = []
        if self.is_sqlite:
            _begin_at_once(self._writer)

    @classmethod
    def of(cls, conf: Any) -> Database:
        """As the group ``[database]`` says."""
        group = conf.database
        return cls(
            group.connection,
            pool_size=group.max_pool_size,
            max_overflow=group.max_overflow,
            recycle_seconds=group.connection_recycle_time,
        )

    def _engine(self, pool_size: int, *, writer: bool = False) -> AsyncEngine:
        options: dict[str, Any] = {"pool_size": pool_size}
        if self.is_sqlite:
            # Transactions are ours, not the driver's.
            opened = connect_args(self.url) | {"isolation_level": None}
            options["async_creator"] = sqlite_thread.creator(self.url, opened, _pragmas(writer=writer), self._leaving)
            options |= {"poolclass": sa.pool.AsyncAdaptedQueuePool, "max_overflow": 0}
        else:
            options["connect_args"] = connect_args(self.url)
            options |= {"pool_pre_ping": True, "isolation_level": "READ COMMITTED", **self._pool}
        engine = create_async_engine(self.url, **options)
        if not self.is_sqlite:
            _leave_read_only_servers(engine)
        return engine

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A connection for SELECTs; each sees what was committed when it ran."""
        with _translated():
            async with _open(self._reader) as connection:
                yield connection

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """A transaction; rolled back when the block raises.

        Raises TransactionLost when nothing was written and the same again can succeed, DatabaseUnavailable when the
        database does not answer (if that was the commit, it may have been carried out).
        """
        with _translated():
            async with _open(self._writer) as connection, connection.begin():
                with _translated(before_commit=True):
                    yield connection
        for told in self._told:
            told()

    def on_commit(self, told: Callable[[], None]) -> None:
        """``told`` is called after each transaction of this process, for as long as the database is open."""
        self._told.append(told)

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """The result of ``work`` in a transaction of its own; tried again, whole, while the server gives it up.

        ``work`` may be called several times: it does nothing but database calls, and keeps nothing between them.
        """
        for attempt in range(1, ATTEMPTS):
            try:
                async with self.write() as connection:
                    return await work(connection)
            except TransactionLost as error:
                LOG.info("action=transaction attempt=%s result=again reason=%s", attempt, error.message)
            await asyncio.sleep(random.uniform(0.2, 1) * 0.03 * 2**attempt)  # noqa: S311 - jitter, no secret
        async with self.write() as connection:
            return await work(connection)

    async def wait_until_up(self, retries: int, interval: float) -> None:
        """Return once the database answers; ``retries`` more looks, ``interval`` seconds apart (-1: for ever).

        Raises DatabaseUnavailable. SQLite is a file: it answers or never will.
        """
        looked = 0
        while True:
            try:
                async with self.read() as connection:
                    await connection.execute(sa.select(1))
                return
            except DatabaseUnavailable as error:
                if self.is_sqlite or 0 <= retries <= looked:
                    raise
                LOG.warning("action=start result=waiting for the database reason=%s", error.message)
            looked += 1
            await asyncio.sleep(interval)

    async def close(self) -> None:
        await self._reader.dispose()
        if self._writer is not self._reader:
            await self._writer.dispose()
        if self._leaving:  # their threads tell the event loop, which has to be there then
            await asyncio.wait(set(self._leaving), timeout=LEAVES)


@asynccontextmanager
async def _open(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    connection = SteadyConnection(engine)
    try:
        await steady(connection.start(), connection.limit)
        yield connection
    finally:
        if connection.sync_connection is not None:  # None: it could not be opened, and that is what has to be told
            await steady(connection.close(), connection.limit)


class _translated:
    """Turns the driver's "cannot reach, locked, full, gave up" into DatabaseUnavailable and TransactionLost."""

    def __init__(self, *, before_commit: bool = False) -> None:
        self._before_commit = before_commit

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception):
            return
        lost = self._before_commit and faults.connection_lost(error) and not faults.read_only(error)
        if faults.given_up(error) or lost:
            raise TransactionLost(f"The database gave the transaction up: {faults.reason(error)}") from error
        if isinstance(error, NoAnswer) or faults.unavailable(error):
            raise DatabaseUnavailable(f"The database does not answer: {faults.reason(error)}") from error


def _pragmas(*, writer: bool) -> list[str]:
    found = [
        "synchronous=NORMAL",  # safe against kill -9; a power cut may lose the last moment
        "foreign_keys=ON",
        f"busy_timeout={SQLITE_WAITS * 1000}",
    ]
    return found if writer else [*found, "query_only=ON"]


def _leave_read_only_servers(engine: AsyncEngine) -> None:
    @sa.event.listens_for(engine.sync_engine, "handle_error")
    def on_error(context: sa.engine.ExceptionContext) -> None:
        # Connections outlive a failover with a server that was the primary one: writes would be refused, and reads be
        # out of date, for as long as the pool keeps them.
        if context.sqlalchemy_exception is not None and faults.read_only(context.sqlalchemy_exception):
            context.is_disconnect = True


def _begin_at_once(engine: AsyncEngine) -> None:
    @sa.event.listens_for(engine.sync_engine, "begin")
    def on_begin(connection: sa.Connection) -> None:
        # IMMEDIATE takes the write lock at once: no upgrade of a read lock, so no deadlock with another writer.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
