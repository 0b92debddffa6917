"""API and agents as processes of their own, one of which is killed: while it schedules, and at the steps of a move."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.conftest import expect_truth, trap
from tests.faults.test_kill_at_each_change import around
from tests.support import forks
from tests.support.cloud import SLEEP, Cloud
from tests.support.processes import agent_up, healthy, running
from tests.support.product import ZUN, Product
from tests.support.wait import wait_until

LONG = bool(os.environ.get("ZUN_LONG_FAULTS"))
HOSTS = ("node-1", "node-2")
LEAVE = ["claimed", *around("stop", "release_engine", "release_volumes"), "before:end", "after:end"]
ARRIVE = ["claimed", *around("allocation", "volumes", "ports", "image", "engine", "start"), "before:end", "after:end"]
MOVES = [("node-1", point) for point in (LEAVE if LONG else ["after:release_engine"])]
MOVES += [("node-2", point) for point in (ARRIVE if LONG else ["after:engine"])]


@contextlib.contextmanager
def mortal(name: str, conf: Path, env: Mapping[str, str]) -> Iterator[forks.Process]:
    """``zun-api`` or ``zun-compute`` with the trap; killed at the end, if it is not by then."""
    command = [sys.executable, "-m", "tests.faults.killable", name, "--config-file", str(conf)]
    with conf.with_name(f"{name}.log").open("ab") as log:
        process = forks.start(command, stdout=log, stderr=log, env={**os.environ, **env})
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@pytest.fixture
def product(make_product: Callable[[], Product], tmp_path: Path) -> Product:
    made = make_product()
    made.conf(
        DEFAULT={"transport_url": f"unix://{tmp_path}/bus", "sync_container_state_interval": "1"},
        compute={"sweep_interval": "1", "reaper_interval": "1", "orphan_grace_seconds": "1"}
        | {"abandoned_volume_seconds": "2"},
    )
    made.start().terminate()  # makes tables and token
    return made


@pytest.mark.parametrize("point", ["scheduled", "recorded"])
def test_an_api_killed_while_it_schedules(product: Product, busybox: str, tmp_path: Path, point: str) -> None:
    """What was claimed for nobody is given back; what is on record is made, though nobody told the node."""
    mark, conf = tmp_path / "killed", product.state.conf_file
    with running("zun-compute", product):
        with mortal("zun-api", conf, trap(f"create:{point}", mark)) as api:
            wait_until(lambda: healthy(product), 90, "zun-api answers")
            cloud = Cloud(product, busybox)
            wait_until(lambda: agent_up(cloud.http), 90, "zun-compute is up")
            with pytest.raises(httpx.TransportError):
                cloud.ask(image_pull_policy="ifnotpresent", mounts=[{"size": "1", "destination": "/data"}])
            api.wait(60)
            assert mark.exists()
        with running("zun-api", product):
            wait_until(lambda: healthy(product), 90, "zun-api answers again")
            expect_truth(cloud)
            rows = cloud.get("/containers")["containers"]
            assert [row["status"] for row in rows] == ([] if point == "scheduled" else ["Running"])
            another = cloud.create(image_pull_policy="ifnotpresent")
            cloud.wait(another["uuid"], "Running")
            product.clear()


def configuration(product: Product, host: str) -> Path:
    """Of one agent, with a folder of its own."""
    folder = product.state.root / host
    folder.mkdir()
    own = f"\n[DEFAULT]\nhost = {host}\nstate_path = {folder}\n"
    (folder / "zun.conf").write_text(product.state.conf_file.read_text() + own)
    return folder / "zun.conf"


def is_on(cloud: Cloud, uuid: str, host: str) -> bool:
    row: dict[str, Any] = cloud.show(uuid) or {}
    return (row.get("status"), row.get("task_state"), row.get("host")) == ("Running", None, host)


def up(cloud: Cloud) -> set[str]:
    return {row["host"] for row in cloud.get("/services")["services"] if row["state"] == "up"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("dies", "point"), MOVES)
def test_an_agent_killed_while_a_container_moves(
    product: Product, busybox: str, tmp_path: Path, dies: str, point: str
) -> None:
    mark = tmp_path / "killed"
    confs = {host: configuration(product, host) for host in HOSTS}
    with contextlib.ExitStack() as stack:
        stack.enter_context(running("zun-api", product))
        wait_until(lambda: healthy(product), 90, "zun-api answers")
        agents = {
            host: stack.enter_context(
                mortal("zun-compute", conf, trap(f"evacuate:{point}" if host == dies else "", mark))
            )
            for host, conf in confs.items()
        }
        cloud = Cloud(product, busybox)
        wait_until(lambda: up(cloud) >= set(HOSTS), 120, "both agents are up")
        file = {"type": "bind", "source": "aGVsbG8=", "destination": "/etc/greeting"}
        body = {"command": SLEEP, "image_pull_policy": "ifnotpresent", "mounts": [file]}
        uuid = cloud.running(host="node-1", **body)["uuid"]
        addresses = (cloud.show(uuid) or {})["addresses"]
        manage = [str(ZUN.with_name("zun-manage")), "--config-file", str(product.state.conf_file)]
        with (tmp_path / "drain").open("wb") as said:
            drain = forks.start([*manage, "node", "drain", "node-1", "--deadline", "3m"], stdout=said, stderr=said)
        agents[dies].wait(120)
        assert mark.exists(), "the trap went off"
        stack.enter_context(mortal("zun-compute", confs[dies], trap("", mark)))
        wait_until(lambda: is_on(cloud, uuid, "node-2"), 150, "it runs on the other node")
        assert drain.wait(120) == 0, (tmp_path / "drain").read_text()
        expect_truth(cloud)
        assert (cloud.show(uuid) or {})["addresses"] == addresses
        assert cloud.act(uuid, "execute", 200, command="cat /etc/greeting").json()["output"] == "hello"
        product.clear()
