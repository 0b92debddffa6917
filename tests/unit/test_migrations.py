"""The migrations make exactly the tables of ``zun.store.tables``, fast, privately and once."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from typer.testing import CliRunner

from tests.support.database import make_database
from zun.cli import db_manage
from zun.store import migrate, settings
from zun.store.database import DatabaseUnavailable
from zun.store.tables import metadata


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/zun.sqlite"


@pytest.fixture(params=["revisions", "created at head"])
def made(request: pytest.FixtureRequest, url: str) -> str:
    """A database at head, by each of the two ways."""
    if request.param == "revisions":
        migrate._run_command(url, "upgrade", "head")
    else:
        migrate.upgrade(url)
    assert migrate.is_current(url)
    return url


def test_migrated_database_equals_the_tables(made: str) -> None:
    engine = sa.create_engine(made)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def _names(url: str) -> dict[str, set[str]]:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT type, tbl_name, name FROM sqlite_master")).all()
    engine.dispose()
    found: dict[str, set[str]] = {}
    for kind, table, name in rows:
        if table != "alembic_version":
            found.setdefault(f"{kind} {table}", set()).add(name)
    return found


def test_names_of_indexes_and_constraints_are_equal(made: str, tmp_path: Path) -> None:
    created = f"sqlite:///{tmp_path}/created.sqlite"
    engine = sa.create_engine(created)
    metadata.create_all(engine)
    engine.dispose()
    assert _names(made) == _names(created)


def test_head_is_the_newest_file() -> None:
    script = ScriptDirectory.from_config(migrate._config())
    assert script.get_current_head() == migrate.HEAD
    assert [revision for revision, _ in migrate.history()][-1] == migrate.HEAD


def test_current_before_and_after(url: str, tmp_path: Path) -> None:
    assert migrate.current(url) is None
    assert not (tmp_path / "zun.sqlite").exists()  # asking makes nothing
    migrate.upgrade(url)
    assert migrate.current(url) == migrate.HEAD
    assert migrate.is_current(url)


def test_files_are_private(url: str, tmp_path: Path) -> None:
    migrate.upgrade(url)
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO settings VALUES ('a', 'b')"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("zun.sqlite*")}
    engine.dispose()
    assert modes["zun.sqlite-wal"] == 0o600
    assert set(modes.values()) == {0o600}


def test_fast_on_an_empty_file(tmp_path: Path) -> None:
    took = []
    for attempt in range(3):
        start = time.process_time()  # how long a busy machine lets it wait is not its own
        migrate.upgrade(f"sqlite:///{tmp_path}/{attempt}.sqlite")
        took.append(time.process_time() - start)
    assert min(took) < 0.4


@pytest.mark.parametrize("present", [False, True], ids=["empty", "at head"])
def test_loads_no_alembic(url: str, present: bool) -> None:
    if present:
        migrate.upgrade(url)
    code = f"import sys; from zun.store import migrate; migrate.upgrade({url!r}); sys.exit('alembic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0


@pytest.mark.parametrize("call", ["upgrade({})", "_run_command({}, 'upgrade', 'head')"], ids=["created", "revisions"])
def test_two_processes_upgrade_at_once(url: str, call: str) -> None:
    code = f"from zun.store import migrate; migrate.{call.format(repr(url))}"
    both = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(2)]
    outcomes = [(process.communicate(timeout=120)[1], process.returncode) for process in both]
    assert [code for _, code in outcomes] == [0, 0], outcomes
    assert migrate.is_current(url)


async def test_upgrade_inside_an_event_loop(tmp_path: Path) -> None:
    db = await make_database(tmp_path)
    async with db.read() as connection:
        assert await settings.get(connection, "nothing") is None
    await db.close()


def test_unknown_revision_is_told(url: str) -> None:
    with pytest.raises(migrate.MigrationFailed, match="nonsense"):
        migrate.upgrade(url, "nonsense")


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "zun.sqlite").write_text("this is no database at all, only text " * 100)
    with pytest.raises(DatabaseUnavailable, match="cannot be read"):
        migrate.current(f"sqlite:///{tmp_path}/zun.sqlite")


def test_db_manage(url: str, tmp_path: Path) -> None:
    config = tmp_path / "zun.conf"
    config.write_text(f"[database]\nconnection = {url}\n")
    run = CliRunner().invoke

    def output(*arguments: str) -> str:
        result = run(db_manage.app, [*arguments])
        assert result.exit_code == 0, result.output
        return result.output

    assert output("--config-file", str(config), "version") == "Current DB revision is None\n"
    assert output("--config-file", str(config), "upgrade") == f"Current DB revision is {migrate.HEAD}\n"
    assert output("version", "--config-file", str(config)) == f"Current DB revision is {migrate.HEAD}\n"
    assert output("history").startswith("0001_initial  ")
    assert output("--config-file", str(config), "stamp", "head") == f"Current DB revision is {migrate.HEAD}\n"


async def test_settings_keep_the_last_value(tmp_path: Path) -> None:
    db = await make_database(tmp_path)
    for value in ("one", "two"):
        async with db.write() as connection:
            await settings.put(connection, "name", value)
    async with db.read() as connection:
        assert await settings.get(connection, "name") == "two"
    await db.close()


def test_deployment_id_is_one_for_all_processes(url: str) -> None:
    migrate.upgrade(url)
    code = (
        "import asyncio\nfrom zun.store import settings\nfrom zun.store.database import Database\n"
        f"async def main():\n    db = Database({url!r})\n    print(await settings.deployment_id(db))\n"
        "    await db.close()\nasyncio.run(main())"
    )
    many = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = {process.communicate(timeout=120)[0].strip() for process in many}
    assert len(answers) == 1
    assert len(answers.pop()) == 36
