"""Insert a row unless it is there, so that an UPDATE can follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection


async def insert_missing(connection: AsyncConnection, table: sa.Table, values: Mapping[str, Any]) -> None:
    """The row exists afterwards, whoever made it.

    An INSERT that fails leaves a shared lock in MariaDB: of several that then want to UPDATE, all but one would be
    deadlock victims. This takes the exclusive lock at once.
    """
    statement: sa.Executable
    if connection.dialect.name in ("mysql", "mariadb"):  # a dialect is loaded where it is used
        from sqlalchemy.dialects import mysql

        key = next(iter(table.primary_key))
        statement = mysql.insert(table).values(**values).on_duplicate_key_update({key.name: key})
    elif connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        statement = postgresql.insert(table).values(**values).on_conflict_do_nothing()
    else:
        statement = sqlite.insert(table).values(**values).on_conflict_do_nothing()
    await connection.execute(statement)
