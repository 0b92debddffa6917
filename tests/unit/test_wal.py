"""Two connections that switch one new file to the write-ahead log at the same moment: both get there."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from pathlib import Path

import aiosqlite
import pytest

from zun.store import wal

ROUNDS = 40
"""SQLite alone refuses one of the two in about every second round."""


def _switch_one(path: Path, both: threading.Barrier) -> str:
    with contextlib.closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
        both.wait(timeout=30)
        wal.switch_blocking(connection)
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


async def test_two_threads_switch_a_new_file_at_once(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        path, both = tmp_path / f"{number}.sqlite", threading.Barrier(2)
        modes = await asyncio.gather(*(asyncio.to_thread(_switch_one, path, both) for _ in range(2)))
        assert modes == ["wal", "wal"]


async def test_two_tasks_switch_a_new_file_at_once(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        path = tmp_path / f"{number}.sqlite"
        async with aiosqlite.connect(path) as one, aiosqlite.connect(path) as other:
            await asyncio.gather(wal.switch(one), wal.switch(other))


async def test_what_is_not_a_meeting_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "no.sqlite").write_text("no database " * 100)
    with (
        contextlib.closing(sqlite3.connect(tmp_path / "no.sqlite")) as connection,
        pytest.raises(sqlite3.DatabaseError, match="not a database"),
    ):
        wal.switch_blocking(connection)


async def test_a_file_locked_for_longer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal, "SQLITE_WAITS", 0.2)
    path = tmp_path / "locked.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        async with aiosqlite.connect(path, timeout=0.1) as connection:
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                await wal.switch(connection)
        holder.execute("ROLLBACK")
