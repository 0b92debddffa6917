"""What Alembic runs: the revisions, in one transaction of ``zun.store.database.Database``.

The address comes from ``config.attributes["connection_url"]``. Processes that migrate one database at once are put in
order: a SQLite file by its write lock, a server by an advisory lock. MariaDB commits each change of a table by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import sqlalchemy as sa
from alembic import context
from alembic.util import CommandError

from zun.store.columns import Json, LongText, Moment, tell_options
from zun.store.database import Database
from zun.store.tables import metadata

LOCK = "zun-migrate"
LOCK_KEY = 0x7A756E  # PostgreSQL names advisory locks by number; each database has its own
LONGEST = 3600
"""Seconds to wait for another process that migrates."""


@contextmanager
def one_at_a_time(connection: sa.Connection) -> Iterator[None]:
    """Hold the database's migration lock for the block."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK_KEY)))  # ends with the transaction
        yield
    elif connection.dialect.name == "sqlite":
        yield
    else:  # names of locks are the server's, at most 64 characters
        name = sa.func.concat(LOCK, ":", sa.func.md5(sa.func.database()))
        if not connection.scalar(sa.select(sa.func.get_lock(name, LONGEST))):
            raise CommandError(f"Another process has been migrating this database for {LONGEST} seconds.")
        yield  # the lock ends with the connection: earlier, the version would not be committed yet


def render_item(kind: str, item: Any, autogen_context: Any) -> str | Literal[False]:
    """Revisions name SQLAlchemy's types only, so that they outlive our classes."""
    if kind == "type" and isinstance(item, (Json, LongText)):
        return 'sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")'
    if kind == "type" and isinstance(item, Moment):
        return 'sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")'
    return False


def run(connection: sa.Connection) -> None:
    tell_options()
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_item=render_item,
        render_as_batch=connection.dialect.name == "sqlite",
    )
    with one_at_a_time(connection), context.begin_transaction():
        context.run_migrations()


async def migrate() -> None:
    database = Database(context.config.attributes["connection_url"], pool_size=1)
    try:
        async with database.write() as connection:
            await connection.run_sync(run)
    finally:
        await database.close()


logging.getLogger("asyncmy").setLevel(logging.ERROR)  # MariaDB warns of each named primary key
asyncio.run(migrate())
