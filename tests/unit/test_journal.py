"""Steps of an operation are written once, whenever they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.database import make_database
from zun.compute import journal
from zun.compute.journal import Journal
from zun.domain.clock import SystemClock
from zun.domain.operation import Kind
from zun.store import operations
from zun.store.database import Database

LIMIT = 30.0


class SlowToAnswer:
    """A database whose transactions are committed, and told of when ``answers`` is set."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.committed, self.answers = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Any]:
        async with self._db.write() as connection:
            yield connection
        self.committed.set()
        await self.answers.wait()


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database = await make_database(tmp_path)
    yield database
    await database.close()


async def test_a_step_that_ends_while_its_begin_is_written_is_written_once(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "VISIBLE_AFTER", 0.0)
    now = SystemClock().now()
    async with db.write() as connection:
        number = await operations.insert(
            connection, container_uuid="c", kind=Kind.CREATE, host="h", request_id="r", user_id="u", project_id="p",
            params={}, now=now, deadline=now + timedelta(hours=1),
        )  # fmt: skip
    slow = SlowToAnswer(db)
    steps = Journal(cast("Any", SimpleNamespace(clock=SystemClock(), db=slow)), number)

    async def work() -> None:
        async with steps.step("start"):
            await slow.committed.wait()

    async with asyncio.timeout(LIMIT):
        working = asyncio.create_task(work())
        await slow.committed.wait()
        await asyncio.sleep(0)
        slow.answers.set()
        await working
    async with db.write() as connection:
        await steps.write(connection)
        await operations.finish(connection, number, worker=None, now=now, error=False)
    async with db.read() as connection:
        events = await operations.events(connection, number)
    assert [(event["event"], event["result"]) for event in events] == [("start", "Success")]
