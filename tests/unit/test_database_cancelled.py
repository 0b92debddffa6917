"""Tasks that are cancelled in the middle of a transaction lock nobody out and lose no connection."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import sqlalchemy as sa

from tests.support.database import make_database
from zun.store.database import Database
from zun.store.tables import settings


async def _write(db: Database, name: str) -> None:
    async with db.write() as connection:
        await connection.execute(settings.insert().values(name=name, value="x"))
        async with connection.begin_nested():
            await connection.execute(sa.select(settings).limit(3))


async def _read(db: Database) -> None:
    async with db.read() as connection:
        await connection.execute(sa.select(settings).limit(3))


async def test_cancelled_transactions_leave_the_database_usable(tmp_path: Path) -> None:
    chance = random.Random(7)
    db = await make_database(tmp_path)
    try:
        for turn in range(300):
            work = [_write(db, f"a{turn}"), _read(db), _write(db, f"b{turn}"), _read(db)]
            tasks = [asyncio.create_task(one) for one in work]
            await asyncio.sleep(chance.random() * 0.003)
            for task in tasks:
                if chance.random() < 0.6:
                    task.cancel()
            async with asyncio.timeout(60):
                for result in await asyncio.gather(*tasks, return_exceptions=True):
                    assert result is None or isinstance(result, asyncio.CancelledError)
        async with asyncio.timeout(60):
            await _write(db, "last")
    finally:
        await db.close()
