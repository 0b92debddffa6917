"""The steps of one operation, as the API shows them under its action.

Short steps are written with the operation's end, in its transaction; a step that lasts is written while it runs.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.compute.node import Node
from zun.domain.errors import ZunError, slug_of
from zun.runtime.base import PullProgress
from zun.store import operations

LOG = logging.getLogger(__name__)

VISIBLE_AFTER = 0.3
"""Seconds after which a running step is written."""


def _kind(error: BaseException) -> str:
    """Of several errors, that of one of ours if there is one."""
    while isinstance(error, BaseExceptionGroup):
        ours = error.subgroup(ZunError)
        error = (ours or error).exceptions[0]
    return slug_of(type(error).__name__) if isinstance(error, ZunError) else "unexpected"


@dataclass(slots=True)
class Step:
    """One step; ``progress`` is written at most twice a second."""

    name: str
    started: datetime
    finished: datetime | None = None
    error: str | None = None
    code: str | None = None
    """Kind of the error."""
    row: int | None = None
    begun: asyncio.Task[None] | None = None
    """Writes its row."""
    latest: PullProgress | None = None

    def shown(self) -> dict[str, Any] | None:
        """Progress as the API shows it: bytes done and in all, and the phase."""
        value = self.latest
        return {"done": value.done, "total": value.total, "phase": value.phase} if value else None


class Journal:
    """Steps of one operation in one attempt."""

    def __init__(self, node: Node, operation_id: int) -> None:
        self._node = node
        self._operation_id = operation_id
        self._unwritten: list[Step] = []
        self.current: str | None = None
        self.has_unknown = False
        """Was a step begun to be written whose row is not known? It ended before the answer came."""

    @asynccontextmanager
    async def step(self, name: str) -> AsyncIterator[Callable[[PullProgress], None]]:
        """Run a named step; yields the function that takes its progress."""
        step = Step(name, self._node.clock.now())
        self.current = name
        writer = asyncio.create_task(self._write_while_running(step), name=f"journal-{name}")

        def progress(value: PullProgress) -> None:
            step.latest = value

        try:
            yield progress
        except asyncio.CancelledError:
            step.error = step.code = "cancelled"
            raise
        except ZunError as error:
            step.error, step.code = error.message, slug_of(type(error).__name__)
            raise
        except Exception as error:
            step.error, step.code = traceback.format_exc(), _kind(error)
            raise
        finally:
            step.finished = self._node.clock.now()
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            if step.begun is not None:  # a row that was written is the step's, though the step has ended meanwhile
                await asyncio.gather(step.begun, return_exceptions=True)
            self.has_unknown |= step.begun is not None and step.row is None
            self._unwritten.append(step)

    async def _write_while_running(self, step: Step) -> None:
        await self._node.clock.sleep(VISIBLE_AFTER)
        step.begun = asyncio.create_task(self._begin(step), name=f"journal-{step.name}-begun")
        await asyncio.shield(step.begun)
        row = step.row
        written: PullProgress | None = None
        while row is not None:
            if step.latest is not None and step.latest != written:
                written = step.latest
                async with self._node.db.write() as connection:
                    await operations.set_progress(connection, row, step.shown() or {})
            await self._node.clock.sleep(0.5)

    async def _begin(self, step: Step) -> None:
        async with self._node.db.write() as connection:
            row = await operations.start_event(connection, self._operation_id, step.name, step.started)
        step.row = row

    async def write(self, connection: AsyncConnection) -> None:
        """Write what is not written yet, in the caller's transaction; ``written`` once that is committed."""
        ended = []
        for step in self._unwritten:
            finished, progress = step.finished or self._node.clock.now(), step.shown()
            if step.row is None:
                ended.append(operations.ended_event(step.name, step.started, finished, step.error, progress, step.code))
            else:
                await operations.finish_event(connection, step.row, finished, step.error, progress, step.code)
        await operations.add_events(connection, self._operation_id, ended)

    def written(self) -> None:
        """The transaction of ``write`` is committed."""
        self._unwritten.clear()
