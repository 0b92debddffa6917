"""Not one open file more: processes that have used up RLIMIT_NOFILE live on, say so, and are well when files close."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.cloud import Cloud
from tests.support.forks import Process
from tests.support.plain_http import PLAIN
from tests.support.ports import free_port
from tests.support.processes import agent_up, healthy, running
from tests.support.product import Product
from tests.support.wait import wait_until

ROOM = 24
"""Files that the process may open beside those it has."""
CLIENTS = 120
"""Connections that are held open: more than there is room for."""
IDLE_SHARE = 0.5
"""Of one processor: more is a loop that spins."""


@contextlib.contextmanager
def few_files(process: Process) -> Iterator[None]:
    """Meanwhile the process has room for ``ROOM`` more; the bound is lifted at the end."""
    before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir(f"/proc/{process.pid}/fd"))
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (highest + ROOM, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)


@contextlib.contextmanager
def held(port: int) -> Iterator[list[socket.socket]]:
    """Connections, as far as the kernel takes them; what the process does with them is its affair."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)) for _ in range(CLIENTS)]


def rests(process: Process) -> bool:
    """Over a second it does not use a processor."""
    return psutil.Process(process.pid).cpu_percent(interval=1) < 100 * IDLE_SHARE


@pytest.fixture
def product(make_product: Callable[[], Product], tmp_path: Path) -> Product:
    made = make_product()
    made.conf(
        DEFAULT={"transport_url": f"unix://{tmp_path}/bus", "sync_container_state_interval": "1"},
        compute={"sweep_interval": "1", "reaper_interval": "1"},
        metrics={"api_port": free_port(), "compute_port": free_port()},
    )
    made.start().terminate()  # makes tables and token
    return made


def metrics_port(product: Product, process: str) -> int:
    for line in product.state.conf_file.read_text().splitlines():
        if line.startswith(f"{process}_port"):
            return int(line.partition("=")[2])
    raise AssertionError(f"no port of {process}")


def log_of(product: Product, name: str) -> str:
    return (product.state.root / f"{name}.log").read_text()


def test_an_api_without_files_survives_and_serves_again(product: Product) -> None:
    port = metrics_port(product, "api")
    with running("zun-api", product) as process:
        wait_until(lambda: healthy(product), 90, "zun-api answers")
        before = len(log_of(product, "zun-api").splitlines())
        for door in (product.port, port):
            with few_files(process), held(door) as clients:
                wait_until(lambda: rests(process), 30, f"port {door}: no loop spins")
                wait_until(lambda: "Too many open files" in log_of(product, "zun-api"), 30, "it says so")
                assert process.poll() is None
                del clients
            wait_until(lambda: healthy(product), 60, f"port {door}: it serves again")
            assert product.http().get("/v1/containers").status_code == 200
            told = httpx.get(f"http://127.0.0.1:{port}/metrics", verify=PLAIN, timeout=30)
            assert told.status_code == 200
    lines = log_of(product, "zun-api").splitlines()[before:]
    assert len(lines) < 200, "told a few times, not for each client"
    assert "Traceback" not in "\n".join(lines)


def test_an_agent_without_files_survives_and_works_again(product: Product, busybox: str) -> None:
    port = metrics_port(product, "compute")
    with running("zun-api", product):
        wait_until(lambda: healthy(product), 90, "zun-api answers")
        with running("zun-compute", product) as process:
            wait_until(lambda: agent_up(product.http()), 90, "zun-compute is up")
            cloud = Cloud(product, busybox)
            uuid = cloud.running(image_pull_policy="ifnotpresent")["uuid"]
            before = len(log_of(product, "zun-compute").splitlines())
            with few_files(process), held(port):
                wait_until(lambda: "Too many open files" in log_of(product, "zun-compute"), 30, "it says so")
                wait_until(lambda: rests(process), 30, "no loop spins")
                asked = cloud.create(image_pull_policy="ifnotpresent")["uuid"]
                product.engine.post(f"/containers/zun-{uuid}/kill")
                assert process.poll() is None
                assert (cloud.show(uuid) or {})["status"] in ("Running", "Stopped")
            cloud.wait(uuid, "Stopped")
            cloud.wait(asked, "Running", "Error")
            cloud.running(image_pull_policy="ifnotpresent")
            lines = log_of(product, "zun-compute").splitlines()[before:]
            assert len(lines) < 400, "told a few times, not for each client"
            assert "Traceback" not in "\n".join(lines)
            product.clear()
