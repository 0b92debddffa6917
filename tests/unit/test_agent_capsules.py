"""Capsules on a node with a simulated engine: scenario 2 with everything but the engine itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from tests.support.wait import eventually


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[SimulatedCloud]:
    async with simulated_cloud(tmp_path) as made:
        yield made


async def test_a_capsule_runs_with_addresses_and_is_deleted_without_a_trace(cloud: SimulatedCloud) -> None:
    uuid = await cloud.create_capsule({}, {"ports": [{"containerPort": 80}]}, name="web")
    shown = await cloud.wait_capsule(uuid, "Running")
    assert [one["status"] for one in shown["containers"]] == ["Running", "Running"]
    assert shown["containers"][1]["ports"] == [80]
    ((network, (address,)),) = shown["addresses"].items()
    assert network
    assert address["addr"]
    assert shown["host"] == "sim"
    answer = await cloud.http.delete(f"/v1/capsules/{uuid}")
    assert answer.status_code == 204
    await cloud.wait_capsule(uuid, "gone")
    assert await cloud.capsule_leftovers() == []


async def test_init_containers_run_one_after_the_other_before_the_rest(cloud: SimulatedCloud) -> None:
    inits = [{"image": "busybox", "command": ["true"]}, {"image": "busybox", "command": ["sh", "-c", "exit 0"]}]
    uuid = await cloud.create_capsule({}, {}, initContainers=inits)
    shown = await cloud.wait_capsule(uuid, "Running")
    assert [one["status"] for one in shown["init_containers"]] == ["Stopped", "Stopped"]
    names = [one["name"] for one in shown["init_containers"]]
    started = [line.split()[1] for line in cloud.pods.log if line.startswith("start")]
    assert started[:2] == [f"{name}/0" for name in names]
    assert sorted(started[2:]) == sorted(f"{one['name']}/0" for one in shown["containers"])


async def test_an_init_container_that_fails_for_good_ends_the_capsule_and_holds_nothing(cloud: SimulatedCloud) -> None:
    inits = [{"image": "busybox", "command": ["sh", "-c", "exit 3"]}]
    uuid = await cloud.create_capsule({}, restartPolicy="Never", initContainers=inits)
    shown = await cloud.wait_capsule(uuid, "Error")
    init = shown["init_containers"][0]
    assert shown["status_reason"] == f"Init container {init['name']} ended with exit code 3"
    assert init["status"] == "Error"
    assert shown["containers"][0]["status"] == "Error"
    left = await cloud.capsule_leftovers()
    assert not [one for one in left if not one.startswith(("row", "quota"))]


async def test_a_dead_member_is_seen_and_not_restarted_without_a_policy(cloud: SimulatedCloud) -> None:
    uuid = await cloud.create_capsule({}, {}, restartPolicy="Never")
    shown = await cloud.wait_capsule(uuid, "Running")
    first, second = (one["uuid"] for one in shown["containers"])
    cloud.pods.crash(first, 5)

    async def seen() -> bool:
        return [one["status"] for one in (await cloud.capsule(uuid))["containers"]] == ["Stopped", "Running"]

    await eventually(seen, 30, "the end is shown")
    assert (await cloud.capsule(uuid))["status"] == "Running"
    cloud.pods.crash(second, 0)
    shown = await cloud.wait_capsule(uuid, "Error")
    assert shown["status_reason"] == f"Container {shown['containers'][0]['name']} ended: exit code 5"


async def test_a_dead_member_is_started_again_with_back_off(cloud: SimulatedCloud) -> None:
    uuid = await cloud.create_capsule({})
    member = (await cloud.wait_capsule(uuid, "Running"))["containers"][0]
    cloud.pods.crash(member["uuid"], 1)

    async def restarted() -> bool:
        return f"start {member['name']}/1" in cloud.pods.log

    await eventually(restarted, 8, "the first restart is at once")  # the next would wait ten seconds
    await cloud.wait_capsule(uuid, "Running")
    cloud.pods.crash(member["uuid"], 1)

    async def waits() -> bool:
        shown = (await cloud.capsule(uuid))["containers"][0]
        return shown["status"] == "Stopped" and "Start 2 by its restart policy at" in (shown["status_reason"] or "")

    await eventually(waits, 30, "the second one waits")
    assert (await cloud.capsule(uuid))["status"] == "Running"
    assert (await cloud.http.delete(f"/v1/capsules/{uuid}")).status_code == 204
    await cloud.wait_capsule(uuid, "gone")
    assert await cloud.capsule_leftovers() == []
