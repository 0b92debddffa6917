"""The revisions on every kind of database: from nothing to head, by one process or several, by the operator's tools."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from typer.testing import CliRunner

from zun.cli import db_manage
from zun.store import migrate
from zun.store.database import Database
from zun.store.tables import metadata

KINDS = pytest.mark.parametrize("kind", ["sqlite", "mariadb", "postgresql"])
SERVERS = pytest.mark.parametrize("kind", ["mariadb", "postgresql"])


def _facts(connection: sa.Connection) -> dict[str, object]:
    """What the comparison of types does not see: names of indexes and keys, collations, precision."""
    inspector = sa.inspect(connection)
    found: dict[str, object] = {}
    for table in inspector.get_table_names():
        if table == "alembic_version":
            continue
        found[table] = (
            {column["name"]: (repr(column["type"]), column["nullable"]) for column in inspector.get_columns(table)},
            sorted(str(index["name"]) for index in inspector.get_indexes(table)),
            sorted(str(key["name"]) for key in inspector.get_unique_constraints(table)),
            sorted((str(key["name"]), key["options"].get("ondelete")) for key in inspector.get_foreign_keys(table)),
            inspector.get_table_options(table).get("mysql_default charset"),
        )
    return found


async def _look(url: str, look: Callable[[sa.Connection], Any]) -> Any:
    database = Database(url)
    try:
        async with database.write() as connection:
            return await connection.run_sync(look)
    finally:
        await database.close()


@KINDS
async def test_up_from_nothing_makes_the_tables(kind: str, new_url: Callable[[str], str]) -> None:
    migrated, created = new_url(kind), new_url(kind)
    migrate._run_command(migrated, "upgrade", "head")
    await _look(created, metadata.create_all)

    def differences(connection: sa.Connection) -> Any:
        return compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)

    assert await _look(migrated, differences) == []
    assert await _look(migrated, _facts) == await _look(created, _facts)
    assert migrate.is_current(migrated)


async def test_tables_of_mariadb_compare_exactly_whatever_the_database_does(new_url: Callable[[str], str]) -> None:
    url = new_url("mariadb")
    migrate.upgrade(url)
    query = sa.text(
        "SELECT DISTINCT collation_name FROM information_schema.columns "
        "WHERE table_schema = database() AND collation_name IS NOT NULL AND table_name <> 'alembic_version'"
    )
    assert await _look(url, lambda connection: connection.execute(query).scalars().all()) == ["utf8mb4_bin"]


@SERVERS
def test_several_processes_upgrade_at_once(kind: str, new_url: Callable[[str], str]) -> None:
    url = new_url(kind)
    code = f"from zun.store import migrate; migrate.upgrade({url!r})"
    many = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(3)]
    outcomes = [(process.communicate(timeout=120)[1], process.returncode) for process in many]
    assert outcomes == [(b"", 0)] * 3
    assert migrate.is_current(url)


@SERVERS
def test_db_manage(kind: str, new_url: Callable[[str], str], tmp_path: Path) -> None:
    config = tmp_path / "zun.conf"
    config.write_text(f"[database]\nconnection = {new_url(kind)}\n")

    def output(*arguments: str) -> str:
        result = CliRunner().invoke(db_manage.app, ["--config-file", str(config), *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    assert output("version") == "Current DB revision is None\n"
    assert output("upgrade") == f"Current DB revision is {migrate.HEAD}\n"
    assert output("upgrade") == f"Current DB revision is {migrate.HEAD}\n"
    assert output("version") == f"Current DB revision is {migrate.HEAD}\n"
    assert output("stamp", "head") == f"Current DB revision is {migrate.HEAD}\n"


@SERVERS
async def test_an_upgrade_from_a_running_loop(kind: str, new_url: Callable[[str], str]) -> None:
    url = new_url(kind)
    migrate.upgrade(url)
    assert migrate.is_current(url)
