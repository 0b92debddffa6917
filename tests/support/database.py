"""A migrated database for tests."""

from __future__ import annotations

from pathlib import Path

from zun.store import migrate
from zun.store.database import Database


async def make_database(folder: Path) -> Database:
    """A SQLite database below ``folder`` at head; the caller closes it. A file that exists is opened again."""
    url = f"sqlite:///{folder}/zun.sqlite"
    migrate.upgrade(url)
    return Database(url)
