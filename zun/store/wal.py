"""The write-ahead log, SQLite's mode in which readers and the one writer do not wait for each other.

The mode is kept in the file. The switch to it is the one step for which SQLite does not wait while another connection
makes it too (SQLITE_BUSY at once, whatever the time-out): two services started on a new file would meet there.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from typing import Any

from zun.store.address import SQLITE_WAITS

SWITCH = "PRAGMA journal_mode=WAL"


async def switch(connection: Any) -> None:
    """Switch an aiosqlite connection. Raises sqlite3.OperationalError after SQLITE_WAITS seconds."""
    deadline = time.monotonic() + SQLITE_WAITS
    while True:
        try:
            await (await connection.execute(SWITCH)).close()
            return
        except sqlite3.OperationalError as error:
            _raise_unless_met(error, deadline)
        await asyncio.sleep(_pause())


def switch_blocking(connection: sqlite3.Connection) -> None:
    """Switch a connection of the standard library; as ``switch``."""
    deadline = time.monotonic() + SQLITE_WAITS
    while True:
        try:
            connection.execute(SWITCH).close()
            return
        except sqlite3.OperationalError as error:
            _raise_unless_met(error, deadline)
        time.sleep(_pause())


def _raise_unless_met(error: sqlite3.OperationalError, deadline: float) -> None:
    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
        raise error


def _pause() -> float:
    """Seconds, not alike in two processes that meet."""
    return random.uniform(0.005, 0.05)  # noqa: S311 - jitter, no secret
