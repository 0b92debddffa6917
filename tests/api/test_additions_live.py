"""The additions against the product as a process: long polls over real sockets, at its stop, and a killed process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.live import Live, live
from tests.support.wait import wait_until

BODY = {"image": "busybox", "name": "web", "cpu": 0.1, "memory": 4}
KEY = {"Idempotency-Key": "3fd7a4b3-once"}


@pytest.fixture
def zun(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "zun", {"api": {"max_wait": 600}}) as product:
        yield product


def ask(zun: Live, status: str) -> httpx.Response:
    with zun.http(zun.admin) as client:
        return client.get(f"/v1/containers/web?wait_for={status}&timeout=600")


def test_wait_delete_and_stop(zun: Live) -> None:
    with zun.http(zun.admin) as client, ThreadPoolExecutor(8) as pool:
        made = client.post("/v1/containers?run=true", json=BODY, headers=KEY)
        assert made.status_code == 202
        assert ask(zun, "Running").json()["status"] == "Running"
        asked = [pool.submit(ask, zun, "Stopped") for _ in range(4)]
        assert client.get("/v1/containers/web?fault=true").json()["fault"] is None
        assert client.post("/v1/containers/web/stop?timeout=1").status_code == 202
        assert {one.result(60).json()["status"] for one in asked} == {"Stopped"}
        assert client.post("/v1/containers/web/start").status_code == 202
        assert ask(zun, "Running").json()["status"] == "Running"
        held = [pool.submit(ask, zun, "Stopped") for _ in range(4)]
        answer = client.request("DELETE", "/v1/containers", json={"ids": ["web", "none"], "stop": True})
        assert [one["status"] for one in answer.json()["results"]] == [204, 404]
        assert {one.result(60).status_code for one in held} <= {200, 404}
        assert ask(zun, "Deleted").status_code == 404


def test_a_stop_ends_waits_at_once(zun: Live) -> None:
    with zun.http(zun.admin) as client, ThreadPoolExecutor(1) as pool:
        assert client.post("/v1/containers?run=true", json=BODY).status_code == 202
        assert ask(zun, "Running").json()["status"] == "Running"
        held = pool.submit(ask, zun, "Stopped")
        text = "zun_api_waiting_requests 1.0"
        wait_until(lambda: text in client.get("/metrics").text, 60, "the request waits")
        zun.stop()  # fails unless the process ends within its time, which is far less than the wait's
        assert held.result(60).json()["status"] == "Running"
        assert "Traceback" not in zun.log()


def test_a_key_outlives_the_process(zun: Live) -> None:
    with zun.http(zun.admin) as client:
        first = client.post("/v1/containers?run=true", json=BODY, headers=KEY)
    assert zun.process is not None
    zun.process.kill()
    zun.process.wait(60)
    zun.start()
    with zun.http(zun.admin) as client:
        second = client.post("/v1/containers?run=true", json=BODY, headers=KEY)
        assert (second.status_code, second.content) == (202, first.content)
        assert second.headers["idempotency-replayed"] == "true"
        assert len(client.get("/v1/containers").json()["containers"]) == 1
        assert ask(zun, "Running").json()["uuid"] == first.json()["uuid"]
