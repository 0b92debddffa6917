"""What the simulated engine has beyond the port: faults, delays, and acts behind the product's back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest

from tests.support.virtual_clock import VirtualClock
from zun.domain.errors import EngineError, EngineUnreachable, ImageFailed
from zun.domain.observed import EngineSpec
from zun.runtime.base import Event
from zun.runtime.pods import MemberSpec
from zun.runtime.simulated import SimulatedRuntime
from zun.runtime.simulated_pods import ends_at_once


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def runtime(clock: VirtualClock) -> SimulatedRuntime:
    made = SimulatedRuntime(clock=clock)
    made.add_image("busybox")
    return made


def spec() -> EngineSpec:
    return EngineSpec(str(uuid4()), "d/h", "busybox", "web")


async def test_planned_fault_before_and_after_the_effect(runtime: SimulatedRuntime) -> None:
    wish = spec()
    runtime.fail_next("create", EngineError("refused"))
    runtime.fail_next("create", EngineUnreachable("answer lost"), after=True)
    with pytest.raises(EngineError, match="refused"):
        await runtime.create(wish)
    assert await runtime.inspect(wish.uuid) is None
    with pytest.raises(EngineUnreachable):
        await runtime.create(wish)
    assert await runtime.inspect(wish.uuid) is not None
    await runtime.create(wish)
    assert runtime.faults.calls["create"] == 3


async def test_delays_and_hanging(runtime: SimulatedRuntime, clock: VirtualClock) -> None:
    runtime.faults.latency = 1
    runtime.faults.delays["list"] = 5
    slow, normal = asyncio.create_task(runtime.list()), asyncio.create_task(runtime.info())
    await clock.advance(1)
    assert (slow.done(), normal.done()) == (False, True)
    await clock.advance(4)
    assert await slow == []
    runtime.faults.latency = 0
    runtime.faults.hang("info")
    hung = asyncio.create_task(runtime.info())
    await clock.advance(1000)
    assert not hung.done()
    runtime.faults.resume("info")
    assert (await hung).cpus == 64


async def test_silence(runtime: SimulatedRuntime) -> None:
    runtime.faults.unreachable = True
    for call in (runtime.connect, runtime.list, runtime.info):
        with pytest.raises(EngineUnreachable):
            await call()
    with pytest.raises(EngineUnreachable):
        await anext(runtime.events())


@pytest.mark.parametrize(
    ("policy", "count", "code", "state"),
    [
        ("no", 0, 1, "exited"),
        ("always", 0, 0, "running"),
        ("unless-stopped", 0, 1, "running"),
        ("on-failure", 0, 0, "exited"),
        ("on-failure", 0, 1, "running"),
    ],
)
async def test_crash_honours_the_restart_policy(
    runtime: SimulatedRuntime, policy: str, count: int, code: int, state: str
) -> None:
    wish = replace(spec(), restart_name=policy, restart_count=count)
    await runtime.create(wish)
    await runtime.start(wish.uuid)
    runtime.crash(wish.uuid, code)
    found = await runtime.inspect(wish.uuid)
    assert found is not None
    assert found.state == state


async def test_restarts_end(runtime: SimulatedRuntime) -> None:
    wish = replace(spec(), restart_name="on-failure", restart_count=2)
    await runtime.create(wish)
    await runtime.start(wish.uuid)
    for expected in ("running", "running", "exited"):
        runtime.crash(wish.uuid, 3)
        found = await runtime.inspect(wish.uuid)
        assert found is not None
        assert found.state == expected


async def test_cut_events(runtime: SimulatedRuntime) -> None:
    wish = spec()
    stream = runtime.events()
    await runtime.create(wish)
    runtime.cut_events()
    assert await anext(stream) == Event(wish.uuid, "create", "d/h")
    with pytest.raises(EngineUnreachable):
        await anext(stream)


async def test_logs(runtime: SimulatedRuntime, clock: VirtualClock) -> None:
    wish = spec()
    await runtime.create(wish)
    runtime.write(wish.uuid, "one\ntwo\n")
    await clock.advance(60)
    runtime.write(wish.uuid, "three\n", stream="stderr")

    async def read(*, stdout: bool = True, tail: int | None = None, since: float | None = None) -> str:
        return await runtime.logs(wish.uuid, stdout=stdout, stderr=True, timestamps=False, tail=tail, since=since)

    assert await read() == "one\ntwo\nthree\n"
    assert await read(stdout=False) == "three\n"
    assert await read(tail=2) == "two\nthree\n"
    assert await read(tail=0) == ""
    assert await read(since=1767225601.0) == "three\n"


async def test_refused_image(runtime: SimulatedRuntime) -> None:
    runtime.refuse_image("r/x:1", ImageFailed("Image r/x:1 was not found"))
    with pytest.raises(ImageFailed, match="not found"):
        await runtime.pull("r/x:1", None, lambda state: None)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["sh", "-c", "exit 3"], 3),
        (["exit", "300"], 44),
        (["exit", "true"], 2),
        (["sh", "-c", "exit 'no end"], 2),
        (["sh", "-c"], 2),
        (["sh", "-c", ""], 0),
        (["sleep", "soon"], 1),
        (["sleep"], 1),
        (["sleep", "nan"], 1),
        (["sleep", "-1"], 1),
    ],
)
async def test_commands_that_no_shell_understands_end_with_a_code(
    runtime: SimulatedRuntime, command: list[str], code: int
) -> None:
    wish = spec()
    await runtime.create(wish)
    await runtime.start(wish.uuid)
    assert (await runtime.execute(wish.uuid, command, 10.0)).exit_code == code


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["exit", "true"], 2),
        (["sh", "-c"], 2),
        (["sh", "-c", "exit 'no end"], 2),
        (["sh", "-c", "exit 3"], 3),
        (["false"], 1),
        (["true"], 0),
        (["sleep", "5"], None),
        ([], None),
    ],
)
def test_members_end_at_once_with_what_their_command_says(command: list[str], code: int | None) -> None:
    member = MemberSpec(
        uuid=str(uuid4()), owner="d/h", capsule_uuid=str(uuid4()), image="busybox", name="one", command=command
    )
    assert ends_at_once(member) == code
