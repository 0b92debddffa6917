"""A node that is emptied: what can be moved moves, the rest is told, and whoever dies in between, it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.api import PROJECT, USER
from tests.support.simulated_hosts import SimulatedHosts, simulated_hosts, standing_at
from tests.support.statements import statements
from tests.support.wait import eventually
from zun.cli.node import seconds, text
from zun.conf import ConfigError
from zun.control import draining
from zun.control.draining import Drain, Report
from zun.domain.caller import Caller
from zun.domain.errors import Conflict, EngineError, ZunServiceNotFound
from zun.domain.resources import DISABLED_TRAIT
from zun.scheduler.scheduler import Tools
from zun.store.database import Database

LEAVING = [
    f"{when}:{step}" for step in ("stop", "release_engine", "release_volumes", "end") for when in ("before", "after")
]


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[SimulatedHosts]:
    async with simulated_hosts(tmp_path, "a", "b") as made:
        yield made


async def drain(cloud: SimulatedHosts, host: str, seconds: float = 60) -> Report:
    return await Drain(cloud.api.control, host).run(seconds)


async def test_what_can_be_moved_moves_and_the_rest_is_told(cloud: SimulatedHosts) -> None:
    runs, rests = await cloud.create("a", auto_heal=False), await cloud.create("a", run=False)
    volume = await cloud.api.parts.volumes["local"].create(Caller(USER, PROJECT), 0, "data")
    local = await cloud.create("a", mounts=[{"source": volume, "destination": "/data"}])
    before = await cloud.show(runs)
    report = await drain(cloud, "a")
    assert (report.moved, report.empty, report.over) == (2, False, True)
    assert [(one.uuid, one.reason) for one in report.stays] == [
        (local, f"has its data on this host (local volume {volume})")
    ]
    assert (await cloud.show(local))["status"] == "Running"
    shown = await cloud.wait(runs, "Running", "b")
    assert {name: shown[name] for name in ("name", "addresses")} == {
        name: before[name] for name in ("name", "addresses")
    }
    await cloud.wait(rests, "Created", "b")
    assert await cloud.actions(runs) == ["evacuate", "create"]
    assert [step for step, _ in await cloud.events(runs)][:4] == [
        "schedule",
        "stop",
        "release_engine",
        "release_volumes",
    ]
    refused = await cloud.http.post("/v1/containers", json={"image": "busybox", "host": "a"})
    assert refused.json()["status"] == "Error"
    assert (await cloud.http.delete(f"/v1/containers/{refused.json()['uuid']}")).status_code == 204
    assert "a: up, disabled (drain)" in text(report)
    await cloud.http.delete(f"/v1/containers/{local}", params={"stop": "true"})
    await eventually(lambda: _is_empty(cloud, "a"), 60, "the node is empty")
    await draining.undrain(cloud.api.control, "a")
    assert (await draining.look(cloud.api.control, "a")).disabled is False
    await cloud.truth()


async def _is_empty(cloud: SimulatedHosts, host: str) -> bool:
    return (await draining.look(cloud.api.control, host)).empty


async def test_killed_at_each_step_the_node_that_is_left_goes_on_with_it(cloud: SimulatedHosts) -> None:
    uuid = await cloud.create("a")
    source, target = "a", "b"
    for point in LEAVING:
        with standing_at(point) as reached:
            draining_it = asyncio.create_task(drain(cloud, source))
            async with asyncio.timeout(60):
                await reached.wait()
            await cloud[source].kill()
        await cloud[source].live()
        assert (await draining_it).empty, point
        await cloud.wait(uuid, "Running", target)
        await cloud.truth()
        await draining.undrain(cloud.api.control, source)
        await eventually(lambda: _all_enabled(cloud), 60, "Placement was told")
        source, target = target, source


async def _all_enabled(cloud: SimulatedHosts) -> bool:
    found = await cloud.api.parts.placement.candidates(
        {"VCPU": 1}, forbidden_traits=frozenset({DISABLED_TRAIT}), limit=9
    )
    return len(found) == len(cloud.hosts)


async def test_interrupted_it_goes_on_by_itself_and_by_the_next_run(cloud: SimulatedHosts) -> None:
    uuids = [await cloud.create("a", auto_heal=False) for _ in range(4)]
    with standing_at("before:stop") as reached:
        first = asyncio.create_task(drain(cloud, "a"))
        async with asyncio.timeout(60):
            await reached.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await cloud["a"].kill()
    await cloud["a"].live()
    report = await drain(cloud, "a")
    assert report.empty, report
    for uuid in uuids:
        await cloud.wait(uuid, "Running", "b")
        assert await cloud.actions(uuid) == ["evacuate", "create"]
    await cloud.truth()


async def test_without_another_host_nothing_is_stopped(tmp_path: Path) -> None:
    async with simulated_hosts(tmp_path, "a") as cloud:
        uuid = await cloud.create("a")
        engine = await cloud["a"].runtime.inspect(uuid)
        report = await drain(cloud, "a")
        assert [(one.uuid, report.over) for one in report.stays] == [(uuid, True)]
        assert report.stays[0].reason.startswith("could not be moved: ")
        assert "rejected" in report.stays[0].reason or "no candidate" in report.stays[0].reason
        assert await cloud["a"].runtime.inspect(uuid) == engine
        await cloud.wait(uuid, "Running", "a")
        await cloud.truth()


async def test_what_cannot_leave_is_started_again_and_told(cloud: SimulatedHosts) -> None:
    uuid = await cloud.create("a")
    cloud["a"].runtime.fail_next("remove", EngineError("device busy"), times=3)
    report = await drain(cloud, "a")
    assert [one.uuid for one in report.stays] == [uuid]
    assert "device busy" in report.stays[0].reason
    await cloud.wait(uuid, "Running", "a")
    assert (await cloud["a"].engine())[uuid] == "running"
    await cloud.truth()


async def test_who_cannot_be_drained(cloud: SimulatedHosts) -> None:
    with pytest.raises(ZunServiceNotFound):
        await drain(cloud, "nowhere")
    body = {"host": "b", "binary": "zun-compute", "disabled_reason": "broken fan"}
    await cloud.http.put("/v1/services/disable", json=body)
    with pytest.raises(Conflict, match="broken fan"):
        await draining.undrain(cloud.api.control, "b")
    await cloud["a"].silent()
    with pytest.raises(Conflict, match="a is down"):
        await drain(cloud, "a")


@asynccontextmanager
async def apart(cloud: SimulatedHosts) -> AsyncIterator[tuple[Tools, list[str]]]:
    """With connections of its own to the database, and what is asked over them."""
    control = cloud.api.control
    db = Database(str(control.conf.database.connection))
    try:
        with statements(db) as seen:
            yield SimpleNamespace(conf=control.conf, clock=control.clock, placement=control.placement, db=db), seen
    finally:
        await db.close()


async def test_a_look_asks_as_much_for_many_as_for_one(cloud: SimulatedHosts) -> None:
    await cloud["b"].stop()  # nothing moves
    asked = []
    for _ in range(3):
        await cloud.create("a")
        await draining._disable(cloud.api.control, "a")
        async with apart(cloud) as (tools, seen):
            await draining.look(tools, "a", {"one"})
        asked.append(len(seen))
        await draining.undrain(cloud.api.control, "a")
    assert asked[0] == asked[1] == asked[2]


async def test_while_nothing_changes_a_count_is_all_that_is_asked(cloud: SimulatedHosts) -> None:
    await cloud.create("a")
    async with apart(cloud) as (tools, seen):
        one = Drain(tools, "a")
        before = await one._pulse()
        waiting = asyncio.create_task(one._wait(before, float("inf")))
        try:
            await eventually(lambda: len(seen) >= 4, 60, "it looks")
            assert all("sum(containers.generation)" in statement for statement in seen)
            await cloud.create("a")
            async with asyncio.timeout(60):
                await waiting
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        assert (await one._pulse())[0] == before[0] + 1


@pytest.mark.parametrize(("given", "wanted"), [("90", 90), ("90s", 90), ("10m", 600), ("1h", 3600)])
def test_a_deadline_in_words(given: str, wanted: int) -> None:
    assert seconds(given) == wanted


@pytest.mark.parametrize("given", ["", "m", "1d", "-5", "1.5h"])
def test_no_deadline(given: str) -> None:
    with pytest.raises(ConfigError, match="use 90s, 10m or 1h"):
        seconds(given)
