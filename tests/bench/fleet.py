"""A thousand nodes on one machine: real database, real broker, one zun-api, simulated engines.

python -m tests.bench.fleet [--quick] [--nodes N] [--containers N] [--rate N] [--draw FILE]   (make bench-fleet)
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.bench.figure import Figure, percentile
from tests.bench.fleet_cloud import Fleet, fleet
from tests.bench.show import show
from tests.support.wait import eventually

BODY = {"image": "busybox", "command": ["sleep", "600"], "cpu": 0.1, "memory": 16, "image_pull_policy": "ifnotpresent"}
LOOK = 1.0
"""Seconds between two points of the curves."""
IDLE = 60.0
"""Seconds over which the reads of an idle fleet are counted."""


class Point(NamedTuple):
    """What is seen at one moment: ``at`` seconds since the first create."""

    at: float
    accepted: int
    running: int
    cpu: float
    """Seconds that zun-api has used."""
    rows: int
    """That the database has read, for whomever."""


@dataclass
class Curves:
    """Of the creates."""

    points: list[Point] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    """Seconds of each POST."""
    refused: int = 0

    def of(self, name: str, over: str = "at") -> list[tuple[float, int]]:
        """One value of the points over another."""
        return [(getattr(point, over), getattr(point, name)) for point in self.points]

    def spent(self, name: str) -> tuple[float, float]:
        """How much of ``name`` a container needed among the first tenth and among the last tenth of them."""
        curve, tenth = self.of("accepted", over=name), self.points[-1].accepted / 10
        return _seconds(curve, 0, tenth) / tenth, _seconds(curve, tenth * 9, tenth * 10) / tenth


async def reads_per_node(cloud: Fleet) -> float:
    """Rows the database reads for one node in a minute, while nobody asks for anything."""
    await asyncio.sleep(
        IDLE / 2
    )  # the rounds of nodes that have just started come a minute later: within, not at the edge
    before = await asyncio.to_thread(cloud.rows_read)
    begin = time.monotonic()
    await asyncio.sleep(IDLE)
    read = await asyncio.to_thread(cloud.rows_read) - before
    return read / cloud.count * 60 / (time.monotonic() - begin)


async def create_all(cloud: Fleet, containers: int, rate: float) -> Curves:
    """``containers`` creates, ``rate`` a second, whatever the answers take; returns when all run."""
    curves = Curves()
    begin = time.monotonic()
    watching = asyncio.create_task(_watch(cloud, curves, begin, containers))
    try:
        async with cloud.client() as client, asyncio.TaskGroup() as group:
            at_once = asyncio.Semaphore(64)
            for number in range(containers):
                await asyncio.sleep(max(0.0, begin + number / rate - time.monotonic()))
                await at_once.acquire()
                token = cloud.tokens[number % len(cloud.tokens)]
                group.create_task(_create(client, token, curves, at_once))
        await watching
    finally:
        watching.cancel()
    return curves


async def _create(client: httpx.AsyncClient, token: str, curves: Curves, at_once: asyncio.Semaphore) -> None:
    begin = time.monotonic()
    try:
        headers = {"X-Auth-Token": token}
        answer = await client.post("/v1/containers", params={"run": "true"}, json=BODY, headers=headers)
        curves.refused += answer.status_code != 202
    except httpx.TransportError:
        curves.refused += 1
    finally:
        curves.answers.append(time.monotonic() - begin)
        at_once.release()


async def _watch(cloud: Fleet, curves: Curves, begin: float, wanted: int) -> None:
    """Ends when all that were accepted run. Raises AssertionError when nothing moves for two minutes."""
    moved = time.monotonic()
    cpu, read = cloud.api_cpu(), await asyncio.to_thread(cloud.rows_read)
    for turn in itertools.count(1):
        await asyncio.sleep(max(0.0, begin + turn * LOOK - time.monotonic()))
        running = await asyncio.to_thread(cloud.running)
        now = time.monotonic()
        if not curves.points or running != curves.points[-1].running:
            moved = now
        rows = await asyncio.to_thread(cloud.rows_read)
        curves.points.append(
            Point(now - begin, len(curves.answers) - curves.refused, running, cloud.api_cpu() - cpu, rows - read)
        )
        if len(curves.answers) == wanted and running >= wanted - curves.refused:
            return
        assert now - moved < 120, f"{running} of {len(curves.answers) - curves.refused} run, and no more come"


def last_tenth_over_first(curve: list[tuple[float, int]]) -> float:
    """The rate of the curve's last tenth of containers over that of its first."""
    total = curve[-1][1]
    return _seconds(curve, 0, total / 10) / _seconds(curve, total * 9 / 10, total)


def _seconds(curve: list[tuple[float, int]], low: float, high: float) -> float:
    return _when(curve, high) - _when(curve, low)


def _when(curve: list[tuple[float, int]], count: float) -> float:
    """When the curve reached ``count``, between its points on a straight line."""
    before = (0.0, 0)
    for point in curve:
        if point[1] >= count:
            step = point[1] - before[1]
            return before[0] + (point[0] - before[0]) * ((count - before[1]) / step if step else 0.0)
        before = point
    return curve[-1][0]


