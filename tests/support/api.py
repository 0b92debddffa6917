"""The real API application on a database of its own, called in process.

``async with make_api(folder) as api: client = api.client(roles=("member",))``; or ``make_client`` for one client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa

from tests.support.fakes import FakeIdentity
from zun import conf as configuration
from zun import parts as chosen
from zun.api.app import create_app
from zun.api.policy import PolicyEnforcer
from zun.api.table import Route
from zun.control.base import Control
from zun.domain.caller import Caller
from zun.store.tables import metadata

BASE = "http://localhost"
KEY = "x" * 32
PROJECT = "proj1"
USER = "user1"


@dataclass
class Api:
    """The application and what is behind it."""

    control: Control
    app: Any
    identity: FakeIdentity
    conf: Any
    parts: chosen.Parts
    folder: Path
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    def client(
        self,
        roles: Iterable[str] = ("member",),
        *,
        project_id: str | None = PROJECT,
        user_id: str = USER,
        version: str | None = "1.40",
        token: str | None = "",
        address: str = "127.0.0.1",
        headers: Mapping[str, str] | None = None,
    ) -> httpx.AsyncClient:
        """A client with a token of these roles; ``token`` None sends none, ``version`` None no microversion."""
        sent = dict(headers or {})
        if token is not None:
            named = token or f"token-{project_id}-{user_id}-{'-'.join(roles)}"
            if not token:
                self.identity.add(named, Caller(user_id, project_id, frozenset(roles), token=named))
            sent["X-Auth-Token"] = named
        if version is not None:
            sent["OpenStack-API-Version"] = f"container {version}"
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=True, client=(address, 4711))
        client = httpx.AsyncClient(transport=transport, base_url=BASE, headers=sent)
        self._stack.push_async_callback(client.aclose)
        return client

    @property
    def admin(self) -> httpx.AsyncClient:
        return self.client(("admin",), project_id="adminproject", user_id="root")


def configure(folder: Path, options: Mapping[str, Any] | None = None) -> Any:
    """A configuration whose state is in ``folder``; ``options`` by ``group.name`` (``api.max_limit``) or name."""
    file = folder / "zun.conf"
    lines = {"DEFAULT": [f"state_path = {folder}", f"auth_encryption_key = {KEY}", "container_driver = simulated"]}
    lines["database"] = [f"connection = sqlite:///{folder}/zun.sqlite"]
    lines["api"] = [f"healthcheck_disable_file = {folder}/disabled"]
    lines["api"] += ["stream_seconds = 0.05", "event_poll_interval = 0.01"]  # the client reads answers whole
    for name, value in (options or {}).items():
        group, _, option = name.rpartition(".")
        lines.setdefault(group or "DEFAULT", []).append(f"{option} = {value}")
    file.write_text("".join(f"[{group}]\n" + "\n".join(rows) + "\n" for group, rows in lines.items()))
    return configuration.load([], files=[str(file)])


def create_tables(conf: Any) -> None:
    """The newest schema in the SQLite database of ``conf``, if it is new; databases of servers have theirs."""
    url = sa.make_url(conf.database.connection)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        Path(str(url.database)).write_bytes(_empty_database())


@cache
def _empty_database() -> bytes:
    """Made once: each statement that makes a table in a file waits for the disk."""
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        metadata.create_all(connection)
        driver: Any = connection.connection.dbapi_connection
        driver.commit()
        made: bytes = driver.serialize()
    engine.dispose()
    return made


@asynccontextmanager
async def make_api(
    folder: Path, options: Mapping[str, Any] | None = None, *, routes: Sequence[Route] | None = None
) -> AsyncIterator[Api]:
    """The application on a fresh database in ``folder`` with the embedded adapters and the simulated runtime."""
    conf = configure(folder, options)
    create_tables(conf)
    identity = FakeIdentity()
    async with chosen.build(conf) as parts:
        control = parts.control()
        app = create_app(control, identity, PolicyEnforcer(conf), routes=routes)
        api = Api(control, app, identity, conf, parts, folder)
        async with api._stack:
            yield api


@asynccontextmanager
async def make_client(
    folder: Path, roles: Iterable[str] = ("member",), options: Mapping[str, Any] | None = None, **who: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """One client of an application of its own."""
    async with make_api(folder, options) as api:
        yield api.client(roles, **who)


def fault(response: httpx.Response) -> dict[str, Any]:
    """The one error of a contract body, checked for its shape."""
    assert response.headers["content-type"].startswith("application/json")
    (error,) = response.json()["errors"]
    assert error["request_id"] == ""
    assert error["status"] == response.status_code
    assert {"code", "title", "detail", "links"} <= error.keys()
    return dict(error)


def told(response: httpx.Response) -> tuple[int, str, str]:
    """Status, code without the service, and text of a refusal."""
    error = fault(response)
    return response.status_code, error["code"].removeprefix("container."), error["title"]
