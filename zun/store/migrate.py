"""Brings a database to a revision. Blocking: called before the event loop runs, or from it at start-up only.

``is_current`` is the cheap question every service asks first; it loads neither Alembic nor, for SQLite, SQLAlchemy's
engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from zun.domain.errors import ZunError
from zun.store import wal
from zun.store.address import SQLITE_WAITS

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0009_fences"
"""The newest revision; a test compares it with the files."""

_VERSION_TABLE = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)

_T = TypeVar("_T")


class MigrationFailed(ZunError):
    """The database could not be brought to the revision asked for."""


def upgrade(connection_url: str, revision: str = "head") -> None:
    """Run the revisions that lack; at head nothing is loaded or written. A new SQLite file gets mode 0600.

    An empty SQLite file gets the tables of head at once: loading Alembic would be most of a first start.
    Raises MigrationFailed (unknown revision), DatabaseUnavailable.
    """
    if revision in ("head", HEAD):
        present = current(connection_url)
        path = sqlite_path(connection_url)
        if present == HEAD or (present is None and path is not None and _create_at_head(path)):
            return
    _run_command(connection_url, "upgrade", revision)


def stamp(connection_url: str, revision: str) -> None:
    """Record ``revision`` without running anything."""
    _run_command(connection_url, "stamp", revision)


def current(connection_url: str) -> str | None:
    """The database's revision; None for an empty or absent database. Raises DatabaseUnavailable."""
    path = sqlite_path(connection_url)
    if path is not None:
        return _current_of_file(path)
    return _off_loop(lambda: asyncio.run(_current_of_server(connection_url)))


def is_current(connection_url: str) -> bool:
    """Is the database at head? One query."""
    return current(connection_url) == HEAD


def history() -> Sequence[tuple[str, str]]:
    """(revision, what it does), oldest first."""
    from alembic.script import ScriptDirectory

    script = ScriptDirectory.from_config(_config())
    return [(entry.revision, entry.doc) for entry in reversed(list(script.walk_revisions()))]


def sqlite_path(connection_url: str) -> Path | None:
    """The file of a SQLite URL; None for other databases and for ``:memory:``."""
    url = sa.make_url(connection_url)
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database))


def _config(connection_url: str | None = None) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection_url"] = connection_url
    return config


def _run_command(connection_url: str, name: str, revision: str) -> None:
    from alembic import command
    from alembic.util import CommandError

    path = sqlite_path(connection_url)
    if path is not None:
        _make_private(path)
    try:
        _off_loop(lambda: getattr(command, name)(_config(connection_url), revision))
    except CommandError as error:
        raise MigrationFailed(str(error)) from error


def _create_at_head(path: Path) -> bool:
    """All tables in one transaction; False when there are some already. A test proves them equal to the revisions."""
    from zun.store.database import DatabaseUnavailable
    from zun.store.tables import metadata

    _make_private(path)
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.pool.NullPool, connect_args={"timeout": SQLITE_WAITS})
    sa.event.listen(engine, "connect", _prepare)
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    try:
        with engine.begin() as connection:
            if connection.exec_driver_sql("SELECT 1 FROM sqlite_master").first():
                return False
            metadata.create_all(connection, checkfirst=False)
            connection.exec_driver_sql(_VERSION_TABLE)
            connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (HEAD,))
    except sa.exc.OperationalError as error:
        raise DatabaseUnavailable(f"The database file {path} cannot be written: {error.orig}.") from error
    return True


def _prepare(connection: sqlite3.Connection, record: object) -> None:
    connection.isolation_level = None  # transactions are ours, not the driver's
    wal.switch_blocking(connection)


def _make_private(path: Path) -> None:
    """SQLite gives the files beside it (-wal, -shm) the mode of the database file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise MigrationFailed(f"The database file {path} cannot be made: {error.strerror}.") from error


def _current_of_file(path: Path) -> str | None:
    from zun.store.database import DatabaseUnavailable

    if not path.exists():
        return None
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=SQLITE_WAITS)
        ) as connection:
            found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error as error:
        if "no such table" in str(error):
            return None
        raise DatabaseUnavailable(f"The database file {path} cannot be read: {error}.") from error
    return str(found[0]) if found else None


async def _current_of_server(connection_url: str) -> str | None:
    from zun.store.database import Database

    database = Database(connection_url, pool_size=1)
    try:
        async with database.read() as connection:
            if not await connection.run_sync(lambda sync: sa.inspect(sync).has_table("alembic_version")):
                return None
            found = await connection.execute(sa.text("SELECT version_num FROM alembic_version"))
            value: Any = found.scalar_one_or_none()
            return None if value is None else str(value)
    finally:
        await database.close()


def _off_loop(work: Callable[[], _T]) -> _T:
    """Run ``work``, which starts an event loop of its own, in a thread if one runs here already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    result: list[_T] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            result.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=target, name="zun-migrate")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]
