"""What a database is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from zun.store.database import Database


@contextmanager
def statements(db: Database) -> Iterator[list[str]]:
    """Each SELECT outside of transactions, as it is sent, for as long as the block lasts."""
    seen: list[str] = []

    def on_execute(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        seen.append(statement)

    sa.event.listen(db._reader.sync_engine, "before_cursor_execute", on_execute)
    try:
        yield seen
    finally:
        sa.event.remove(db._reader.sync_engine, "before_cursor_execute", on_execute)
