"""What every engine says of a log that is followed: records from the end, in order, and that it has grown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.pods import CriBench, DockerPodsBench, PodsBench, SimulatedPodsBench
from tests.support.runtimes import Bench, DockerBench, SimulatedBench
from tests.support.wait import eventually
from zun.compute.log_pieces import Wish, read
from zun.domain.errors import EngineNotFound
from zun.runtime.log_records import SECOND, LogRecord

BOTH = frozenset({"stdout", "stderr"})


@dataclass
class Logging:
    """An engine with a container that runs, and what writes to its log."""

    port: Any
    start: Callable[[], Awaitable[str]]
    write: Callable[..., Awaitable[None]]
    end: Callable[[str], Awaitable[None]]

    async def records(self, uuid: str, last: int | None = None) -> list[LogRecord]:
        found: list[LogRecord] = []
        async with aclosing(self.port.log_records(uuid, last)) as batches:
            async for batch in batches:
                found += batch
        return found

    async def logged(self, uuid: str, count: int) -> list[LogRecord]:
        """The whole log once it has so many records."""

        async def there() -> list[LogRecord] | None:
            found = await self.records(uuid)
            return found if len(found) >= count else None

        found = await eventually(there, 30, f"{count} records")
        assert found is not None
        return found


def _of_containers(bench: Bench) -> Logging:
    async def write(uuid: str, text: str, *, stream: str = "stdout") -> None:
        if isinstance(bench, SimulatedBench):
            bench.runtime.write(uuid, text, stream=stream)
            return
        number = {"stdout": 1, "stderr": 2}[stream]
        done = await bench.runtime.execute(uuid, ["sh", "-c", f"printf '%s' '{text}' > /proc/1/fd/{number}"], 30)
        assert done.exit_code == 0, done.output

    return Logging(bench.runtime, bench.running, write, bench.crash)


def _of_members(bench: PodsBench) -> Logging:
    async def start() -> str:
        return await bench.running(await bench.capsule())

    return Logging(bench.pods, start, bench.write, bench.crash)


REAL = [pytest.param(name, marks=pytest.mark.engine) for name in ("docker", "cri", "docker-members")]


@pytest.fixture(params=[*REAL, "simulated", "simulated-members"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Logging]:
    made: Bench | PodsBench
    if request.param == "docker":
        made = DockerBench(request.getfixturevalue("busybox"), request.getfixturevalue("engine"))
    elif request.param == "simulated":
        made = SimulatedBench("busybox:latest")
    elif request.param == "cri":
        made = CriBench(request.getfixturevalue("containerd"))
    elif request.param == "docker-members":
        made = DockerPodsBench(request.getfixturevalue("engine"), tmp_path)
    else:
        made = SimulatedPodsBench()
    try:
        if isinstance(made, PodsBench):
            await made.open()
        else:
            await made.runtime.connect()
        yield _of_containers(made) if isinstance(made, Bench) else _of_members(made)
    finally:
        await made.close()


async def test_records_have_stream_time_and_text(log: Logging) -> None:
    uuid, before = await log.start(), time.time_ns()
    assert await log.records(uuid) == []
    await log.write(uuid, "one ü\ntwo\n")
    await log.logged(uuid, 2)
    await log.write(uuid, "three\n", stream="stderr")
    found = await log.logged(uuid, 3)
    assert [(one.stream, one.data.decode(), one.whole) for one in found] == [
        ("stdout", "one ü", True),
        ("stdout", "two", True),
        ("stderr", "three", True),
    ]
    assert all(before - SECOND < one.when < time.time_ns() + SECOND for one in found)
    assert await log.records(uuid, 2) == found[1:]
    assert await log.records(uuid, 3) == found
    assert await log.records(uuid, 99) == found


async def test_a_line_that_is_not_ended_says_so(log: Logging) -> None:
    uuid = await log.start()
    await log.write(uuid, "a" * 20_000 + "\nshort\n")
    found = await log.logged(uuid, 2)
    assert "".join(one.data.decode() + "\n" * one.whole for one in found) == "a" * 20_000 + "\nshort\n"


async def test_growth_is_told(log: Logging) -> None:
    uuid = await log.start()
    await log.write(uuid, "before\n")
    await log.logged(uuid, 1)
    async with log.port.log_growth(uuid) as grown:
        await log.records(uuid)

        async def told() -> int:
            while len(found := await log.records(uuid)) < 2:
                await grown(60)
            return len(found)

        async with asyncio.timeout(30):
            waiting = asyncio.create_task(told())
            await log.write(uuid, "after\n")
            assert await waiting == 2
        assert await asyncio.wait_for(grown(0.01), 30) is None


async def test_what_is_gone_is_not_found(log: Logging) -> None:
    with pytest.raises(EngineNotFound):
        await log.records(str(uuid4()))


async def test_an_ended_container_keeps_its_log_and_says_no_more(log: Logging) -> None:
    uuid = await log.start()
    await log.write(uuid, "last\n")
    await log.logged(uuid, 1)
    await log.end(uuid)

    async def ended() -> bool:
        return (await log.port.inspect(uuid)).state == "exited"

    await eventually(ended, 30, "it has ended")
    piece = await read(log.port, uuid, Wish(BOTH, None))
    assert [one.data for _, one in piece.records] == [b"last"]
    assert not (await read(log.port, uuid, Wish(BOTH, piece.place))).any


async def test_pieces_join_wherever_they_were_cut(log: Logging) -> None:
    uuid, written = await log.start(), list[str]()
    wish, found = Wish(BOTH, None), list[str]()
    for number in range(6):
        lines = [f"{number} {place}" for place in range(5)]
        await log.write(uuid, "".join(f"{line}\n" for line in lines))
        written += lines
        piece = await read(log.port, uuid, wish)
        found += [one.data.decode() for _, one in piece.records]
        wish = Wish(BOTH, piece.place)
    await log.logged(uuid, 30)
    found += [one.data.decode() for _, one in (await read(log.port, uuid, wish)).records]
    assert found == written
