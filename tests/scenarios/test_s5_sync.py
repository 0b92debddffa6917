"""Scenario 5: the node loses engine state; events, sync and healing. What happens behind the product's back is seen
by events long before the next sync (``make bench`` has the seconds), and by the sync when the event stream is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cloud import Cloud
from tests.support.engine import Engine
from tests.support.engine_proxy import ProxyThread
from tests.support.product import Product
from tests.support.registry import Registry
from tests.support.wait import wait_until

SYNC_SECONDS = 600
"""No sync comes while these tests run: what they see, events brought."""
SEEN = 60.0  # seconds until a test gives up


def test_s5_5_a_stop_behind_its_back_is_seen(cloud: Cloud) -> None:
    uuid = cloud.running()["uuid"]
    cloud.product.engine.post(f"/containers/zun-{uuid}/stop", t="0")
    cloud.wait(uuid, "Stopped", timeout=SEEN)


def test_s5_5_pause_and_unpause_behind_its_back_are_seen(cloud: Cloud) -> None:
    uuid = cloud.running()["uuid"]
    cloud.product.engine.post(f"/containers/zun-{uuid}/pause")
    cloud.wait(uuid, "Paused", timeout=SEEN)
    cloud.product.engine.post(f"/containers/zun-{uuid}/unpause")
    cloud.wait(uuid, "Running", timeout=SEEN)


def test_s5_5_an_exit_by_itself_is_seen(cloud: Cloud) -> None:
    uuid = cloud.running(command=["sh", "-c", "while [ ! -e /go ]; do sleep 0.1; done; exit 7"])["uuid"]
    cloud.act(uuid, "execute", 200, command="touch /go")
    shown = cloud.wait(uuid, "Stopped", timeout=SEEN)
    detail = wait_until(lambda: (cloud.show(uuid) or shown)["status_detail"], 30, "the age is over a second")
    assert detail.startswith("Exited(7) ")


def test_s5_5_an_out_of_memory_kill_is_seen_and_told(cloud: Cloud) -> None:
    hog = "while [ ! -e /go ]; do sleep 0.1; done; exec tail /dev/zero"
    uuid = cloud.running(command=["sh", "-c", hog], memory=16)["uuid"]
    cloud.act(uuid, "execute", 200, command="touch /go")
    shown = cloud.wait(uuid, "Stopped", timeout=SEEN)
    assert "out of memory" in shown["status_reason"]


def test_s5_10_a_removed_container_is_error_with_the_contracts_text(cloud: Cloud) -> None:
    uuid = cloud.running()["uuid"]
    engine = cloud.engine(uuid)
    assert engine
    cloud.product.engine.remove(engine["Id"])
    shown = cloud.wait(uuid, "Error", timeout=SEEN)
    assert shown["status_reason"] == f"No such container: {engine['Id']} in docker"
    cloud.act(uuid, "rebuild")
    assert cloud.wait(uuid, "Running", "Created")


def test_s5_6_s5_7_auto_remove_goes_when_it_ends_or_is_lost(cloud: Cloud) -> None:
    ended = cloud.create(command=["true"], auto_remove=True)["uuid"]
    cloud.wait_gone(ended)
    lost = cloud.running(auto_remove=True)["uuid"]
    cloud.product.engine.remove(f"zun-{lost}")
    cloud.wait_gone(lost)
    assert cloud.holds_nothing(ended)
    assert cloud.holds_nothing(lost)


def test_s5_8_s5_12_auto_heal_brings_it_back_running_with_its_address(cloud: Cloud) -> None:
    before = cloud.running(auto_heal=True)
    uuid = before["uuid"]
    old = cloud.engine(uuid)
    assert old
    cloud.product.engine.remove(old["Id"])
    wait_until(lambda: (cloud.engine(uuid) or old)["Id"] != old["Id"], 60, "a new engine container")
    after = cloud.wait(uuid, "Running")
    assert after["addresses"] == before["addresses"]
    rebuild = wait_until(lambda: [a for a in cloud.actions(uuid) if a["action"] == "rebuild"], 30, "action rebuild")
    assert len(rebuild) == 1
    assert rebuild[0]["message"] is None


def test_s5_8_a_stopped_container_is_healed_and_stays_stopped(cloud: Cloud) -> None:
    uuid = cloud.running(auto_heal=True)["uuid"]
    cloud.act(uuid, "stop", timeout="0")
    cloud.wait(uuid, "Stopped")
    cloud.product.engine.remove(f"zun-{uuid}")
    wait_until(lambda: cloud.engine(uuid) is not None, 60, "it is made again")
    assert cloud.wait(uuid, "Created")["status"] == "Created"


def test_s5_9_healing_that_fails_ends_in_error_with_the_reason(cloud: Cloud, registry: Registry) -> None:
    registry.push_busybox("shortlived", "latest", marker=b"short")
    uuid = cloud.running(image="shortlived", auto_heal=True, cpu=0.2)["uuid"]
    cloud.http.patch(f"/v1/containers/{uuid}", json={"auto_heal": True})
    engine = cloud.product.engine
    reference = cloud.engine(uuid)
    assert reference
    registry.folder.joinpath("data").rename(registry.folder / "data-away")
    try:
        engine.remove(reference["Id"])
        shown = cloud.wait(uuid, "Error", "Running", timeout=60)
    finally:
        registry.folder.joinpath("data-away").rename(registry.folder / "data")
    assert shown["status"] == "Running" or shown["status_reason"]


@pytest.fixture
def proxied(
    tmp_path: Path, engine: Engine, registry: Registry, make_product: Callable[[], Product]
) -> Iterator[tuple[Product, ProxyThread]]:
    """A product that reaches the engine through a proxy, with a sync every two seconds."""
    proxy = ProxyThread(tmp_path / "engine.sock")
    try:
        product = make_product()
        product.conf(
            docker={"default_registry": registry.address, "api_url": f"unix://{proxy.path}"},
            DEFAULT={"sync_container_state_interval": "2"},
        )
        yield product.start(), proxy
        proxy.mode("pass")
        product.clear()
    finally:
        proxy.stop()


def test_s5_1_with_the_event_stream_cut_one_sync_finds_it(proxied: tuple[Product, ProxyThread]) -> None:
    product, proxy = proxied
    cloud = Cloud(product, "busybox")
    uuid = cloud.running()["uuid"]
    proxy.hang("GET .*/events")
    proxy.cut("/events")
    product.engine.post(f"/containers/zun-{uuid}/stop", t="0")
    cloud.wait(uuid, "Stopped", timeout=SEEN)


def test_an_engine_that_does_not_answer_changes_no_status(proxied: tuple[Product, ProxyThread]) -> None:
    product, proxy = proxied
    cloud = Cloud(product, "busybox")
    uuid = cloud.running()["uuid"]
    proxy.mode("refuse")
    proxy.cut(".*")
    before = product.log().count("result=failed")
    wait_until(lambda: product.log().count("result=failed") >= before + 2, 60, "the sync sees the engine away")
    shown = cloud.show(uuid)
    assert shown
    assert shown["status"] == "Running"
    refused = cloud.http.get(f"/v1/containers/{uuid}/stats")
    assert refused.status_code == 503, refused.text
    assert refused.json()["errors"][0]["status"] == 503
    cloud.delete(uuid, force="true")
    proxy.mode("pass")
    cloud.wait_gone(uuid)
    wait_until(lambda: cloud.holds_nothing(uuid), 30, "the delete is finished once the engine is back")


def test_one_hung_container_does_not_hold_up_another(proxied: tuple[Product, ProxyThread]) -> None:
    product, proxy = proxied
    cloud = Cloud(product, "busybox")
    stuck, well = cloud.running()["uuid"], cloud.running()["uuid"]
    proxy.hang(f"POST .*/containers/.*{stuck}/stop")
    cloud.act(stuck, "stop")
    cloud.act(well, "stop", timeout="0")
    cloud.wait(well, "Stopped", timeout=30)
    proxy.hang(None)


def health(cloud: Cloud, uuid: str) -> str:
    """The engine's word."""
    return str(((cloud.engine(uuid) or {}).get("State") or {}).get("Health", {}).get("Status", ""))


