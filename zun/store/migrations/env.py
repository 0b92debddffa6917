"""What Alembic runs: the revisions, in one transaction of ``zun.store.database.Database``.

The address comes from ``config.attributes["connection_url"]``. Two processes that migrate one SQLite file at once are
put in order by its write lock.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import sqlalchemy as sa
from alembic import context

from zun.store.database import Database
from zun.store.tables import Json, metadata


def render_item(kind: str, item: Any, autogen_context: Any) -> str | Literal[False]:
    """Revisions name SQLAlchemy's types only, so that they outlive our classes."""
    return "sa.Text()" if kind == "type" and isinstance(item, Json) else False


def run(connection: sa.Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_item=render_item,
        render_as_batch=connection.dialect.name == "sqlite",
    )
    with context.begin_transaction():
        context.run_migrations()


async def migrate() -> None:
    database = Database(context.config.attributes["connection_url"], pool_size=1)
    try:
        async with database.write() as connection:
            await connection.run_sync(run)
    finally:
        await database.close()


asyncio.run(migrate())
