"""/metrics of each process on a listener of its own, and the line that every request leaves in the log."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.api import configure
from tests.support.live import live
from tests.support.ports import free_port
from tests.support.wait import wait_until
from tests.unit.test_wsproxy_process import configured
from zun import metrics
from zun.conf import ConfigError

pytestmark = pytest.mark.timeout(300)
PROGRAMS = {
    "proxy": [str(Path(sys.executable).with_name("zun-wsproxy"))],
    "cni": [sys.executable, "-c", "from zun.cli.cni_daemon import main; main()"],
}


def read(port: int) -> str | None:
    """The metrics; None while nobody listens."""
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30, trust_env=False)
    except httpx.TransportError:
        return None
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return answer.text


def test_api_and_agent_of_one_process(tmp_path: Path) -> None:
    port = free_port()
    with live(tmp_path, {"metrics": {"api_port": port}}) as zun, zun.http(zun.admin) as client:
        made = client.post("/v1/containers?run=true", json={"image": "busybox"})
        assert made.status_code == 202
        request = made.headers["x-openstack-request-id"]

        wanted = {
            'zun_compute_operations_total{kind="create",result="done"} 1.0',
            'zun_compute_operation_seconds_count{kind="create"} 1.0',
            "zun_compute_operations_at_work 0.0",
            'zun_api_requests_total{operation="container.create",status="202"} 1.0',
        }
        wait_until(lambda: wanted <= set((read(port) or "").splitlines()), 30, "the create is counted")
        assert re.search(r"^zun_tasks [1-9]", read(port) or "", re.M)
        health = httpx.get(f"http://127.0.0.1:{port}/healthcheck", timeout=30, trust_env=False)
        assert (health.status_code, health.text) == (200, "OK\n")

        def told(text: str) -> str:
            """The line of the log about a request; it is written after the answer is sent."""

            def there() -> str:
                return next((one for one in zun.log().splitlines() if "action=request" in one and text in one), "")

            return wait_until(there, 30, f"the log has {text}")

        line = told(request)
        body = made.json()
        assert re.search(
            rf"operation=container.create status=202 ms=[0-9]+\.[0-9] request_id={request} "
            rf"user={body['user_id']} project={body['project_id']} method=POST",
            line,
        ), line
        assert httpx.get(f"{zun.url}/v1/containers", trust_env=False, timeout=30).status_code == 401
        assert "user=- project=-" in told("status=401")
    assert read(port) is None, "it ends with the process"


@contextmanager
def running(process: str, folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    file = configured(folder, free_port())
    with file.open("a") as more:
        more.write(f"[cni_daemon]\nsocket = {folder}/cni.sock\n[metrics]\n{process}_port = {port}\n")
    command = [*PROGRAMS[process], "--config-file", str(file)]
    started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})
    try:
        yield started
    finally:
        started.kill()
        started.communicate(timeout=30)


@pytest.mark.parametrize(
    ("process", "name"),
    [("proxy", "zun_proxy_sessions 0.0"), ("cni", 'zun_cni_calls_total{call="/healthz",status="200"}')],
)
def test_other_processes(tmp_path: Path, process: str, name: str) -> None:
    port = free_port()
    with running(process, tmp_path, port) as started:

        def shown() -> bool:
            assert started.poll() is None, started.communicate()[1]
            if process == "cni" and (tmp_path / "cni.sock").exists():
                transport = httpx.HTTPTransport(uds=str(tmp_path / "cni.sock"))
                with httpx.Client(transport=transport, timeout=30) as client:
                    assert client.get("http://cni/healthz").status_code == 200
            return name in (read(port) or "")

        wait_until(shown, 120, name)
        started.send_signal(signal.SIGTERM)
        assert started.wait(60) == 0, started.communicate()[1]


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        conf = configure(tmp_path, {"metrics.compute_port": port})
        with (
            pytest.raises(ConfigError, match=rf"\[metrics\]/compute_port: 127.0.0.1, port {port}, cannot be"),
            metrics.serving(conf, "compute"),
        ):
            raise AssertionError("it was listened on")


def test_without_a_port_nothing_listens(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with metrics.serving(configure(tmp_path), "api"):
        assert len(set(os.listdir("/proc/self/fd")) - before) <= 1
