"""What many sessions in a row leave behind: in the product, in the container, and in its shim of the engine."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass

import httpx
import psutil

from tests.bench.figure import Figure
from tests.bench.through import memory, opened
from tests.support.product import Product

MIB = 1024 * 1024
LANES = 8
"""So many rows at the same time, as the engine takes most of a session's time."""
LONGEST = 120.0
"""Seconds of one session; one that hangs ends the measurement with its number."""
POOL = min(32, (os.cpu_count() or 1) + 4)
"""Threads that Python's pool of an event loop may grow to; none of them ends. The shim, too, leaves a file open now and
then (some in a thousand sessions); one that a session holds would be as many as there were sessions."""
_SAY_EVERY = 100
_SETTLES = 60.0
COMMAND = ["sh", "-c", "exec echo done"]


@dataclass(frozen=True)
class Held:
    """Of the product: tasks, files, threads, processes. In the container: its processes. Of its shim: files."""

    tasks: int
    files: int
    threads: int
    processes: int
    inside: int
    engine_files: int

    def more_than(self, other: Held) -> list[int]:
        return [max(now - then, 0) for now, then in zip(astuple(self), astuple(other), strict=True)]


async def measure(client: httpx.AsyncClient, uuid: str, product: Product, metrics_port: int, count: int) -> Figure:
    """Compared after a warm-up of a tenth, whose memory stays: what the first ones load is no session's."""
    row = _Row(client, uuid)
    await row.run(max(count // 10, 80))
    before, resident = await _least(product, metrics_port, None), memory(product)
    begin = time.monotonic()
    await row.run(count, lambda: f"{memory(product) / MIB:.0f} MiB")
    seconds = time.monotonic() - begin
    after = await _least(product, metrics_port, before)
    grown = (memory(product) - resident) / MIB
    tasks, files, threads, processes, inside, engine_files = after.more_than(before)
    kept = not (tasks or files or processes or inside) and threads <= POOL and engine_files < count // 100
    return Figure(
        f"{count} sessions in a row leave",
        f"{tasks} tasks, {files} files, {threads} threads, {processes + inside} processes, {engine_files} files of the"
        f" engine, {grown:.1f} MiB ({seconds * 1000 / count:.0f} ms each)",
        f"none, ≤ 8 MiB; threads: a pool's {POOL}",
        kept and grown <= 8,
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


async def _least(product: Product, metrics_port: int, wanted: Held | None) -> Held:
    """Once no more than ``wanted`` is held, or nothing has become less for some seconds: the engine takes a moment to
    end what it ran, the API to close what waits for a next request."""
    best, until, calm = await _held(product, metrics_port), time.monotonic() + _SETTLES, 0
    while time.monotonic() < until and calm < 10:
        if wanted is not None and not any(best.more_than(wanted)):
            break
        await asyncio.sleep(0.3)
        now = await _held(product, metrics_port)
        calm = 0 if any(best.more_than(now)) else calm + 1
        best = now
    return best


async def _held(product: Product, metrics_port: int) -> Held:
    async with httpx.AsyncClient(trust_env=False) as reader:
        text = (await reader.get(f"http://127.0.0.1:{metrics_port}/metrics")).text
    tasks = next(int(float(line.split()[1])) for line in text.splitlines() if line.startswith("zun_tasks "))
    first = psutil.Process(product.pid)
    ours = (first, *first.children(recursive=True))
    (row,) = product.engine_containers()
    inside = psutil.Process(product.engine.get(f"/containers/{row['Id']}/json")["State"]["Pid"])
    shim = inside.parent()
    assert shim is not None
    within = [one for one in psutil.process_iter() if _same_namespace(one.pid, inside.pid)]
    return Held(
        tasks,
        sum(one.num_fds() for one in ours),
        sum(one.num_threads() for one in ours),
        len(ours),
        len(within),
        shim.num_fds(),
    )


def _same_namespace(pid: int, other: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino == os.stat(f"/proc/{other}/ns/pid").st_ino
    except OSError:
        return False
