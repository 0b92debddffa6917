"""From each earlier revision, with rows in every table, to head: nothing is lost and the schema is the tables'."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tests.services.test_schema import KINDS, _look
from zun.store import migrate
from zun.store.tables import metadata

EARLIER = [revision for revision, _ in migrate.history()][:-1]


def _value(column: sa.Column[Any], number: int) -> Any:
    """Something that fits; a foreign key gets what the row of that number in the other table has."""
    if column.foreign_keys:
        column = next(iter(column.foreign_keys)).column
    kind = column.type.python_type
    if kind is int:
        return number
    if kind is str:
        return f"{column.name}-{number}"[: getattr(column.type, "length", None) or 60]
    if kind is datetime:
        return datetime(2026, 1, 2, 3, 4, 5)
    return {bool: False, float: 1.5}.get(kind, 1.5)


def _fill(connection: sa.Connection) -> None:
    old = sa.MetaData()
    old.reflect(connection)
    for table in old.sorted_tables:
        if table.name != "alembic_version":
            for number in (1, 2):
                connection.execute(table.insert(), {column.name: _value(column, number) for column in table.columns})


def _rows(connection: sa.Connection, columns: dict[str, list[str]]) -> dict[str, list[Any]]:
    found = {}
    for table, names in columns.items():
        query = sa.select(*(sa.column(name) for name in names)).select_from(sa.table(table))
        found[table] = sorted(map(repr, connection.execute(query)))
    return found


def _columns(connection: sa.Connection) -> dict[str, list[str]]:
    inspector = sa.inspect(connection)
    tables = (name for name in inspector.get_table_names() if name != "alembic_version")
    return {table: [column["name"] for column in inspector.get_columns(table)] for table in tables}


@KINDS
@pytest.mark.parametrize("revision", EARLIER)
async def test_up_with_data(kind: str, revision: str, new_url: Callable[[str], str]) -> None:
    url = new_url(kind)
    migrate._run_command(url, "upgrade", revision)
    await _look(url, _fill)
    columns = await _look(url, _columns)
    before = await _look(url, lambda connection: _rows(connection, columns))
    assert sum(map(len, before.values())) >= 2 * len(columns)

    migrate.upgrade(url)

    assert await _look(url, lambda connection: _rows(connection, columns)) == before

    def differences(connection: sa.Connection) -> Any:
        return compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)

    assert await _look(url, differences) == []
    assert migrate.is_current(url)
