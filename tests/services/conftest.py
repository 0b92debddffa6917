"""The database servers, once a run, and empty databases at head on each of them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.support.db_servers import MariaDb, PostgreSql, Server, started
from zun.store import migrate
from zun.store.database import Database
from zun.store.tables import metadata

SERVERS: dict[str, Callable[[], Server]] = {"mariadb": MariaDb, "postgresql": PostgreSql}
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[str], Server]]:
    """Gives the running server of that name; started when first asked for."""
    running: dict[str, Server] = {}

    def server(name: str) -> Server:
        if name not in running:
            running[name] = started(SERVERS[name])
        return running[name]

    yield server
    for one in running.values():
        one.remove()


@pytest.fixture(scope="session")
def migrated(servers: Callable[[str], Server], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Gives the URL of a database at head, one for each kind and run."""
    urls: dict[str, str] = {}

    def url(kind: str) -> str:
        if kind not in urls:
            if kind == "sqlite":
                urls[kind] = f"sqlite:///{tmp_path_factory.mktemp('databases')}/zun.sqlite"
            else:
                urls[kind] = servers(kind).create_database("at_head")
            migrate.upgrade(urls[kind])
        return urls[kind]

    return url


@pytest.fixture
def new_url(servers: Callable[[str], Server], tmp_path: Path) -> Callable[[str], str]:
    """Gives the URL of a database of that kind that has nothing in it."""

    def url(kind: str) -> str:
        number = next(_NUMBERS)
        return (
            f"sqlite:///{tmp_path}/{number}.sqlite" if kind == "sqlite" else servers(kind).create_database(f"n{number}")
        )

    return url


@pytest.fixture(params=["sqlite", "mariadb", "postgresql"])
async def db(request: pytest.FixtureRequest, migrated: Callable[[str], str]) -> AsyncIterator[Database]:
    """A database of each kind, at head, without rows."""
    database = Database(migrated(request.param))
    async with database.write() as connection:
        for table in reversed(metadata.sorted_tables):
            await connection.execute(table.delete())
    yield database
    await database.close()


@pytest.fixture(params=["mariadb", "postgresql"])
def server(request: pytest.FixtureRequest, servers: Callable[[str], Server]) -> Server:
    """Each of the servers; whoever stops it starts it again."""
    return servers(request.param)


@pytest.fixture
def server_url(server: Server) -> str:
    """A database of its own on ``server``, at head."""
    url = server.create_database(f"n{next(_NUMBERS)}")
    migrate.upgrade(url)
    return url
