"""A target that cannot make what moves: another one is tried, a few times, and nothing of it is left on any."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.simulated_hosts import SimulatedHosts, simulated_hosts
from tests.support.wait import eventually
from zun.control import moves
from zun.control.draining import Drain
from zun.domain.errors import EngineError
from zun.domain.moving import NOWHERE
from zun.store import containers as rows
from zun.store.tables import operations


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[SimulatedHosts]:
    async with simulated_hosts(tmp_path, "a", "b", "c") as made:
        yield made


def break_down(cloud: SimulatedHosts, *names: str) -> None:
    for name in names:
        cloud[name].runtime.fail_next("create", EngineError(f"odd {name}"), times=99)


async def lost(cloud: SimulatedHosts, host: str) -> None:
    await cloud[host].silent()
    cloud[host].off()


async def move_of(cloud: SimulatedHosts) -> str | None:
    """The host that has the move; None when there is none."""
    found = await cloud.row(sa.select(operations.c.host).where(operations.c.finish_time.is_(None)))
    return None if found is None else str(found[0])


async def chosen(cloud: SimulatedHosts, uuid: str) -> tuple[str, str]:
    """The target, which breaks down, and the other host, which no longer does."""
    await cloud.decide()
    target = str((await cloud.show(uuid))["host"])
    other = "c" if target == "b" else "b"
    cloud[other].runtime.faults._planned.clear()
    await eventually(lambda: _waits(cloud), 60, "the target gave it back")
    return target, other


async def _waits(cloud: SimulatedHosts) -> bool:
    return await move_of(cloud) == NOWHERE


async def test_another_host_makes_what_the_first_could_not(cloud: SimulatedHosts) -> None:
    uuid = await cloud.create("a", name="web")
    before = await cloud.show(uuid)
    await lost(cloud, "a")
    break_down(cloud, "b", "c")
    target, other = await chosen(cloud, uuid)
    waiting = await cloud.show(uuid)
    assert (waiting["status"], waiting["task_state"], waiting["host"]) == ("Rebuilding", "container_evacuating", "a")
    assert await cloud[target].engine() == {}
    await cloud.decide()
    shown = await cloud.wait(uuid, "Running", other)
    assert (shown["name"], shown["addresses"]) == (before["name"], before["addresses"])
    assert await cloud.actions(uuid) == ["evacuate", "create"]
    steps = await cloud.events(uuid)
    made = [result for step, result in steps if step == "engine"]
    assert made == [*["Error"] * (len(made) - 1), "Success"]
    assert len(made) > 1
    assert [step for step, _ in steps].count("schedule") == 2
    cloud[target].runtime.faults._planned.clear()
    await cloud["a"].live()
    await cloud.truth()


async def test_after_a_few_hosts_it_is_an_error_that_says_so(tmp_path: Path) -> None:
    async with simulated_hosts(tmp_path, *"abcde", compute__heal_attempts=1) as cloud:
        uuid = await cloud.create("a")
        await lost(cloud, "a")
        break_down(cloud, *"bcde")

        async def failed() -> bool:
            await cloud.decide()
            return bool((await cloud.show(uuid))["status"] == "Error")

        await eventually(failed, 120, "it is an error")
        shown = await cloud.show(uuid)
        assert shown["status_reason"].startswith("Tried on 3 hosts: ")
        assert "odd" in shown["status_reason"]
        assert [result for step, result in await cloud.events(uuid) if step == "engine"] == ["Error"] * 3
        for name in "bcde":
            assert await cloud[name].engine() == {}


async def test_a_source_that_is_back_before_the_second_target_keeps_it(cloud: SimulatedHosts) -> None:
    uuid = await cloud.create("a")
    await lost(cloud, "a")
    break_down(cloud, "b", "c")
    await chosen(cloud, uuid)
    await cloud["a"].live()
    await cloud.wait(uuid, "Running", "a")
    assert (await cloud.events(uuid))[-1] == ("give_up", "Error")
    await cloud.truth()


async def test_a_drained_container_goes_to_another_host_too(cloud: SimulatedHosts) -> None:
    uuid = await cloud.create("a", auto_heal=False)
    break_down(cloud, "b", "c")
    drain = Drain(cloud.api.control, "a")
    await drain.step()
    await eventually(lambda: _left(cloud, uuid), 60, "it has left")
    target = str((await cloud.show(uuid))["host"])
    other = "c" if target == "b" else "b"
    cloud[other].runtime.faults._planned.clear()
    await eventually(lambda: _waits(cloud), 60, "the target gave it back")
    await drain.step()
    await cloud.wait(uuid, "Running", other)
    cloud[target].runtime.faults._planned.clear()
    await cloud.truth()


async def _left(cloud: SimulatedHosts, uuid: str) -> bool:
    return bool((await cloud.show(uuid))["host"] != "a")


async def test_without_another_host_a_living_source_makes_it_anew(cloud: SimulatedHosts) -> None:
    uuid = await cloud.create("a", auto_heal=False)
    break_down(cloud, "b", "c")
    async with cloud.api.parts.db.read() as connection:
        row = await rows.get(connection, uuid)
    assert row is not None
    number = await moves.begin(cloud.api.control, row, drain=True)
    assert number is not None
    assert await moves.place(cloud.api.control, number, "me") == moves.Placed("a")
    await cloud.api.parts.bus.ring("a")
    await eventually(lambda: _waits(cloud), 60, "the target gave it back")
    for host in ("b", "c"):
        body = {"host": host, "binary": "zun-compute", "disabled_reason": "broken"}
        assert (await cloud.http.put("/v1/services/disable", json=body)).status_code == 200
    placed = await moves.place(cloud.api.control, number, "me")
    assert placed is not None
    assert placed.host is None
    await cloud.wait(uuid, "Running", "a")
    assert await cloud.actions(uuid) == ["rebuild", "evacuate", "create"]
    await cloud.truth()
