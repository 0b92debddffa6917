"""A node whose network is cut: its agent in a network namespace of its own, with an engine of its own; database and
broker are on the other end of one cable."""

from __future__ import annotations

import configparser
import contextlib
import ipaddress
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.support.cloud import SLEEP, Cloud
from tests.support.db_servers import Server
from tests.support.dockerd import Dockerd
from tests.support.namespaces import Namespace, run
from tests.support.processes import healthy, running
from tests.support.product import ZUN, Product
from tests.support.rabbit import URL_PASSWORD, USER, Rabbit
from tests.support.subnets import SubnetClaim
from tests.support.tcp_proxy import TcpProxy
from tests.support.wait import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

LONG = bool(os.environ.get("ZUN_LONG_FAULTS"))
CUT = 120.0 if LONG else 0.0
"""Seconds for which the cable is out at least."""
FAR, NEAR = "node-far", "node-near"
DOWN, FENCE, EVACUATE = 10, 4, 16


class Cable:
    """A pair of interfaces, one in ``space``; ``near`` is the host's address, ``far`` the other."""

    def __init__(self, space: Namespace) -> None:
        self._claim = SubnetClaim()
        network = ipaddress.IPv4Network(self._claim.cidr)
        self.near, self.far = str(network[-2]), str(network[-3])
        self.name = f"v{space.name[:12]}"
        run("ip", "link", "add", self.name, "type", "veth", "peer", "name", "up0", "netns", space.name)
        run("ip", "addr", "add", f"{self.near}/30", "dev", self.name)
        space.ip("addr", "add", f"{self.far}/30", "dev", "up0")
        space.ip("link", "set", "up0", "up")
        space.ip("link", "set", "lo", "up")
        self.plug()

    def plug(self) -> None:
        run("ip", "link", "set", self.name, "up")

    def cut(self) -> None:
        run("ip", "link", "set", self.name, "down")

    def close(self) -> None:
        run("ip", "link", "del", self.name)
        self._claim.close()


class Rig:
    """Both nodes at work."""

    def __init__(self, product: Product, dockerd: Dockerd, cable: Cable, image: str) -> None:
        self.product, self.far, self.cable = product, dockerd.engine, cable
        self.cloud = Cloud(product, image)

    def create(self, host: str, **body: Any) -> str:
        uuid = str(self.cloud.create(host=host, command=SLEEP, image_pull_policy="ifnotpresent", **body)["uuid"])
        self.cloud.wait(uuid, "Running")
        return uuid

    def state(self, uuid: str) -> dict[str, Any]:
        """On the node that is cut off: what its ``docker inspect`` says; empty when it has it no more."""
        return dict((self.far.container(uuid) or {"State": {}})["State"])

    def up(self) -> set[str]:
        rows = self.cloud.get("/services")["services"]
        return {row["host"] for row in rows if row["state"] == "up"}

    def reports(self, host: str) -> int:
        """Told by the node's agent so far; with each it reads what it may leave running when it is cut off."""
        return sum(row["report_count"] for row in self.cloud.get("/services")["services"] if row["host"] == host)

    def is_on(self, uuid: str, host: str) -> bool:
        row = self.cloud.show(uuid) or {}
        return (row.get("status"), row.get("task_state"), row.get("host")) == ("Running", None, host)


def configuration(product: Product, host: str, **changes: dict[str, Any]) -> Path:
    """Of one agent: the product's, but for these."""
    folder = product.state.root / host
    folder.mkdir()
    parser = configparser.RawConfigParser(default_section="")
    parser.read(product.state.conf_file)
    for section, options in ({"DEFAULT": {"host": host, "state_path": str(folder)}} | changes).items():
        for name, value in options.items():
            parser.set(section, name, value)
    with (folder / "zun.conf").open("w") as file:
        parser.write(file)
    return folder / "zun.conf"