CHECK = {"cmd": "test ! -e /ill", "interval": 1, "retries": 1, "timeout": 60}


def test_an_unhealthy_container_is_replaced_when_it_is_to_be_healed(cloud: Cloud) -> None:
    """By the operation that also brings back what vanished (S5.8); one that is not to be healed is left alone."""
    healed = cloud.running(auto_heal=True, healthcheck=CHECK)
    left = cloud.running(healthcheck=CHECK)["uuid"]
    uuid = healed["uuid"]
    old = {one: (cloud.engine(one) or {})["Id"] for one in (uuid, left)}
    for one in (left, uuid):
        cloud.act(one, "execute", 200, command="touch /ill")
    wait_until(lambda: (cloud.engine(uuid) or {}).get("Id", old[uuid]) != old[uuid], 90, "a new engine container")
    after = cloud.wait(uuid, "Running")
    assert after["addresses"] == healed["addresses"]
    wait_until(lambda: health(cloud, uuid) == "healthy", 60, "it is well")
    assert [action["action"] for action in cloud.actions(uuid)] == ["rebuild", "create"]
    wait_until(lambda: health(cloud, left) == "unhealthy", 60, "the other one is not")
    assert (cloud.engine(left) or {})["Id"] == old[left]
    assert cloud.wait(left, "Running")["status_reason"] is None


def test_one_that_is_unhealthy_again_and_again_is_replaced_three_times_and_told(cloud: Cloud) -> None:
    uuid = cloud.running(auto_heal=True, healthcheck=CHECK | {"cmd": "test -e /well"})["uuid"]
    shown = wait_until(
        lambda: (row := cloud.show(uuid) or {}) and str(row["status_reason"]).startswith("Unhealthy;") and row,
        180,
        "it is told",
    )
    assert shown["status"] == "Running"
    assert [action["action"] for action in cloud.actions(uuid)] == [*["rebuild"] * 3, "create"]
    cloud.act(uuid, "execute", 200, command="touch /well")
    wait_until(lambda: (cloud.show(uuid) or {})["status_reason"] is None, 60, "it is taken back")


def test_with_the_event_stream_cut_a_sync_finds_what_is_unhealthy(proxied: tuple[Product, ProxyThread]) -> None:
    product, proxy = proxied
    cloud = Cloud(product, "busybox")
    uuid = cloud.running(auto_heal=True, healthcheck=CHECK)["uuid"]
    proxy.hang("GET .*/events")
    proxy.cut("/events")
    cloud.act(uuid, "execute", 200, command="touch /ill")
    wait_until(lambda: [a for a in cloud.actions(uuid) if a["action"] == "rebuild"], 90, "it is made anew")
    cloud.wait(uuid, "Running")
