"""The agent under faults of its engine, step by step: what fails for good is Error and holds nothing, what may pass is
tried again, and nothing is lost with the agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.simulated_node import simulated_cloud
from tests.support.wait import eventually
from zun.domain.errors import EngineError, EngineUnreachable, ImageFailed, ImagePullFailed, StartFailed
from zun.store.tables import local_allocations, local_ports, operation_events, operations


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("pull", ImageFailed("Image busybox:latest does not exist")),
        ("create", EngineError("no such runtime")),
        ("start", StartFailed("exec: not found")),
        ("inspect", EngineError("%d %s {} broken")),
    ],
)
async def test_a_step_of_create_that_is_refused_ends_in_error_and_holds_nothing(
    tmp_path: Path, method: str, error: Exception
) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        cloud.runtime.fail_next(method, error)
        uuid = await cloud.create()
        shown = await cloud.wait(uuid, "Error")
        assert shown["status_reason"] == str(error)
        assert [item.uuid for item in await cloud.runtime.list()] == []
        assert await cloud.rows(sa.select(local_allocations)) == []
        assert await cloud.rows(sa.select(local_ports)) == []
        await cloud.http.delete(f"/v1/containers/{uuid}")
        await cloud.wait(uuid, "gone")
        await cloud.truth()


@pytest.mark.parametrize("method", ["create", "start", "inspect", "image"])
async def test_an_engine_that_comes_back_finishes_the_create(tmp_path: Path, method: str) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        cloud.runtime.fail_next(method, EngineUnreachable("connection refused"))
        uuid = await cloud.create()
        await cloud.wait(uuid, "Running")
        await cloud.truth()


async def test_a_call_whose_effect_happened_though_it_failed_makes_no_double(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        cloud.runtime.fail_next("create", EngineUnreachable("cut off"), after=True)
        uuid = await cloud.create()
        await cloud.wait(uuid, "Running")
        assert len(await cloud.runtime.list()) == 1


async def test_what_cannot_be_given_back_now_is_given_back_later(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        cloud.runtime.fail_next("start", StartFailed("refused"))
        cloud.runtime.fail_next("remove", EngineUnreachable("away"))
        uuid = await cloud.create()
        await cloud.wait(uuid, "Error")
        await cloud.truth()
        assert await cloud.runtime.list() == []


async def test_a_registry_that_comes_back_is_asked_again(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path, docker__pull_attempts=1) as cloud:
        cloud.runtime.fail_next("pull", ImagePullFailed("the registry does not answer"))
        await cloud.wait(await cloud.create(), "Running")


async def test_a_forced_delete_the_engine_refuses_leaves_a_tombstone_until_it_is_gone(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create()
        await cloud.wait(uuid, "Running")
        cloud.runtime.fail_next("remove", EngineError("device busy"), times=1000)
        await cloud.http.delete(f"/v1/containers/{uuid}", params={"force": "true"})
        await cloud.wait(uuid, "gone")
        assert [item.uuid for item in await cloud.runtime.list()] == [uuid]
        cloud.runtime.faults._planned.clear()

        async def removed() -> bool:
            return not await cloud.runtime.list() and not await cloud.rows(sa.select(local_allocations))

        await eventually(removed, 60, "the tombstone is carried out")
        await cloud.truth()


async def test_an_agent_that_dies_in_the_middle_leaves_the_work_to_the_next(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        for method in ("pull", "create", "start"):
            cloud.runtime.faults.hang(method)
            uuid = await cloud.create(image=f"img-{method}")
            await eventually(lambda method=method: cloud.runtime.faults.calls[method] > 0, 30, f"{method} is called")
            await cloud.die()
            cloud.runtime.faults.resume(method)
            await cloud.live()
            await cloud.wait(uuid, "Running")
            cloud.runtime.faults.calls.clear()
        await cloud.truth()


async def test_a_forced_delete_ends_a_create_that_hangs(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        cloud.runtime.faults.hang("start")
        uuid = await cloud.create()
        await eventually(lambda: cloud.runtime.faults.calls["start"] > 0, 30, "it hangs")
        answer = await cloud.http.delete(f"/v1/containers/{uuid}", params={"force": "true"})
        assert answer.status_code == 204
        await cloud.wait(uuid, "gone")
        await cloud.truth()
        cloud.runtime.faults.resume("start")


async def test_operations_of_one_container_follow_each_other_and_others_are_not_held_up(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        slow, quick = await cloud.create(), await cloud.create()
        await cloud.wait(slow, "Running")
        await cloud.wait(quick, "Running")
        cloud.runtime.faults.hang("pause")
        await cloud.http.post(f"/v1/containers/{slow}/pause")
        await eventually(lambda: cloud.runtime.faults.calls["pause"] > 0, 30, "the pause hangs")
        await cloud.http.post(f"/v1/containers/{slow}/stop")
        await cloud.http.post(f"/v1/containers/{quick}/stop")
        await cloud.wait(quick, "Stopped")
        assert cloud.runtime.faults.calls["stop"] == 1
        cloud.runtime.faults.resume("pause")
        await eventually(lambda: cloud.runtime.faults.calls["stop"] == 2, 30, "the stop follows the pause")


async def test_twenty_containers_of_one_image_are_one_pull(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        cloud.runtime.faults.hang("pull")
        uuids = await asyncio.gather(*(cloud.create() for _ in range(20)))
        pulling = sa.select(operation_events.c.id).where(operation_events.c.event == "image")

        async def all_wait() -> bool:
            return len(await cloud.rows(pulling)) == 20

        await eventually(all_wait, 60, "all of them wait for the image")
        cloud.runtime.faults.resume("pull")
        for uuid in uuids:
            await cloud.wait(uuid, "Running")
        assert cloud.runtime.faults.calls["pull"] <= 2


async def test_healing_is_tried_and_given_up_with_a_reason(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create(auto_heal=True)
        await cloud.wait(uuid, "Running")
        cloud.runtime.fail_next("create", EngineError("no space left"), times=9)
        cloud.runtime.vanish(uuid)
        shown = await cloud.wait(uuid, "Error")
        assert "no space left" in shown["status_reason"]
        healings = sa.select(operations.c.id).where(operations.c.kind == "rebuild")
        tried = len(await cloud.rows(healings))
        await cloud.sync(3)
        assert len(await cloud.rows(healings)) == tried, "no healing without end"


async def test_healing_that_fails_once_is_tried_again(tmp_path: Path) -> None:
    """S5.9: Error only after repeated failure."""
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create(auto_heal=True)
        await cloud.wait(uuid, "Running")
        cloud.runtime.fail_next("create", EngineError("device busy"))
        cloud.runtime.vanish(uuid)

        async def healed() -> bool:
            return [item.state for item in await cloud.runtime.list()] == ["running"]

        await eventually(healed, 60, "the second try heals")
        await cloud.wait(uuid, "Running")
        await cloud.truth()


async def test_progress_of_a_pull_is_shown_on_the_running_action(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        cloud.runtime.faults.hang("pull")
        answer = await cloud.http.post("/v1/containers", json={"image": "big"})
        uuid, request_id = answer.json()["uuid"], answer.headers["x-openstack-request-id"]

        async def running_step() -> list[dict[str, object]]:
            action = (await cloud.http.get(f"/v1/containers/{uuid}/container_actions/{request_id}")).json()
            return [e for e in action["events"] if e["event"] == "image" and e["finish_time"] is None]

        (event,) = await eventually(running_step, 30, "the step is seen while it runs")
        assert event["result"] is None
        cloud.runtime.faults.resume("pull")
        await cloud.wait(uuid, "Created")
        action = (await cloud.http.get(f"/v1/containers/{uuid}/container_actions/{request_id}")).json()
        (image,) = [e for e in action["events"] if e["event"] == "image"]
        assert image["progress"]["done"] == image["progress"]["total"] > 0


@pytest.mark.parametrize("resumes", [True, False])
async def test_after_a_reboot_what_ran_is_started_again_if_the_operator_says_so(tmp_path: Path, resumes: bool) -> None:
    async with simulated_cloud(tmp_path, compute__resume_container_state=resumes) as cloud:
        uuid, stopped = await cloud.create(), await cloud.create()
        for one in (uuid, stopped):
            await cloud.wait(one, "Running")
        await cloud.http.post(f"/v1/containers/{stopped}/stop")
        await cloud.wait(stopped, "Stopped")
        await cloud.die()
        cloud.runtime.crash(uuid, 137)
        await cloud.live()

        async def settled() -> bool:  # the record says Running from before, too
            return {item.uuid: item.state for item in await cloud.runtime.list()}[uuid] == wanted

        wanted = "running" if resumes else "exited"
        await eventually(settled, 60, f"it is {wanted}")
        await cloud.wait(uuid, "Running" if resumes else "Stopped")
        assert await cloud.status(stopped) == "Stopped"
        await cloud.truth()


async def test_a_create_called_off_while_the_engine_makes_it_leaves_nothing(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path, compute__orphan_grace_seconds=3600) as cloud:
        cloud.runtime.faults.delays["create"] = 0.5
        uuid = await cloud.create()
        await eventually(lambda: cloud.runtime.faults.calls["create"] > 0, 30, "the create call is with the engine")
        await cloud.http.delete(f"/v1/containers/{uuid}", params={"force": "true"})
        await cloud.wait(uuid, "gone")

        async def nothing() -> bool:
            return not await cloud.runtime.list()

        await eventually(nothing, 30, "the engine has nothing")
        assert await cloud.lies() == []
