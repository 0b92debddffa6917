"""What many sessions in a row leave behind: in the product, in the container, and in its engine."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx
import psutil

from tests.bench.counted import counted
from tests.bench.figure import Figure
from tests.bench.through import memory, opened
from tests.support.product import Product

MIB = 1024 * 1024
LANES = 8
"""So many rows at the same time, as the engine takes most of a session's time."""
LONGEST = 120.0
"""Seconds of one session; one that hangs ends the measurement with its number."""
POOL = min(32, (os.cpu_count() or 1) + 4)
"""Threads that Python's pool of an event loop may grow to; none of them ends."""
_SAY_EVERY = 100
_SETTLES = 60.0
_COLLECTED = 300.0
"""Seconds. containerd's shim does not close its end of a terminal's input itself: Go's garbage collector does, which
runs every two minutes at the latest. So it is with the engine alone."""
COMMAND = ["sh", "-c", "exec echo done"]


@dataclass(frozen=True)
class Held:
    """Of the product: tasks, files, threads, processes. In the container: its processes. Of its engine: files."""

    tasks: int
    files: int
    threads: int
    processes: int
    inside: int
    engine_files: int

    def more_than(self, other: Held) -> Held:
        return Held(*(max(now - other.__dict__[name], 0) for name, now in self.__dict__.items()))

    def __bool__(self) -> bool:
        return any(self.__dict__.values())


class Place:
    """A container that no session was in before, and what is counted of it. ``inside`` is its process, ``engine`` are
    the processes that serve it beside its shim."""

    def __init__(self, product: Product, metrics_port: int, inside: int, engine: Sequence[psutil.Process] = ()) -> None:
        self._product = product
        self._metrics_port = metrics_port
        self._inside = inside
        shim = psutil.Process(inside).parent()
        assert shim is not None
        self._engine = [shim, *engine]

    async def held(self) -> Held:
        now = await counted(self._product, self._metrics_port)
        return Held(
            now.tasks,
            now.files,
            now.threads,
            now.processes,
            sum(_same_namespace(one.pid, self._inside) for one in psutil.process_iter()),
            sum(one.num_fds() for one in self._engine),
        )

    async def settled(self, wanted: Held) -> Held:
        """Once no more than ``wanted`` is held. Else when nothing has become less for some seconds, as the engine takes
        a moment to end what it ran and the API to close what waits for a next request; files of the engine have more
        time."""
        begin, calm, last = time.monotonic(), 0, await self.held()
        while more := last.more_than(wanted):
            waited = time.monotonic() - begin
            if waited >= (_COLLECTED if more.engine_files else _SETTLES) or (calm >= 10 and not more.engine_files):
                break
            await asyncio.sleep(0.3 if calm < 10 else 2)
            now = await self.held()
            calm = 0 if last.more_than(now) else calm + 1
            if calm == 10 and more.engine_files:
                print(f"  waiting: the engine has {more.engine_files} files to close", file=sys.stderr, flush=True)
            last = now
        return last

    def memory(self) -> int:
        return memory(self._product)


async def measure(client: httpx.AsyncClient, uuid: str, place: Place, count: int, where: str) -> Figure:
    """Compared after a warm-up of a tenth, whose memory stays: what the first ones load is no session's."""
    row, fresh = _Row(client, uuid), await place.held()
    await row.run(max(count // 10, 80))
    before, resident = await place.settled(fresh), place.memory()
    begin = time.monotonic()
    await row.run(count, lambda: f"{place.memory() / MIB:.0f} MiB")
    seconds = time.monotonic() - begin
    left, grown = (await place.settled(before)).more_than(before), (place.memory() - resident) / MIB
    kept = left.tasks or left.files or left.processes or left.inside or left.engine_files
    return Figure(
        f"{count} sessions in a row {where} leave",
        f"{left.tasks} tasks, {left.files} files, {left.threads} threads, {left.processes + left.inside} processes,"
        f" {left.engine_files} files of the engine, {grown:.1f} MiB ({seconds * 1000 / count:.0f} ms each)",
        f"none, ≤ 8 MiB; threads: a pool's {POOL}",
        not kept and left.threads <= POOL and grown <= 8,
    )


class _Row:
    """Says on standard error how far it is."""

    def __init__(self, client: httpx.AsyncClient, uuid: str) -> None:
        self._client = client
        self._uuid = uuid

    async def run(self, count: int, note: Callable[[], str] | None = None) -> None:
        self._begun, self._done, begin = 0, 0, time.monotonic()

        async def lane() -> None:
            while self._begun < count:
                self._begun += 1
                await self._one(self._begun)
                self._done += 1
                if self._done % _SAY_EVERY == 0 or self._done == count:
                    each = (time.monotonic() - begin) * 1000 / self._done
                    more = note() if note else ""
                    print(f"  {self._done} of {count} sessions, {each:.0f} ms each {more}", file=sys.stderr, flush=True)

        async with asyncio.TaskGroup() as group:
            for _ in range(LANES):
                group.create_task(lane())

    async def _one(self, number: int) -> None:
        try:
            async with asyncio.timeout(LONGEST):
                session = await opened(self._client, self._uuid, COMMAND)
                assert await session.read_all()
        except TimeoutError as error:
            raise AssertionError(f"session {number} did not end within {LONGEST:.0f} s") from error


def _same_namespace(pid: int, other: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino == os.stat(f"/proc/{other}/ns/pid").st_ino
    except OSError:
        return False
