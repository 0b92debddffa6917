"""Database calls that a cancelled task lets finish before it ends.

A driver call given up in the middle goes on in its thread: it can leave a transaction open that locks everybody out,
or lose a pooled connection. So cancellation waits for the call at work (milliseconds), then takes its course.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncTransaction

T = TypeVar("T")


async def steady(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which always runs to its end; a cancellation is raised after that."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # seen; the cancellation matters more
        raise cancelled
    return task.result()


class SteadyConnection(AsyncConnection):
    """A connection whose calls are steady."""

    __slots__ = ()

    async def execute(self, *arguments: Any, **options: Any) -> Any:
        return await steady(super().execute(*arguments, **options))

    def begin(self) -> AsyncTransaction:
        return SteadyTransaction(self)

    def begin_nested(self) -> AsyncTransaction:
        return SteadyTransaction(self, nested=True)


class SteadyTransaction(AsyncTransaction):
    """A transaction, or savepoint, whose begin and end are steady."""

    __slots__ = ()

    async def start(self, is_ctxmanager: bool = False) -> AsyncTransaction:
        return await steady(super().start(is_ctxmanager))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await steady(super().__aexit__(kind, error, trace))
