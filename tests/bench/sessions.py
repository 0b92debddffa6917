"""Interactive sessions through proxy and relay, beside the same exec over the engine's own socket.

An echo is one key sent to a terminal and seen again; a copy is what one command prints, read to its end.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from tests.bench import sessions_in_a_row
from tests.bench.figure import Figure, percentile
from tests.bench.own_exec import OwnExec
from tests.bench.through import PROMPT, WAITING, Through, container, memory, opened
from tests.support.capsule_cloud import CapsuleCloud
from tests.support.product import Product
from zun.cli.preflight import free_port

MANY = 200
MIB = 1024 * 1024
Key = Callable[[], Awaitable[None]]


async def measure(product: Product, image: str, quick: bool) -> list[Figure]:
    """Echo of one and of 200 sessions, memory of a session, throughput of one, what 2,000 in a row leave, in Docker and
    in containerd."""
    port, count = free_port(), 200 if quick else 2000
    product.conf(quota={"containers": "-1", "cpu": "-1", "memory": "-1"}, metrics={"api_port": port})
    await asyncio.to_thread(product.start)
    try:
        async with product.client(timeout=120) as client:
            uuid = await container(client, image)
            figures = [
                await _one(client, uuid, 200 if quick else 1000),
                *await _many(client, uuid, product),
                await _copy(client, uuid, (128 if quick else 512) * MIB),
            ]
            await client.delete(f"/v1/containers/{uuid}", params={"stop": "true"})
            fresh = await container(client, image)
            inside = product.engine.get(f"/containers/zun-{fresh}/json")["State"]["Pid"]
            place = sessions_in_a_row.Place(product, port, inside)
            figures.append(await sessions_in_a_row.measure(client, fresh, place, count, "in Docker"))
    finally:
        await asyncio.to_thread(product.clear)
    return [*figures, await _members(product, count)]


async def _members(product: Product, count: int) -> Figure:
    """On a product and a containerd of its own; ``product`` only names the engine for containers."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="zun-bench-members-") as folder:
        cloud = CapsuleCloud(Path(folder), product.engine)
        try:
            cloud.product.conf(metrics={"api_port": port})
            await asyncio.to_thread(cloud.start)
            capsule = await asyncio.to_thread(cloud.create, {})
            member = (await asyncio.to_thread(cloud.wait, capsule, "Running"))["containers"][0]["uuid"]
            inside = await asyncio.to_thread(cloud.pid_of, member)
            place = sessions_in_a_row.Place(cloud.product, port, inside, [cloud.containerd.process])
            async with cloud.product.client(timeout=120) as client:
                return await sessions_in_a_row.measure(client, member, place, count, "in containerd")
        finally:
            await asyncio.to_thread(cloud.close)


async def _one(client: httpx.AsyncClient, uuid: str, keys: int) -> Figure:
    session = await opened(client, uuid, WAITING)
    await session.until_ready()
    ours = await _times(session.key, keys)
    await session.close()
    async with OwnExec(uuid, WAITING) as own:
        await own.until(PROMPT)
        floor = await _times(own.key, keys)
    echo = percentile(ours, 0.5)
    return Figure(
        "echo of one session, median", f"{echo:.2f} ms", "≤ 3 ms", echo <= 3, f"{percentile(floor, 0.5):.2f} ms"
    )


async def _many(client: httpx.AsyncClient, uuid: str, product: Product) -> list[Figure]:
    """Each types a key a second: people, not pastes."""
    before = memory(product)
    sessions: list[Through] = []
    for _ in range(MANY // 10):
        sessions += await asyncio.gather(*(opened(client, uuid, WAITING) for _ in range(10)))
    await asyncio.gather(*(session.until_ready() for session in sessions))
    ours = await _typed([session.key for session in sessions])
    each = (memory(product) - before) / MANY / MIB
    await asyncio.gather(*(session.close() for session in sessions))
    own = [await OwnExec(uuid, WAITING).__aenter__() for _ in range(MANY)]
    await asyncio.gather(*(one.until(PROMPT) for one in own))
    floor = await _typed([one.key for one in own])
    await asyncio.gather(*(one.__aexit__() for one in own))
    late, engines = percentile(ours, 0.99), percentile(floor, 0.99)
    return [
        Figure(
            f"echo of {MANY} sessions, p99", f"{late:.1f} ms", "≤ engine + 50 ms", late <= engines + 50,
            f"{engines:.1f} ms",
        ),
        Figure("memory of a session", f"{each:.2f} MiB", "≤ 1 MiB", each <= 1),
    ]  # fmt: skip


async def _copy(client: httpx.AsyncClient, uuid: str, size: int) -> Figure:
    command = ["sh", "-c", f"stty raw; head -c {size} /dev/zero"]
    begin = time.perf_counter()
    session = await opened(client, uuid, command)
    count = await session.read_all()
    ours = count / (time.perf_counter() - begin) / MIB
    assert count == size
    begin = time.perf_counter()
    async with OwnExec(uuid, command) as own:
        count = await own.read_all()
    floor = count / (time.perf_counter() - begin) / MIB
    assert count == size
    return Figure(
        "throughput of one session", f"{ours:.0f} MiB/s", "≥ 70 % of the engine's", ours >= 0.7 * floor,
        f"{floor:.0f} MiB/s",
    )  # fmt: skip


async def _times(key: Key, count: int) -> list[float]:
    """Milliseconds of each key."""
    took = []
    for _ in range(count):
        begin = time.perf_counter()
        await key()
        took.append((time.perf_counter() - begin) * 1000)
    return took


async def _typed(keys: list[Key]) -> list[float]:
    """Milliseconds of ten keys of each, one a second, spread over the second."""

    async def typist(place: int, key: Key) -> list[float]:
        await asyncio.sleep(place / len(keys))
        took = []
        for _ in range(10):
            begin = time.perf_counter()
            await key()
            took.append((time.perf_counter() - begin) * 1000)
            await asyncio.sleep(1)
        return took

    return [one for many in await asyncio.gather(*(typist(*pair) for pair in enumerate(keys))) for one in many]
