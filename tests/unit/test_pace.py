"""Who looks at the database again and again does so soon after this process has written, and no more than it has to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from zun.store.database import Database
from zun.store.pace import Pace

LONG = 600.0
SOON = 30.0


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(f"sqlite:///{tmp_path}/zun.sqlite")
    yield database
    await database.close()


async def write(db: Database, *, fails: bool = False) -> None:
    async with db.write() as connection:
        await connection.execute(sa.text("CREATE TABLE IF NOT EXISTS one (id INTEGER)"))
        if fails:
            raise LookupError


async def test_a_pause_ends_when_something_was_written(db: Database) -> None:
    pace = Pace(db, LONG)
    pace.begin()
    pausing = asyncio.create_task(pace.pause())
    await asyncio.sleep(0)
    await write(db)
    async with asyncio.timeout(SOON):
        await pausing


async def test_what_was_written_during_a_look_is_looked_for_again(db: Database) -> None:
    pace = Pace(db, LONG)
    pace.begin()
    await write(db)
    async with asyncio.timeout(SOON):
        await pace.pause()


async def test_what_was_not_written_ends_no_pause(db: Database) -> None:
    pace = Pace(db, LONG)
    pace.begin()
    with pytest.raises(LookupError):
        await write(db, fails=True)
    pausing = asyncio.create_task(pace.pause())
    done, _ = await asyncio.wait({pausing}, timeout=0.1)
    assert not done
    await write(db)
    async with asyncio.timeout(SOON):
        await pausing


async def test_a_pause_is_over_with_the_interval_and_when_the_process_stops(db: Database) -> None:
    stopping = asyncio.Event()
    short, long = Pace(db, 0.02), Pace(db, LONG)
    async with asyncio.timeout(SOON):
        short.begin()
        await short.pause(stopping)
        long.begin()
        pausing = asyncio.create_task(long.pause(stopping))
        await asyncio.sleep(0)
        stopping.set()
        await pausing
