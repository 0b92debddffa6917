"""Database calls that a cancelled task lets finish before it ends.

A driver call given up in the middle goes on in its thread: it can leave a transaction open that locks everybody out,
or lose a pooled connection. So cancellation waits for the call at work (milliseconds), then takes its course.
A server that is there and says nothing is given up after ``ANSWER_WITHIN``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncTransaction

T = TypeVar("T")

ANSWER_WITHIN = 30.0
"""Seconds a database server may take for one call. SQLite has no such limit: its calls cannot be given up."""


class NoAnswer(Exception):
    """The call was given up, and its connection with it."""


async def steady(work: Coroutine[Any, Any, T], limit: float | None = None) -> T:
    """The result of ``work``, which runs to its end or ``limit`` seconds; a cancellation is raised after that.

    Raises NoAnswer.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    deadline = None if limit is None else loop.time() + limit
    cancelled: asyncio.CancelledError | None = None
    given_up = False
    while not task.done():
        left = None if deadline is None or given_up else deadline - loop.time()
        if left is not None and left <= 0:
            given_up = True
            task.cancel()  # the driver ends the connection
            continue
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # seen; the cancellation matters more
        raise cancelled
    if given_up and task.cancelled():
        raise NoAnswer(f"no answer within {limit:g} seconds")
    return task.result()


class SteadyConnection(AsyncConnection):
    """A connection whose calls are steady."""

    __slots__ = ()

    @property
    def limit(self) -> float | None:
        """Seconds one call may take."""
        return None if self.engine.dialect.name == "sqlite" else ANSWER_WITHIN

    async def execute(self, *arguments: Any, **options: Any) -> Any:
        return await steady(super().execute(*arguments, **options), self.limit)

    def begin(self) -> AsyncTransaction:
        return SteadyTransaction(self)

    def begin_nested(self) -> AsyncTransaction:
        return SteadyTransaction(self, nested=True)


class SteadyTransaction(AsyncTransaction):
    """A transaction, or savepoint, whose begin and end are steady."""

    __slots__ = ()

    async def start(self, is_ctxmanager: bool = False) -> AsyncTransaction:
        return await steady(super().start(is_ctxmanager), _limit(self))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await steady(super().__aexit__(kind, error, trace), _limit(self))


def _limit(transaction: AsyncTransaction) -> float | None:
    connection = transaction.connection
    return connection.limit if isinstance(connection, SteadyConnection) else None
