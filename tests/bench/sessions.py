"""Interactive sessions through proxy and relay, beside the same exec over the engine's own socket.

An echo is one key sent to a terminal and seen again; a copy is what one command prints, read to its end.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

import httpx
import psutil
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedOK
from websockets.typing import Subprotocol

from tests.bench.figure import Figure, percentile
from tests.bench.own_exec import OwnExec
from tests.support.product import Product

MANY = 200
MIB = 1024 * 1024
PROMPT = b"ready"
WAITING = ["sh", "-c", f"stty raw -echo; printf {PROMPT.decode()}; exec cat"]

Key = Callable[[], Awaitable[None]]


class Through:
    """One session of the product, as a browser or a terminal has it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def key(self) -> None:
        await self._socket.send(b"k")
        assert await self._socket.recv() == b"k"

    async def until_ready(self) -> None:
        seen = b""
        while PROMPT not in seen:
            piece = await self._socket.recv()
            seen += piece if isinstance(piece, bytes) else piece.encode()

    async def read_all(self) -> int:
        """Bytes up to the session's end."""
        count = 0
        try:
            while True:
                count += len(await self._socket.recv())
        except ConnectionClosedOK:
            return count

    async def close(self) -> None:
        await self._socket.close()


async def measure(product: Product, image: str, quick: bool) -> list[Figure]:
    """Echo of one and of 200 sessions, memory of a session, throughput of one, what 2,000 in a row leave."""
    product.conf(quota={"containers": "-1", "cpu": "-1", "memory": "-1"})
    await asyncio.to_thread(product.start)
    try:
        async with product.client(timeout=120) as client:
            uuid = await _container(client, image)
            return [
                await _one(client, uuid, 200 if quick else 1000),
                *await _many(client, uuid, product),
                await _copy(client, uuid, (128 if quick else 512) * MIB),
                await _in_a_row(client, uuid, product, 200 if quick else 2000),
            ]
    finally:
        await asyncio.to_thread(product.clear)


async def _container(client: httpx.AsyncClient, image: str) -> str:
    body = {"image": image, "command": ["sleep", "6000"], "cpu": 1, "memory": 512, "image_pull_policy": "ifnotpresent"}
    answer = await client.post("/v1/containers", params={"run": "true"}, json=body)
    assert answer.status_code == 202, answer.text
    uuid = str(answer.json()["uuid"])
    while (shown := (await client.get(f"/v1/containers/{uuid}")).json())["status"] != "Running":
        assert shown["status"] != "Error", shown["status_reason"]
        await asyncio.sleep(0.05)
    return uuid


async def _open(client: httpx.AsyncClient, uuid: str, command: list[str]) -> Through:
    words = " ".join(f"'{word}'" for word in command)
    asked = {"command": words, "run": False, "interactive": True}
    answer = await client.post(f"/v1/containers/{uuid}/execute", json=asked)
    assert answer.status_code == 200, answer.text
    binary = [Subprotocol("binary")]
    return Through(
        await connect(answer.json()["proxy_url"], subprotocols=binary, compression=None, max_size=None, open_timeout=60)
    )


async def _one(client: httpx.AsyncClient, uuid: str, keys: int) -> Figure:
    session = await _open(client, uuid, WAITING)
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
    before = _memory(product)
    sessions: list[Through] = []
    for _ in range(MANY // 10):
        sessions += await asyncio.gather(*(_open(client, uuid, WAITING) for _ in range(10)))
    await asyncio.gather(*(session.until_ready() for session in sessions))
    ours = await _typed([session.key for session in sessions])
    each = (_memory(product) - before) / MANY / MIB
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
    session = await _open(client, uuid, command)
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


async def _in_a_row(client: httpx.AsyncClient, uuid: str, product: Product, count: int) -> Figure:
    """What they leave in the product's processes and in the container, at most eight at a time."""

    async def some(times: int) -> None:
        for _ in range(times):
            session = await _open(client, uuid, ["sh", "-c", "exec echo done"])
            assert await session.read_all()

    async def everyone(times: int) -> None:
        await asyncio.gather(*(some(times // 8) for _ in range(8)))

    await everyone(max(count // 10, 80))  # what the first ones load stays loaded
    before, memory = _held(product), _memory(product)
    await everyone(count)
    for _ in range(100):  # the engine takes a moment to end what it ran
        more = [now - then for now, then in zip(_held(product), before, strict=True)]
        if max(more) <= 0:
            break
        await asyncio.sleep(0.3)
    grown = (_memory(product) - memory) / MIB
    return Figure(
        f"{count} sessions in a row leave",
        f"{max(more[0], 0)} files, {max(more[1], 0)} threads, {max(more[2], 0)} processes, {grown:.1f} MiB",
        "none, ≤ 8 MiB",
        max(more) <= 0 and grown <= 8,
    )


def _held(product: Product) -> tuple[int, int, int]:
    """Files, threads and processes of the product, and of the container, now."""
    first = psutil.Process(product.pid)
    ours = (first, *first.children(recursive=True))
    (row,) = product.engine_containers()
    inside = psutil.Process(product.engine.get(f"/containers/{row['Id']}/json")["State"]["Pid"])
    within = [one for one in psutil.process_iter() if _same_namespace(one.pid, inside.pid)]
    return sum(one.num_fds() for one in ours), sum(one.num_threads() for one in ours), len(ours) + len(within)


def _same_namespace(pid: int, other: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino == os.stat(f"/proc/{other}/ns/pid").st_ino
    except OSError:
        return False


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


def _memory(product: Product) -> int:
    """Resident bytes of all processes of the product."""
    first = psutil.Process(product.pid)
    return sum(process.memory_info().rss for process in (first, *first.children(recursive=True)))
