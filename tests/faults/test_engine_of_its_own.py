"""An engine that hangs, is stopped, or has no room left on its disk: a dockerd of the test's own, and real signals."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest

from tests.support.cloud import SLEEP, Cloud
from tests.support.dockerd import Dockerd
from tests.support.product import Product
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(600)

LONG = bool(os.environ.get("ZUN_LONG_FAULTS"))
HANGS = 30.0
"""Seconds for which the engine says nothing."""
AWAY = 60.0 if LONG else 8.0
"""Seconds for which there is no engine."""
DEAF = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]


@pytest.fixture(scope="module")
def dockerd() -> Iterator[Dockerd]:
    made = Dockerd(128)
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture
def cloud(dockerd: Dockerd, make_product: Callable[[], Product]) -> Iterator[Cloud]:
    product = make_product()
    product.engine = dockerd.engine
    product.conf(
        DEFAULT={"sync_container_state_interval": "2"},
        docker={"api_url": f"unix://{dockerd.socket}"},
        compute={"sweep_interval": "1", "reaper_interval": "1", "orphan_grace_seconds": "1"}
        | {"disk_free_min_mib": "0"},
    )
    made = Cloud(product.start(), dockerd.engine.load_busybox())
    made.http.timeout = httpx.Timeout(120)
    yield made
    product.clear()
    assert "Traceback" not in product.log()
    product.stop()


def create(cloud: Cloud, command: list[str] = SLEEP) -> str:
    return str(cloud.create(command=command, image_pull_policy="ifnotpresent")["uuid"])


def started(cloud: Cloud, *commands: list[str]) -> list[str]:
    uuids = [create(cloud, command) for command in commands]
    for uuid in uuids:
        cloud.wait(uuid, "Running")
    return uuids


def statuses(cloud: Cloud) -> dict[str, str]:
    return {row["uuid"]: row["status"] for row in cloud.get("/containers")["containers"]}


def agrees(cloud: Cloud) -> bool:
    """Is what is told what ``docker inspect`` says?"""
    words = {"running": "Running", "exited": "Stopped", "created": "Created"}
    found = {uuid: (cloud.engine(uuid) or {}).get("State", {}).get("Status") for uuid in statuses(cloud)}
    return statuses(cloud) == {uuid: words.get(str(state), "Error") for uuid, state in found.items()}


def test_an_engine_that_hangs_for_half_a_minute_with_a_call_at_work(cloud: Cloud, dockerd: Dockerd) -> None:
    stops, stays, dies = started(cloud, DEAF, SLEEP, SLEEP)
    pid = (cloud.engine(dies) or {})["State"]["Pid"]
    cloud.act(stops, "stop", timeout="3")
    wait_until(lambda: (cloud.show(stops) or {})["task_state"] is not None, 30, "the engine is asked")
    with ThreadPoolExecutor(1) as beside:
        with dockerd.hung():
            over = threading.Timer(HANGS, lambda: None)
            over.start()
            stats = beside.submit(cloud.http.get, f"/v1/containers/{stays}/stats")
            os.kill(pid, signal.SIGKILL)
            made = create(cloud)
            cloud.delete(stays, force="true")
            while over.is_alive():
                over.join(1)
                told = statuses(cloud)
                assert told[stops] in ("Running", "Stopped"), "nobody knows better"
                assert told[dies] == "Running"
                assert told[made] == "Creating"
        assert stats.result().status_code in (404, 409, 503), stats.result().text  # it is deleted by then
    cloud.wait(stops, "Stopped")
    cloud.wait(dies, "Stopped")
    cloud.wait(made, "Running")
    cloud.wait_gone(stays)
    assert agrees(cloud)


def test_an_engine_that_is_stopped_and_started_again(cloud: Cloud, dockerd: Dockerd) -> None:
    stays, dies, stops, goes = started(cloud, SLEEP, SLEEP, SLEEP, SLEEP)
    begun = (cloud.engine(stays) or {})["State"]["StartedAt"]
    pid = (cloud.engine(dies) or {})["State"]["Pid"]
    dockerd.stop()
    try:
        over = threading.Timer(AWAY, lambda: None)
        over.start()
        psutil.Process(pid).kill()
        cloud.act(stops, "stop", timeout="1")
        cloud.delete(goes, force="true")
        refused = create(cloud)
        while over.is_alive():
            over.join(1)
            told = statuses(cloud)
            assert {told[stays], told[dies], told[stops]} == {"Running"}, "unknown is no status"
    finally:
        dockerd.start()
    cloud.wait(dies, "Stopped")
    cloud.wait(stops, "Stopped")
    cloud.wait_gone(goes)
    wait_until(lambda: cloud.holds_nothing(goes), 60, "what was deleted meanwhile is removed")
    shown = cloud.wait(refused, "Running", "Error")
    if shown["status"] == "Error":
        assert str(dockerd.socket) in shown["status_reason"], shown
        assert cloud.engine(refused) is None
        cloud.delete(refused)
        cloud.wait_gone(refused)
    cloud.wait(stays, "Running")
    assert (cloud.engine(stays) or {})["State"]["StartedAt"] == begun, "it ran all the time"
    assert agrees(cloud)


def test_an_engine_without_room_on_its_disk(cloud: Cloud, dockerd: Dockerd) -> None:
    [stays] = started(cloud, SLEEP)
    with dockerd.full():
        refused = create(cloud)
        shown = cloud.wait(refused, "Error")
        assert "no space left on device" in shown["status_reason"], shown
        assert cloud.holds_nothing(refused)
        assert statuses(cloud)[stays] == "Running"
    cloud.act(refused, "rebuild")
    cloud.wait(refused, "Running", "Created")
    [another] = started(cloud, SLEEP)
    assert statuses(cloud)[another] == "Running"
    assert agrees(cloud)
