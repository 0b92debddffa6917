"""Containers of a lost node are started elsewhere, once; and the node that returns has nothing of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.api import PROJECT, USER
from tests.support.simulated_hosts import SimulatedHosts, simulated_hosts, standing_at
from tests.support.wait import eventually
from zun.control.evacuation import Decider, believed
from zun.domain.caller import Caller
from zun.store.tables import containers, operations, services

POINTS = [
    f"{when}:{step}"
    for step in ("detach", "allocation", "volumes", "ports", "image", "engine", "start", "end")
    for when in ("before", "after")
]
FILE = {"type": "bind", "source": "aGVsbG8=", "destination": "/etc/motd"}


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[SimulatedHosts]:
    async with simulated_hosts(tmp_path, "a", "b") as made:
        yield made


async def lost(cloud: SimulatedHosts, host: str) -> None:
    """The machine is off, and has been for an hour."""
    await cloud[host].silent()
    cloud[host].off()


async def test_what_heals_is_started_elsewhere_with_its_name_and_addresses(cloud: SimulatedHosts) -> None:
    uuid = await cloud.create("a", name="web", mounts=[FILE])
    volume = await cloud.api.parts.volumes["local"].create(Caller(USER, PROJECT), 0, "data")
    plain = await cloud.create("a", auto_heal=False)
    local = await cloud.create("a", mounts=[{"source": volume, "destination": "/data"}])
    before = await cloud.show(uuid)
    files = cloud["a"].folder / "mnt"
    assert len(list(files.iterdir())) == 1
    await lost(cloud, "a")
    await cloud.decide()
    shown = await cloud.wait(uuid, "Running", "b")
    for name in ("uuid", "name", "addresses", "image"):
        assert shown[name] == before[name]
    assert await cloud.actions(uuid) == ["evacuate", "create"]
    steps = [step for step, result in await cloud.events(uuid) if result == "Success"]
    assert steps[:2] == ["schedule", "detach"]
    assert set(steps) >= {"allocation", "volumes", "ports", "image", "engine", "start"}
    for stays in (plain, local):
        assert (await cloud.show(stays))["host"] == "a"
        assert await cloud.actions(stays) == ["create"]
    await cloud["a"].live()
    assert set(await cloud["a"].engine()) == {plain, local}
    assert list(files.iterdir()) == []
    for stays in (plain, local):
        await cloud.wait(stays, "Stopped", "a")
    await cloud.truth()


async def test_killed_at_each_step_the_target_goes_on_with_it(cloud: SimulatedHosts) -> None:
    uuid = await cloud.create("a")
    source, target = "a", "b"
    for point in POINTS:
        await lost(cloud, source)
        with standing_at(point) as reached:
            await cloud.decide()
            async with asyncio.timeout(60):
                await reached.wait()
            await cloud[target].kill()
        await cloud[target].live()
        await cloud.wait(uuid, "Running", target)
        assert await cloud[target].engine() == {uuid: "running"}, point
        await cloud[source].live()
        assert await cloud[source].engine() == {}, point
        await cloud.truth()
        source, target = target, source
    assert (await cloud.actions(uuid)).count("evacuate") == len(POINTS)


async def test_a_target_that_is_lost_itself_is_left_for_another(tmp_path: Path) -> None:
    async with simulated_hosts(tmp_path, "a", "b", "c", "d", "e") as cloud:
        uuid = await cloud.create("a")
        await lost(cloud, "a")
        with standing_at("after:engine") as reached:
            await cloud.decide()
            async with asyncio.timeout(60):
                await reached.wait()
            second = (await cloud.show(uuid))["host"]
            await lost(cloud, second)
        await cloud.decide()
        shown = await cloud.wait(uuid, "Running")
        assert shown["host"] not in ("a", second)
        assert await cloud.actions(uuid) == ["evacuate", "create"]
        for name in ("a", second):
            await cloud[name].live()
        await cloud.truth()


async def test_many_deciders_evacuate_a_container_once(cloud: SimulatedHosts) -> None:
    uuids = [await cloud.create("a") for _ in range(5)]
    await lost(cloud, "a")
    deciders = [Decider(cloud.api.control) for _ in range(4)]
    for decider in deciders:
        decider._since, decider._looked = -3600.0, cloud.api.parts.clock.monotonic()
    # Each of them by itself, as when one outlived its lease: what they do is guarded, too.
    await asyncio.gather(*(decider._evacuate("a") for decider in deciders))
    await asyncio.gather(*(decider._place() for decider in deciders))
    for uuid in uuids:
        await cloud.wait(uuid, "Running", "b")
        assert await cloud.actions(uuid) == ["evacuate", "create"]
    await cloud["a"].live()
    await cloud.truth()


async def test_one_decides_and_only_after_it_has_watched_for_a_lease(tmp_path: Path) -> None:
    """A database that was away made everybody silent."""
    async with simulated_hosts(tmp_path, "a", "b", service_down_time=2) as cloud:
        await _watched(cloud)


async def _watched(cloud: SimulatedHosts) -> None:
    uuid = await cloud.create("a")
    await lost(cloud, "a")
    first, second = Decider(cloud.api.control), Decider(cloud.api.control)
    assert "Began 0" in await first.once()
    assert await second.once() == "Another process decides."
    assert await cloud.actions(uuid) == ["create"]

    async def begun() -> bool:
        return "Began 1" in await first.once()

    await eventually(begun, 60, "it has watched for long enough")
    assert await cloud.actions(uuid) == ["evacuate", "create"]


def test_when_most_nodes_are_silent_it_is_not_they() -> None:
    agents = [{"host": name} for name in "abcd"]
    assert believed(agents, ["a", "b"]) == ["a", "b"]
    assert believed(agents, ["a", "b", "c"]) == []


@pytest.mark.parametrize("how", ["stopped in an orderly way", "not long enough", "fence off"])
async def test_a_node_that_is_not_surely_lost_keeps_its_containers(cloud: SimulatedHosts, how: str) -> None:
    uuid = await cloud.create("a")
    if how == "not long enough":
        await cloud["a"].silent(seconds=25)
    elif how == "fence off":
        await cloud["a"].silent()
        await cloud.write(services.update().values(fenced_after=None))
    else:
        await cloud["a"].stop()
        await cloud["a"].aged()
    if how != "not long enough":
        await cloud.decide()
        assert await cloud.actions(uuid) == ["create"]
        body = {"host": "a", "binary": "zun-compute", "forced_down": True}
        assert (await cloud.http.put("/v1/services/force_down", json=body)).status_code == 200
        await cloud.decide()  # an administrator's word counts as much as the node's own
        await cloud.wait(uuid, "Running", "b")
    else:
        await cloud.decide()
        assert await cloud.actions(uuid) == ["create"]


async def test_a_node_that_is_back_before_there_was_a_target_keeps_its_containers(cloud: SimulatedHosts) -> None:
    uuid = await cloud.create("a")
    disabled = {"host": "b", "binary": "zun-compute", "disabled_reason": "full"}
    assert (await cloud.http.put("/v1/services/disable", json=disabled)).status_code == 200
    await cloud["a"].silent()
    await cloud.decide()
    shown = await cloud.show(uuid)
    assert (shown["status"], shown["task_state"], shown["host"]) == ("Rebuilding", "container_evacuating", "a")
    assert ("schedule", "Error") in await cloud.events(uuid)
    await cloud["a"].live()
    await cloud.wait(uuid, "Running", "a")
    assert (await cloud.events(uuid))[-1] == ("give_up", "Error")
    await cloud.truth()


async def test_a_target_that_cannot_make_it_says_why_and_holds_nothing(cloud: SimulatedHosts) -> None:
    uuid = await cloud.create("a")
    await lost(cloud, "a")
    cloud["b"].runtime.fail_next("create", RuntimeError("odd"), times=9)
    await cloud.decide()
    shown = await cloud.wait(uuid, "Error", "b")
    assert "RuntimeError" in shown["status_reason"]
    assert await cloud["b"].engine() == {}
    await cloud["a"].live()
    assert await cloud["a"].engine() == {}
    assert (await cloud.rows(sa.select(operations.c.id).where(operations.c.finish_time.is_(None)))) == []


async def test_a_forced_delete_ends_a_move(cloud: SimulatedHosts) -> None:
    uuid = await cloud.create("a")
    await lost(cloud, "a")
    with standing_at("before:start") as reached:
        await cloud.decide()
        async with asyncio.timeout(60):
            await reached.wait()
        answer = await cloud.http.delete(f"/v1/containers/{uuid}", params={"force": "true"})
        assert answer.status_code == 204
        await eventually(lambda: _gone(cloud), 60, "the row is gone")
    await cloud["a"].live()
    await cloud.truth()
    assert await cloud["a"].engine() == await cloud["b"].engine() == {}


async def _gone(cloud: SimulatedHosts) -> bool:
    return not await cloud.rows(sa.select(containers.c.uuid))
