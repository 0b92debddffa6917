"""The runtime port's contract, on every runtime: what is asked of a container that runs, and events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.support.runtimes import Bench, state
from tests.support.wait import eventually
from zun.domain.errors import (
    EngineConflict,
    EngineError,
)
from zun.runtime.base import Event


async def test_execute_gives_output_and_exit_code(bench: Bench) -> None:
    uuid = await bench.running()
    result = await bench.runtime.execute(uuid, ["echo", "%d %s {}", "two"], 60)
    assert (result.output, result.exit_code) == ("%d %s {} two\n", 0)
    assert (await bench.runtime.execute(uuid, ["sh", "-c", "exit 3"], 60)).exit_code == 3
    missing = await bench.runtime.execute(uuid, ["no-such-program"], 60)
    assert missing.exit_code in (126, 127)
    assert "not found" in missing.output


async def test_execute_beyond_its_limit_is_a_conflict(bench: Bench) -> None:
    uuid = await bench.running()
    begun = asyncio.get_running_loop().time()
    with pytest.raises(EngineConflict, match=r"0\.3 seconds"):
        await bench.runtime.execute(uuid, ["sleep", "600"], 0.3)
    assert asyncio.get_running_loop().time() - begun < 30


@pytest.mark.parametrize("verb", ["execute", "top", "stats", "resize"])
async def test_looking_inside_needs_a_running_container(bench: Bench, verb: str) -> None:
    uuid = await bench.created()
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "execute": lambda: bench.runtime.execute(uuid, ["true"], 5),
        "top": lambda: bench.runtime.top(uuid, None),
        "stats": lambda: bench.runtime.stats(uuid),
        "resize": lambda: bench.runtime.resize(uuid, height=20, width=80),
    }
    with pytest.raises(EngineConflict, match="not running"):
        await calls[verb]()


async def test_top_shows_the_processes(bench: Bench) -> None:
    uuid = await bench.running()
    assert "PID" in (await bench.runtime.top(uuid, None))["Titles"]

    async def begun() -> bool:  # an engine's own program may stand there for a moment
        found = await bench.runtime.top(uuid, None)
        return any("sleep 3600" in " ".join(row) for row in found["Processes"])

    await eventually(begun, 60, "its program is shown")
    with pytest.raises(EngineError, match="ps: error"):
        await bench.runtime.top(uuid, "%s%d")


async def test_stats_are_one_sample(bench: Bench) -> None:
    uuid = await bench.running(memory_mib=64)
    found = await bench.runtime.stats(uuid)
    assert found.memory_limit_mib == 64
    assert 0 <= found.memory_usage_mib <= 64
    assert found.cpu_percent >= 0


async def test_resize_of_a_terminal(bench: Bench) -> None:
    uuid = await bench.running(tty=True, stdin=True)
    await bench.runtime.resize(uuid, height=30, width=100)
    assert await state(bench, uuid) == "running"


async def test_update_changes_the_limits(bench: Bench) -> None:
    uuid = await bench.running(memory_mib=64, cpu_millicores=200)
    await bench.runtime.update(uuid, cpu_millicores=None, memory_mib=128, swap_mib=0)
    assert (await bench.runtime.stats(uuid)).memory_limit_mib == 128
    await bench.runtime.update(uuid, cpu_millicores=500, memory_mib=32, swap_mib=0)
    assert (await bench.runtime.stats(uuid)).memory_limit_mib == 32


async def test_events_tell_what_happens_from_the_call_on(bench: Bench) -> None:
    before = await bench.created()
    await bench.runtime.remove(before, force=True)
    stream = bench.runtime.events()
    uuid = await bench.running()
    await bench.crash(uuid)
    await bench.reaches(uuid, "exited")
    await bench.runtime.remove(uuid, force=True)
    told: list[Event] = []
    async with asyncio.timeout(60):
        async for event in stream:
            if event.owner == bench.owner and event.uuid != before:
                told.append(event)
            if event.uuid == uuid and event.action == "destroy":
                break
    assert {event.uuid for event in told} == {uuid}
    actions = [event.action for event in told]
    assert [word for word in actions if word in ("create", "start", "die", "destroy")] == [
        "create",
        "start",
        "die",
        "destroy",
    ]