async def reconnect(cloud: Fleet) -> tuple[float, float, int]:
    """The broker is killed and started again under requests: (seconds until all agents listen again, the slowest
    answer of the API in that time, requests that failed)."""
    answers: list[float] = []
    failed = 0
    over = asyncio.Event()

    async def ask(client: httpx.AsyncClient) -> None:
        nonlocal failed
        for number in itertools.count():
            if over.is_set():
                return
            begin = time.monotonic()
            try:
                if number % 2:
                    answer = await client.post("/v1/containers", params={"run": "true"}, json=BODY)
                else:
                    answer = await client.get("/v1/containers", params={"limit": 20})
                failed += answer.status_code >= 400
            except httpx.TransportError:
                failed += 1
            answers.append(time.monotonic() - begin)
            await asyncio.sleep(0.2)

    async with cloud.client() as client:
        asking = asyncio.create_task(ask(client))
        listening = await asyncio.to_thread(cloud.listening)
        await asyncio.to_thread(cloud.rabbit.kill)
        await asyncio.to_thread(cloud.rabbit.start)
        begin = time.monotonic()
        await eventually(partial(_all_listen, cloud, listening), 600, "every agent listens again")
        took = time.monotonic() - begin
        over.set()
        await asking
    return took, max(answers), failed


async def _all_listen(cloud: Fleet, wanted: int) -> bool:
    return await asyncio.to_thread(cloud.listening) >= wanted


async def measure(nodes: int, containers: int, rate: float, picture: Path | None) -> list[Figure]:
    """All figures, on a fleet of its own."""
    with fleet() as cloud:
        processes = 2 * (os.cpu_count() or 1)
        few = max(1, nodes // 10)
        begin = time.monotonic()
        await asyncio.to_thread(cloud.start_nodes, few, 1)
        reads_few = await reads_per_node(cloud)
        await asyncio.to_thread(cloud.start_nodes, nodes - few, processes)
        print(f"{nodes} nodes after {time.monotonic() - begin:.0f} s", flush=True)
        reads_all = await reads_per_node(cloud)
        curves = await create_all(cloud, containers, rate)
        print(f"{curves.points[-1].running} containers after {curves.points[-1].at:.0f} s", flush=True)
        reads_full, memory = await reads_per_node(cloud), cloud.memory()
        took, slowest, failed = await reconnect(cloud)
    if picture is not None:
        from tests.bench.fleet_curves import draw  # matplotlib is there for benches only

        draw(picture, curves.of("accepted"), curves.of("running"), nodes)
    share = last_tenth_over_first(curves.of("running"))
    scheduled = last_tenth_over_first(curves.of("accepted"))
    cpu, rows = curves.spent("cpu"), curves.spent("rows")
    growth = reads_all / reads_few
    median, p99 = percentile(curves.answers, 0.5) * 1000, percentile(curves.answers, 0.99) * 1000
    return [
        Figure(f"POST to 202 on {nodes} nodes, median / p99", f"{median:.0f} / {p99:.0f} ms", "", met=True),
        Figure("creates a second, all in all", f"{containers / curves.points[-1].at:.1f}", "", met=True),
        Figure(
            "CPU of zun-api a create, first / last tenth", f"{cpu[0] * 1e3:.1f} / {cpu[1] * 1e3:.1f} ms", "", met=True
        ),
        Figure("rows read a create, first / last tenth", f"{rows[0]:.0f} / {rows[1]:.0f}", "", met=True),
        Figure(f"memory of {nodes} agents, MiB each", f"{memory / nodes:.1f}", "", met=True),
        Figure("creates refused", str(curves.refused), "0", curves.refused == 0),
        Figure("scheduled: last tenth's rate over first's", f"{scheduled:.2f}", "≥ 0.8", scheduled >= 0.8),
        Figure("running: last tenth's rate over first's", f"{share:.2f}", "≥ 0.8", share >= 0.8),
        Figure(
            f"rows read a node and minute, {nodes} / {few} nodes",
            f"{reads_all:.0f} / {reads_few:.0f}",
            "the same (≤ 1.1)",
            growth <= 1.1,
        ),
        Figure(f"rows read a node and minute, {containers} containers", f"{reads_full:.0f}", "", met=True),
        Figure(f"{nodes} agents listen again after a broker's death", f"{took:.0f} s", "", met=True),
        Figure("slowest answer of the API meanwhile", f"{slowest:.1f} s", "≤ 10 s", slowest <= 10),
        Figure("requests that failed meanwhile", str(failed), "0", failed == 0),
    ]


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 nodes and 2,000 containers")
    parser.add_argument("--nodes", type=int, default=0, help="how many (1,000)")
    parser.add_argument("--containers", type=int, default=0, help="how many (100,000)")
    parser.add_argument("--rate", type=float, default=20.0, help="creates a second (20)")
    parser.add_argument("--draw", type=Path, help="write the curves to this file (.svg, .png)")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # all that was started is ended then, too
    nodes = chosen.nodes or (100 if chosen.quick else 1000)
    containers = chosen.containers or (2000 if chosen.quick else 100_000)
    show(asyncio.run(measure(nodes, containers, chosen.rate, chosen.draw)))


if __name__ == "__main__":
    main()
