"""A database that takes no writes for a while, and one that fails over: API and agent as processes, real Docker.

Reads are answered, writes are refused with one sentence, nothing is half done, and all is made good afterwards.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from tests.support.cloud import SLEEP, Cloud
from tests.support.db_servers import MariaDb, PostgreSql, Server
from tests.support.processes import agent_up, healthy, running
from tests.support.product import Product
from tests.support.tcp_proxy import TcpProxy
from tests.support.wait import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

DEAF = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
AWAY = 20.0
"""Seconds for which connections are refused, as while a cluster chooses its next server."""
_NUMBERS = itertools.count(1)
_PLAIN = "plain"
"""An account that may do all to its database, and nothing to the server: a read-only server lets others write."""


class Rig:
    """The product on a database of ``server``, reached through a proxy."""

    def __init__(self, server: Server, product: Product, image: str, proxy: TcpProxy, name: str) -> None:
        self.server, self.product, self.proxy, self.name = server, product, proxy, name
        self.cloud = Cloud(product, image)

    def create(self, **body: object) -> str:
        return str(self.cloud.create(image_pull_policy="ifnotpresent", **body)["uuid"])

    def refused(self, method: str, path: str, **options: object) -> bool:
        """Is it, with the one sentence? Anything else than that and success is wrong."""
        answer = self.cloud.http.request(method, f"/v1{path}", **options)  # type: ignore[arg-type]
        if answer.status_code == 503:
            error = answer.json()["errors"][0]
            assert (error["code"], error["title"]) == (
                "container.",
                "The database does not answer now. Try again later.",
            ), error
        else:
            assert answer.status_code < 400, answer.text
        return answer.status_code == 503

    def all_is_true(self, at_work: str, killed: str, before: int) -> None:
        """What was at work has ended well, what happened meanwhile is told, nothing refused is there, more works."""
        self.cloud.wait(at_work, "Stopped", timeout=90)
        self.cloud.wait(killed, "Stopped", timeout=90)
        rows = self.cloud.get("/containers")["containers"]
        assert len(rows) == before
        assert not [row for row in rows if row["status"] == "Error"]
        for uuid in (at_work, killed):
            told = {action["message"] for action in self.cloud.actions(uuid)}
            assert told == {None}, told
        self.cloud.wait(self.create(), "Running", timeout=90)
        self.product.clear()
        for name in ("zun-api", "zun-compute"):
            assert "Traceback" not in (self.product.state.root / f"{name}.log").read_text()


@contextlib.contextmanager
def read_only(server: Server, database: str) -> Iterator[None]:
    """Meanwhile it takes no writes. Of PostgreSQL the sessions that began meanwhile stay so, as those do that a client
    has with a server that is no longer the primary one: only new ones may write."""
    if isinstance(server, MariaDb):
        server.sql("SET GLOBAL read_only = ON")
    else:
        server.sql(f"ALTER DATABASE {database} SET default_transaction_read_only = on", _ends_sessions(database))
    try:
        yield
    finally:
        if isinstance(server, MariaDb):
            server.sql("SET GLOBAL read_only = OFF")
        else:
            server.sql(f"ALTER DATABASE {database} RESET default_transaction_read_only")


def _ends_sessions(database: str) -> str:
    return f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"


@pytest.fixture
def rig(server: Server, make_product: Callable[[], Product], busybox: str, tmp_path: Path) -> Iterator[Rig]:
    name = f"refuses{next(_NUMBERS)}"
    url = sa.make_url(server.create_database(name))
    product, proxy = make_product(), TcpProxy(server.port)
    if isinstance(server, MariaDb):
        server.sql(f"CREATE USER IF NOT EXISTS {_PLAIN} IDENTIFIED BY '{_PLAIN}'", f"GRANT ALL ON {name}.* TO {_PLAIN}")
        url = url.set(username=_PLAIN, password=_PLAIN)
    else:
        assert isinstance(server, PostgreSql)
    connection = url.set(port=proxy.port).render_as_string(hide_password=False)
    product.conf(
        DEFAULT={"transport_url": f"unix://{tmp_path}/bus", "sync_container_state_interval": "2"},
        database={"connection": connection},
        compute={"sweep_interval": "1", "reaper_interval": "1"},
    )
    try:
        product.start().terminate()  # makes tables and token
        with running("zun-api", product):
            wait_until(lambda: healthy(product), 120, "zun-api answers")
            with running("zun-compute", product):
                wait_until(lambda: agent_up(product.http()), 120, "zun-compute is up")
                yield Rig(server, product, busybox, proxy, name)
    finally:
        proxy.stop()
        product.conf(database={"connection": url.render_as_string(hide_password=False)})  # for the check of leaks


def begin(rig: Rig) -> tuple[str, str]:
    """Two that run; the first is being stopped, which takes some seconds."""
    at_work, killed = rig.create(command=DEAF), rig.create(command=SLEEP)
    for uuid in (at_work, killed):
        rig.cloud.wait(uuid, "Running")
    rig.cloud.act(at_work, "stop", timeout="6")
    wait_until(lambda: (rig.cloud.show(at_work) or {})["task_state"] is not None, 30, "it is being stopped")
    return at_work, killed


def test_a_database_that_is_read_only_for_a_while(rig: Rig) -> None:
    at_work, killed = begin(rig)
    with read_only(rig.server, rig.name):
        wait_until(lambda: rig.refused("POST", f"/containers/{killed}/pause"), 30, "writes are refused")
        rig.product.engine.post(f"/containers/zun-{killed}/kill")
        body = {"image": rig.cloud.image, "command": SLEEP}
        assert rig.refused("POST", "/containers", json=body)
        assert rig.refused(
            "POST", "/containers", params={"run": "true"}, json=body | {"mounts": [{"size": "1", "destination": "/d"}]}
        )
        assert rig.refused("DELETE", f"/containers/{killed}", params={"force": "true"})
        assert rig.refused("POST", f"/containers/{killed}/rebuild")
        assert rig.refused("POST", "/registries", json={"registry": {"domain": "example.org"}})
        for path in ("/containers", f"/containers/{at_work}", "/services", f"/containers/{killed}/container_actions"):
            assert rig.cloud.http.get(f"/v1{path}").status_code == 200, path
        log = rig.product.state.root / "zun-compute.log"
        told = f"action=stop container={at_work} result=(unwritten|postponed)"
        wait_until(lambda: re.search(told, log.read_text()), 60, "the stop cannot be noted")
    rig.all_is_true(at_work, killed, before=2)


@pytest.mark.parametrize("server", ["mariadb"], indirect=True)
def test_a_database_that_fails_over(rig: Rig) -> None:
    at_work, killed = begin(rig)
    rig.proxy.mode("refuse")
    try:
        rig.product.engine.post(f"/containers/zun-{killed}/kill")
        assert rig.refused("GET", "/containers")
        assert rig.refused("POST", "/containers", json={"image": rig.cloud.image, "command": SLEEP})
        assert rig.refused("DELETE", f"/containers/{killed}", params={"force": "true"})
        assert httpx.get(f"{rig.product.url}/healthcheck", timeout=30).status_code in (200, 503)
        threading.Event().wait(AWAY)
    finally:
        rig.proxy.lift()
    wait_until(lambda: not rig.refused("GET", "/containers"), 60, "it answers again")
    rig.all_is_true(at_work, killed, before=2)
