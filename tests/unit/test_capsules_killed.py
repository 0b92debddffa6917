"""An agent that dies at any step of a capsule's create or delete, and engines that fail there: resumed or released."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from tests.support.wait import eventually
from zun.domain.errors import EngineError, EngineUnreachable, ImageFailed, SandboxFailed, StartFailed
from zun.domain.lifecycle import Status
from zun.runtime.pods import Forgotten

INITS = [{"image": "busybox", "command": ["true"]}]
UP = ("pull", "run_sandbox", "create", "start", "inspect")
DOWN = ("stop", "sandbox", "stop_sandbox", "remove_sandbox")


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[SimulatedCloud]:
    async with simulated_cloud(tmp_path, compute__retry_attempts=3) as made:
        yield made


async def _reached(cloud: SimulatedCloud, method: str, before: int) -> None:
    await eventually(lambda: cloud.pods.faults.calls[method] > before, 60, f"{method} is called")


async def _delete(cloud: SimulatedCloud, uuid: str) -> None:
    assert (await cloud.http.delete(f"/v1/capsules/{uuid}")).status_code == 204
    await cloud.wait_capsule(uuid, "gone")
    assert await cloud.capsule_leftovers() == []


@pytest.mark.parametrize("method", UP)
async def test_killed_in_a_create_the_next_agent_brings_it_up_once(cloud: SimulatedCloud, method: str) -> None:
    before = cloud.pods.faults.calls[method]
    cloud.pods.faults.hang(method)
    uuid = await cloud.create_capsule({}, {}, initContainers=INITS)
    await _reached(cloud, method, before)
    await cloud.die()
    cloud.pods.faults.resume(method)
    await cloud.live()
    shown = await cloud.wait_capsule(uuid, "Running")
    assert [one["status"] for one in shown["containers"]] == ["Running", "Running"]
    assert len(await cloud.pods.sandboxes()) == 1
    assert len(await cloud.pods.list()) == 3
    await _delete(cloud, uuid)


@pytest.mark.parametrize("method", UP)
async def test_killed_in_a_create_and_deleted_before_the_next_agent(cloud: SimulatedCloud, method: str) -> None:
    before = cloud.pods.faults.calls[method]
    cloud.pods.faults.hang(method)
    uuid = await cloud.create_capsule({}, initContainers=INITS)
    await _reached(cloud, method, before)
    await cloud.die()
    cloud.pods.faults.resume(method)
    assert (await cloud.http.delete(f"/v1/capsules/{uuid}")).status_code == 204
    await cloud.live()
    await cloud.wait_capsule(uuid, "gone")
    assert await cloud.capsule_leftovers() == []


@pytest.mark.parametrize("method", DOWN)
async def test_killed_in_a_delete_the_next_agent_finishes_it(cloud: SimulatedCloud, method: str) -> None:
    uuid = await cloud.create_capsule({}, {})
    await cloud.wait_capsule(uuid, "Running")
    before = cloud.pods.faults.calls[method]
    cloud.pods.faults.hang(method)
    assert (await cloud.http.delete(f"/v1/capsules/{uuid}")).status_code == 204
    await _reached(cloud, method, before)
    await cloud.die()
    cloud.pods.faults.resume(method)
    await cloud.live()
    await cloud.wait_capsule(uuid, "gone")
    assert await cloud.capsule_leftovers() == []


@pytest.mark.parametrize(
    ("method", "error", "said"),
    [
        ("pull", ImageFailed("Image x was refused"), "Image x was refused"),
        ("run_sandbox", SandboxFailed("port p not active in 60 s"), "port p not active in 60 s"),
        ("create", EngineError("no space"), "no space"),
        ("start", StartFailed("no such file"), "no such file"),
    ],
)
async def test_a_create_that_fails_says_why_and_holds_nothing(
    cloud: SimulatedCloud, method: str, error: Exception, said: str
) -> None:
    cloud.pods.faults.fail_next(method, error)
    uuid = await cloud.create_capsule({})
    shown = await cloud.wait_capsule(uuid, "Error")
    assert said in shown["status_reason"]
    assert shown["addresses"] == {}
    left = [one for one in await cloud.capsule_leftovers() if not one.startswith(("row", "quota"))]
    assert left == []
    await _delete(cloud, uuid)


async def test_an_engine_that_is_away_for_a_moment_fails_nothing(cloud: SimulatedCloud) -> None:
    cloud.pods.faults.fail_next("run_sandbox", EngineUnreachable("away"), after=True)
    uuid = await cloud.create_capsule({}, initContainers=INITS)
    await cloud.wait_capsule(uuid, "Running")
    assert len(await cloud.pods.sandboxes()) == 1
    await _delete(cloud, uuid)


async def test_a_delete_that_the_engine_cannot_do_now_is_done_when_it_can(cloud: SimulatedCloud) -> None:
    uuid = await cloud.create_capsule({})
    await cloud.wait_capsule(uuid, "Running")
    cloud.pods.faults.fail_next("remove_sandbox", EngineUnreachable("away"), times=2)
    await _delete(cloud, uuid)


async def test_sandboxes_that_no_row_knows_are_removed_and_others_are_not(cloud: SimulatedCloud) -> None:
    uuid = await cloud.create_capsule({})
    await cloud.wait_capsule(uuid, "Running")
    spec = cloud.pods.sandbox_spec_of(uuid)
    stray, foreign = "11111111-0000-0000-0000-000000000000", "22222222-0000-0000-0000-000000000000"
    cloud.pods.adopt(dataclasses.replace(spec, uuid=stray))
    cloud.pods.adopt(dataclasses.replace(spec, uuid=foreign, owner="another/host"))
    await cloud.die()
    await cloud.live()

    async def left() -> bool:
        return {one.uuid for one in await cloud.pods.sandboxes()} == {uuid, foreign}

    await eventually(left, 30, "the stray is gone")


async def test_events_that_were_missed_are_found_when_the_stream_is_back(cloud: SimulatedCloud) -> None:
    uuid = await cloud.create_capsule({}, {}, restartPolicy="Never")
    shown = await cloud.wait_capsule(uuid, "Running")
    cloud.pods.faults.unreachable = True
    cloud.pods.cut_events()
    cloud.pods.crash(shown["containers"][0]["uuid"], 9)
    cloud.pods.faults.unreachable = False

    async def seen() -> bool:
        return bool((await cloud.capsule(uuid))["containers"][0]["status"] == Status.STOPPED)

    await eventually(seen, 60, "the end is found")


async def test_an_agent_that_died_before_a_restart_was_due_leaves_it_to_the_next(cloud: SimulatedCloud) -> None:
    uuid = await cloud.create_capsule({})
    member = (await cloud.wait_capsule(uuid, "Running"))["containers"][0]
    await cloud.die()
    cloud.pods.crash(member["uuid"], 1)
    await cloud.live()
    await eventually(lambda: f"start {member['name']}/1" in cloud.pods.log, 60, "it is started again")
    await cloud.wait_capsule(uuid, "Running")


async def test_a_sandbox_that_is_gone_is_made_anew_where_the_policy_is_always(cloud: SimulatedCloud) -> None:
    uuid = await cloud.create_capsule({}, {}, initContainers=INITS)
    before = await cloud.wait_capsule(uuid, "Running")
    cloud.pods.vanish_sandbox(uuid)
    await eventually(lambda: cloud.pods.log.count(f"run {uuid}") == 2, 60, "a new sandbox")
    after = await cloud.wait_capsule(uuid, "Running")
    assert after["addresses"] == before["addresses"]
    assert [one["status"] for one in after["containers"]] == ["Running", "Running"]
    assert sum(f"start {after['init_containers'][0]['name']}/0" == line for line in cloud.pods.log) == 2


async def test_a_node_whose_engine_is_away_is_not_chosen(cloud: SimulatedCloud) -> None:
    await cloud.die()
    cloud.pods.faults.unreachable = True
    await cloud.live()
    refused = await cloud.create_capsule({})
    assert (await cloud.capsule(refused))["status_reason"] == "There are not enough hosts available."
    container = await cloud.create()
    await cloud.wait(container, "Running")
    cloud.pods.faults.unreachable = False

    async def taken() -> bool:
        uuid = await cloud.create_capsule({})
        return (await cloud.capsule(uuid))["status"] != "Error"

    await eventually(taken, 30, "the node takes capsules")


async def test_init_containers_that_never_end_hold_up_nobody(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path, compute__max_parallel_operations=2) as cloud:
        stuck = [
            await cloud.create_capsule({}, initContainers=[{"image": "busybox", "command": ["sleep"]}])
            for _ in range(3)
        ]

        async def wait() -> bool:
            shown = [await cloud.capsule(uuid) for uuid in stuck]
            return all(one["init_containers"][0]["status"] == "Running" for one in shown)

        await eventually(wait, 60, "all three wait for their init containers")
        free = await cloud.create_capsule({})
        await cloud.wait_capsule(free, "Running")
        for uuid in [*stuck, free]:
            assert (await cloud.http.delete(f"/v1/capsules/{uuid}")).status_code == 204
        for uuid in [*stuck, free]:
            await cloud.wait_capsule(uuid, "gone")
        assert await cloud.capsule_leftovers() == []


async def test_init_containers_have_a_time_limit(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path, compute__capsule_init_timeout=1) as cloud:
        uuid = await cloud.create_capsule({}, initContainers=[{"image": "busybox", "command": ["sleep"]}])
        shown = await cloud.wait_capsule(uuid, "Error")
        name = shown["init_containers"][0]["name"]
        expected = f"Init container {name} did not end within the 1 seconds that init containers have"
        assert shown["status_reason"] == expected
        left = [one for one in await cloud.capsule_leftovers() if not one.startswith(("row", "quota"))]
        assert left == []


async def test_what_an_engine_has_forgotten_is_ended_but_for_capsules_at_work(tmp_path: Path) -> None:
    """Found twice; one that cannot be ended is tried again."""
    async with simulated_cloud(tmp_path, sync_container_state_interval=1) as cloud:
        nobodys = Forgotten("namespace", "n")
        cloud.pods.left |= {Forgotten("shim", "a" * 64, "44444444-0000-0000-0000-000000000000"), nobodys}
        cloud.pods.faults.fail_next("end_forgotten", EngineError("not yet"))
        uuid = await cloud.create_capsule({})
        await cloud.wait_capsule(uuid, "Running")
        before = cloud.pods.faults.calls["stop"]
        cloud.pods.faults.hang("stop")
        assert (await cloud.http.delete(f"/v1/capsules/{uuid}")).status_code == 204
        await _reached(cloud, "stop", before)
        held = Forgotten("shim", "b" * 64, uuid)
        cloud.pods.left.add(held)
        await eventually(lambda: cloud.pods.left == {held}, 60, "the others are ended")
        cloud.pods.faults.resume("stop")
        await cloud.wait_capsule(uuid, "gone")
        await eventually(lambda: not cloud.pods.left, 60, "this one, too")
