"""Statements on SQLite are one trip each to the connection's thread, and tell what the driver's own cursors tell."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
import sqlalchemy as sa

from tests.support.wait import eventually
from zun.store import wal
from zun.store.database import Database
from zun.store.sqlite_thread import creator

_table = sa.Table(
    "notes", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("word", sa.String(20), unique=True)
)


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    made = Database(f"sqlite:///{tmp_path}/notes.sqlite")
    async with made.write() as connection:
        await connection.execute(sa.schema.CreateTable(_table))
    yield made
    await made.close()


@pytest.fixture
def trips(db: Database, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each trip to a connection's thread."""
    made: list[str] = []
    execute: Any = aiosqlite.Connection._execute

    async def noted(self: Any, work: Any, *arguments: Any, **options: Any) -> Any:
        made.append(getattr(work, "__name__", str(work)))
        return await execute(self, work, *arguments, **options)

    monkeypatch.setattr(aiosqlite.Connection, "_execute", noted)
    return made


async def test_a_look_is_one_trip(db: Database, trips: list[str]) -> None:
    async with db.read() as connection:
        await connection.execute(sa.select(_table))
    trips.clear()  # with those that open the connection
    async with db.read() as connection:
        assert (await connection.execute(sa.select(_table))).all() == []
    assert len(trips) == 1


async def test_a_transaction_is_its_statements_its_begin_and_its_end(db: Database, trips: list[str]) -> None:
    async with db.write() as connection:
        await connection.execute(_table.insert().values(word="one"))
        await connection.execute(_table.insert().values(word="two"))
    assert len(trips) == 4, trips


async def test_results_are_the_drivers(db: Database) -> None:
    async with db.write() as connection:
        made = await connection.execute(_table.insert().values(word="one"))
        assert made.inserted_primary_key == (1,)
        await connection.execute(_table.insert(), [{"word": "two"}, {"word": "three"}])
        told = await connection.execute(_table.insert().values(word="four").returning(_table.c.id))
        assert told.scalar_one() == 4
        assert (await connection.execute(_table.update().values(word=_table.c.word + "!"))).rowcount == 4
        assert (await connection.execute(_table.delete().where(_table.c.id == 9))).rowcount == 0
    async with db.read() as connection:
        rows = (await connection.execute(sa.select(_table).order_by(_table.c.id))).mappings().all()
    assert [dict(row) for row in rows] == [
        {"id": number, "word": f"{word}!"} for number, word in enumerate(("one", "two", "three", "four"), 1)
    ]


async def test_what_fails_is_told_and_leaves_nothing_begun(db: Database) -> None:
    async def twice() -> None:
        async with db.write() as connection:
            await connection.execute(_table.insert().values(word="one"))
            await connection.execute(_table.insert().values(word="one"))

    with pytest.raises(sa.exc.IntegrityError):
        await twice()
    async with db.write() as connection:
        assert (await connection.execute(sa.select(sa.func.count()).select_from(_table))).scalar_one() == 0
        with pytest.raises(sa.exc.OperationalError, match="no such table"):
            await connection.execute(sa.text("SELECT * FROM absent"))
        await connection.execute(_table.insert().values(word="one"))
    async with db.read() as connection:
        assert (await connection.execute(sa.select(_table.c.word))).scalars().all() == ["one"]


async def test_a_connection_whose_opening_is_cancelled_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    opening = asyncio.Event()

    async def slow(connection: Any) -> None:
        opening.set()
        await asyncio.sleep(3600)

    monkeypatch.setattr(wal, "switch", slow)
    before = set(threading.enumerate())
    task = asyncio.ensure_future(creator(sa.make_url(f"sqlite+aiosqlite:///{tmp_path}/new.sqlite"), {}, [])())
    await opening.wait()
    threads = set(threading.enumerate()) - before
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not any(one.is_alive() for one in threads), 30, "its thread ends")
    del task
    gc.collect()
    assert threads
    assert [str(one.message) for one in recwarn] == []


async def test_a_database_is_closed_once_the_threads_of_connections_given_up_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that told a loop which is closed would fail: "Event loop is closed"."""
    opening, hold = asyncio.Event(), threading.Event()

    async def slow(connection: Any) -> None:
        connection._tx.put_nowait((None, hold.wait))  # its thread is busy when it is told to end
        opening.set()
        await asyncio.sleep(3600)

    database = Database(f"sqlite:///{tmp_path}/new.sqlite")
    monkeypatch.setattr(wal, "switch", slow)
    url = sa.make_url(f"sqlite+aiosqlite:///{tmp_path}/new.sqlite")
    opened = asyncio.ensure_future(creator(url, {}, [], database._leaving)())
    await opening.wait()
    opened.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opened
    closing = asyncio.ensure_future(database.close())
    done, _ = await asyncio.wait({closing}, timeout=0.2)
    assert not done
    hold.set()
    await closing
    assert not database._leaving