@contextlib.contextmanager
def agent(conf: Path, *before: str) -> Iterator[None]:
    """``zun-compute`` on this configuration; ended with SIGTERM."""
    command = [*before, str(ZUN.with_name("zun-compute")), "--config-file", str(conf)]
    with conf.with_name("log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
        process.terminate()
        assert process.wait(90) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


@pytest.fixture
def cable() -> Iterator[tuple[Cable, Namespace]]:
    space = Namespace()
    try:
        made = Cable(space)
        try:
            yield made, space
        finally:
            made.close()
    finally:
        space.close()


@pytest.fixture
def rig(
    servers: Callable[[str], Server],
    rabbit: Rabbit,
    make_product: Callable[[], Product],
    busybox: str,
    cable: tuple[Cable, Namespace],
) -> Iterator[Rig]:
    server, (wire, space), product = servers("mariadb"), cable, make_product()
    url = server.create_database(f"cut{product.port}")
    product.conf(
        DEFAULT={
            "transport_url": rabbit.url(query="rabbit_retry_interval=0.2&rabbit_interval_max=1"),
            "service_down_time": DOWN,
            "periodic_interval_max": 1,
            "sync_container_state_interval": 2,
        },
        database={"connection": url},
        compute={
            "topic": f"cut-{product.port}",
            "evacuate_after": EVACUATE,
            "fence_seconds": FENCE,
            "evacuation_interval": 1,
            "sweep_interval": 1,
            "reaper_interval": 1,
            "disk_free_min_mib": 0,
        },
        oslo_messaging_rabbit={"heartbeat_timeout_threshold": 6},
    )
    with contextlib.ExitStack() as stack:
        dockerd = Dockerd(96)
        stack.callback(dockerd.close)
        dockerd.start().engine.load_busybox()
        doors = [TcpProxy(port, listens_on=wire.near) for port in (server.port, rabbit.port)]
        for door in doors:
            stack.callback(door.stop)
        product.start().terminate()  # makes tables and token
        there = sa.make_url(url).set(host=wire.near, port=doors[0].port).render_as_string(hide_password=False)
        far = configuration(
            product,
            FAR,
            DEFAULT={
                "host": FAR,
                "state_path": str(product.state.root / FAR),
                "transport_url": f"rabbit://{USER}:{URL_PASSWORD}@{wire.near}:{doors[1].port}/"
                "?rabbit_retry_interval=0.2&rabbit_interval_max=1",
            },
            database={"connection": there},
            docker={"api_url": f"unix://{dockerd.socket}"},
        )
        stack.enter_context(running("zun-api", product))
        wait_until(lambda: healthy(product), 120, "zun-api answers")
        stack.enter_context(agent(configuration(product, NEAR)))
        stack.enter_context(agent(far, *space.inside))
        made = Rig(product, dockerd, wire, busybox)
        made.cloud.http.timeout = httpx.Timeout(120)
        wait_until(lambda: made.up() >= {FAR, NEAR}, 120, "both agents are up")
        yield made
        product.clear()


def test_a_node_that_is_cut_off_and_returns(rig: Rig) -> None:
    cloud = rig.cloud
    stays, dies, goes = (rig.create(FAR) for _ in range(3))
    heals = rig.create(FAR, auto_heal=True)
    begun, told = rig.state(stays)["StartedAt"], rig.reports(FAR)
    wait_until(lambda: rig.reports(FAR) > told + 1, 60, "the node knows what it may leave running")
    least = threading.Timer(CUT, lambda: None)
    rig.cable.cut()
    least.start()
    try:
        _cut_off(rig, stays, dies, goes, heals)
        while least.is_alive():
            least.join(1)
            assert rig.state(stays)["Running"]
            assert rig.is_on(heals, NEAR)
    finally:
        rig.cable.plug()
    wait_until(lambda: rig.up() >= {FAR, NEAR}, 180, "it is back")
    cloud.wait_gone(goes, 120)
    wait_until(lambda: rig.far.container(goes) is None, 60, "what was deleted meanwhile is removed")
    wait_until(lambda: rig.far.container(heals) is None, 60, "and so is what has moved")
    cloud.wait(dies, "Stopped", timeout=120)
    shown = cloud.wait(stays, "Running", timeout=120)
    assert shown["status_detail"] != "Host down"
    assert rig.state(stays)["StartedAt"] == begun, "it ran all the time"
    assert rig.is_on(heals, NEAR)
    assert [action["action"] for action in cloud.actions(heals)] == ["evacuate", "create"]
    rig.create(FAR)
    for name in (FAR, NEAR):
        assert "Traceback" not in (rig.product.state.root / name / "log").read_text()


def _cut_off(rig: Rig, stays: str, dies: str, goes: str, heals: str) -> None:
    """What is true meanwhile. Of what is moved, at most one runs at any time."""
    cloud = rig.cloud
    rig.far.post(f"/containers/zun-{dies}/kill")

    def moved() -> bool:
        here = rig.product.engine.container(heals)  # first the new one: the former ended before that
        assert not (here and here["State"]["Running"] and rig.state(heals).get("Running")), "it runs twice"
        return rig.is_on(heals, NEAR)

    wait_until(moved, 120, "what is to be healed runs on the other node")
    assert not rig.state(heals)["Running"]
    assert FAR not in rig.up()
    assert rig.state(stays)["Running"], "what nobody starts elsewhere goes on"
    shown = cloud.show(stays) or {}
    assert (shown["status"], shown["status_detail"]) == ("Running", "Host down") or shown["status"] == "Unknown", shown
    refused = cloud.http.post(f"/v1/containers/{stays}/execute", params={"command": "true"})
    assert refused.status_code in (409, 503), refused.text
    assert refused.json()["errors"][0]["title"]
    cloud.delete(goes, stop="true")
    assert rig.far.container(goes) is not None
