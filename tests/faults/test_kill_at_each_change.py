"""SIGKILL before and after each step of a rebuild, a resize, and of networks that come and go; then a restart, and the
truth. ``make nightly`` takes every step, ``make test`` those after which most is half done."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.chance import second_network
from tests.faults.conftest import expect_truth, lies, trap
from tests.support.cloud import Cloud
from tests.support.product import Product
from tests.support.wait import wait_until

LONG = bool(os.environ.get("ZUN_LONG_FAULTS"))
MIB = 1 << 20


def around(*steps: str) -> list[str]:
    return [f"{when}:{step}" for step in steps for when in ("before", "after")]


BEGUN, ENDED = ["recorded", "claimed"], ["before:end", "after:end"]
UP = ("fetch_image", "release_engine", "allocation", "volumes", "ports", "image", "engine", "start")
REBUILD = [*BEGUN, *around(*UP), *ENDED] if LONG else ["claimed", "after:release_engine", "after:engine", "before:end"]
ATTACH = [*BEGUN, *around("attach_network"), *ENDED] if LONG else ["after:attach_network"]
DETACH = [*BEGUN, *around("detach_network"), *ENDED] if LONG else ["after:detach_network"]
RESIZE = around("engine")


@pytest.fixture(scope="module")
def network(mortal: Product) -> str:
    mortal.start(trap("", Path("/nonexistent"))).terminate()
    return second_network(mortal)


def ask(cloud: Cloud, method: str, path: str, **options: Any) -> None:
    """The process may come to its end before it has answered."""
    with contextlib.suppress(httpx.TransportError):
        answer = cloud.http.request(method, f"/v1{path}", **options)
        assert answer.status_code in (200, 202), answer.text


def died(mortal: Product, mark: Path) -> Cloud:
    """A client for the process that comes after the one that fell into the trap."""
    mortal.wait_ended()
    assert mark.exists(), "the trap went off"
    mortal.start(trap("", mark))
    return Cloud(mortal, "busybox")


@pytest.mark.parametrize("point", REBUILD)
def test_killed_in_a_rebuild(mortal: Product, mark: Path, point: str) -> None:
    mortal.start(trap(f"rebuild:{point}", mark))
    cloud = Cloud(mortal, "busybox")
    uuid = cloud.running(mounts=[{"size": "1", "destination": "/data"}])["uuid"]
    cloud.act(uuid, "execute", 200, command="mkdir /data/kept")
    former = (cloud.engine(uuid) or {})["Id"]
    ask(cloud, "POST", f"/containers/{uuid}/rebuild")
    cloud = died(mortal, mark)
    expect_truth(cloud)
    assert cloud.wait(uuid, "Running")
    assert (cloud.engine(uuid) or {})["Id"] != former
    assert cloud.act(uuid, "execute", 200, command="ls -d /data/kept").json()["output"].split() == ["/data/kept"]


@pytest.mark.parametrize(
    ("kind", "point"), [("network_attach", one) for one in ATTACH] + [("network_detach", one) for one in DETACH]
)
def test_killed_while_a_network_comes_or_goes(mortal: Product, network: str, mark: Path, kind: str, point: str) -> None:
    mortal.start(trap(f"{kind}:{point}", mark))
    cloud = Cloud(mortal, "busybox")
    uuid = cloud.running()["uuid"]
    if kind == "network_detach":
        cloud.act(uuid, "network_attach", 200, network=network)
        wait_until(lambda: network in joined(cloud, uuid) and at_rest(cloud, uuid), 60, "it is attached")
    ask(cloud, "POST", f"/containers/{uuid}/{kind}", params={"network": network})
    cloud = died(mortal, mark)
    wait_until(lambda: (network in joined(cloud, uuid)) == (kind == "network_attach"), 60, "the engine has it so")
    wait_until(lambda: set((cloud.show(uuid) or {})["addresses"]) == joined(cloud, uuid), 60, "so has the record")
    expect_truth(cloud)
    assert len(cloud.ports(uuid)) == len(joined(cloud, uuid))


def joined(cloud: Cloud, uuid: str) -> set[str]:
    """Networks that the engine has it in."""
    return {name.removeprefix("zun-") for name in (cloud.engine(uuid) or {})["NetworkSettings"]["Networks"]}


def at_rest(cloud: Cloud, uuid: str) -> bool:
    return all(action["finish_time"] is not None for action in cloud.actions(uuid))


@pytest.mark.parametrize("point", RESIZE)
def test_killed_in_a_resize(mortal: Product, mark: Path, point: str) -> None:
    mortal.start(trap(f"update:{point}", mark))
    cloud = Cloud(mortal, "busybox")
    uuid = cloud.running(memory=32)["uuid"]
    ask(cloud, "PATCH", f"/containers/{uuid}", json={"memory": 64, "cpu": 0.2})
    cloud = died(mortal, mark)
    wait_until(lambda: not differences(cloud, uuid), 90, f"engine, claim and record agree: {differences(cloud, uuid)}")
    expect_truth(cloud)
    answer = cloud.http.patch(f"/v1/containers/{uuid}", json={"memory": 48})
    assert answer.status_code == 200, answer.text
    assert not differences(cloud, uuid)
    assert not lies(cloud)


def differences(cloud: Cloud, uuid: str) -> list[str]:
    shown, engine, claim = cloud.show(uuid) or {}, (cloud.engine(uuid) or {})["HostConfig"], cloud.allocation(uuid)
    memory, cpu = int(shown["memory"]), round(float(shown["cpu"]) * 1000)
    found = []
    if engine["Memory"] != memory * MIB or claim["MEMORY_MB"] != memory:
        found.append(f"memory: record {memory}, engine {engine['Memory'] / MIB}, claim {claim}")
    if round(engine["NanoCpus"] / 1e6 or engine["CpuQuota"] / 100) != cpu:
        found.append(f"cpu: record {cpu}, engine {engine['NanoCpus']} {engine['CpuQuota']}")
    return found
