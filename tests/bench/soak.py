"""Thousands of whole lives of containers, then sessions: what of them stays in the product.

A life: create, run, execute, stop, start, delete. Compared after a warm-up of a tenth, since what the first ones load
is no container's; the database after the cleaning that follows once an hour.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx

from tests.bench.counted import counted
from tests.bench.figure import Figure
from tests.bench.through import container, memory, opened
from tests.support.ports import free_port
from tests.support.product import Product
from tests.support.wait import eventually
from zun.control.reaper import PRUNE_LEASE

LANES = 6
MOST = 1.05
"""Flat: at most a twentieth more."""
LONGEST = 300.0
"""Seconds that one life, or one session, may take."""
MIB = 1024 * 1024
_DEAD = "SELECT count(*) FROM operations WHERE container_uuid NOT IN (SELECT uuid FROM containers)"
_EVENTS = "SELECT count(*) FROM status_events"
_SESSIONS = "SELECT count(*) FROM sessions"


@dataclass(frozen=True)
class Kept:
    """By the product, when nobody asks for anything: MiB, descriptors, tasks, threads; KiB of its database in use."""

    memory: float
    files: int
    tasks: int
    threads: int
    database: float


async def measure(product: Product, image: str, quick: bool) -> list[Figure]:
    """3,000 lives and 1,000 sessions."""
    lives, sessions = (200, 100) if quick else (3000, 1000)
    port = free_port()
    product.conf(
        quota={"containers": "-1", "cpu": "-1", "memory": "-1"},
        metrics={"api_port": port},
        compute={"action_retention_days": 0, "reaper_interval": 1},
        api={"event_retention": 60},
    )
    await asyncio.to_thread(product.start)
    async with product.client(timeout=LONGEST) as client:
        first = await _kept(product, port)
        await _row("lives", lives // 10, lambda: _life(client, image))
        before = await _settled(product, port, first)
        begin = time.monotonic()
        await _row("lives", lives, lambda: _life(client, image))
        seconds = time.monotonic() - begin
        figures = _compared(f"{lives} lives", before, await _settled(product, port, before))
        uuid = await container(client, image)
        await _row("sessions", max(80, sessions // 10), lambda: _session(client, uuid))
        before = await _settled(product, port, first)
        await _row("sessions", sessions, lambda: _session(client, uuid))
        figures += _compared(f"{sessions} sessions", before, await _settled(product, port, before))
    await asyncio.to_thread(product.clear)
    each = f"{seconds * 1000 / lives:.0f} ms"
    return [Figure(f"one life, {LANES} at the same time", each, "", met=True), *figures]


async def _life(client: httpx.AsyncClient, image: str) -> None:
    body = {"image": image, "command": ["sleep", "600"], "cpu": 0.1, "memory": 16, "image_pull_policy": "ifnotpresent"}
    answer = await client.post("/v1/containers", params={"run": "true"}, json=body)
    assert answer.status_code == 202, answer.text
    path = f"/v1/containers/{answer.json()['uuid']}"
    await _reaches(client, path, "Running")
    done = await client.post(f"{path}/execute", params={"command": "echo here"})
    assert "here" in done.json()["output"], done.text
    await client.post(f"{path}/stop", params={"timeout": 0})
    await _reaches(client, path, "Stopped")
    await client.post(f"{path}/start")
    await _reaches(client, path, "Running")
    assert (await client.delete(path, params={"force": "true"})).status_code == 204

    async def gone() -> bool:
        return (await client.get(path)).status_code == 404

    await eventually(gone, LONGEST, f"{path} is gone")


async def _reaches(client: httpx.AsyncClient, path: str, status: str) -> None:
    shown = (await client.get(path, params={"wait_for": status, "timeout": 60})).json()
    assert shown["status"] == status, shown


async def _session(client: httpx.AsyncClient, uuid: str) -> None:
    session = await opened(client, uuid, ["sh", "-c", "exec echo done"])
    assert await session.read_all()


async def _row(what: str, count: int, one: Callable[[], Awaitable[None]]) -> None:
    """``count`` of them, some at the same time; says on standard error how far it is."""
    begun = done = 0

    async def lane() -> None:
        nonlocal begun, done
        while begun < count:
            begun += 1
            async with asyncio.timeout(LONGEST):
                await one()
            done += 1
            if done % 100 == 0:
                print(f"  {done} of {count} {what}", file=sys.stderr, flush=True)

    async with asyncio.TaskGroup() as group:
        for _ in range(LANES):
            group.create_task(lane())


async def _kept(product: Product, port: int) -> Kept:
    now = await counted(product, port)
    database = await asyncio.to_thread(_database, product)
    return Kept(memory(product) / MIB, now.files, now.tasks, now.threads, database)


def _database(product: Product) -> float:
    """KiB that rows and indexes take."""
    return float(product.query("SELECT sum(pgsize) FROM dbstat")[0][0]) / 1024


def _tables(product: Product) -> str:
    """The largest, for a reader who wants to know what grew."""
    rows = product.query("SELECT name, sum(pgsize) / 1024 FROM dbstat GROUP BY name ORDER BY 2 DESC, 1 LIMIT 6")
    return ", ".join(f"{row[0]} {row[1]} KiB" for row in rows)


async def _settled(product: Product, port: int, wanted: Kept) -> Kept:
    """After the cleaning, and once files and tasks are as few as wanted or a minute has passed."""
    await asyncio.to_thread(_clean_now, product)

    async def cleaned() -> bool:
        """Events are kept for a minute: a table is not small again before its last row is gone."""
        return all(int(product.query(query)[0][0]) == 0 for query in (_DEAD, _EVENTS, _SESSIONS))

    await eventually(cleaned, 240, "actions, events and sessions are cleaned up")
    with contextlib.suppress(AssertionError):
        await eventually(lambda: _few(product, port, wanted), 60, "all that ended is let go")
    print(f"  database: {await asyncio.to_thread(_tables, product)}", file=sys.stderr, flush=True)
    return await _kept(product, port)


async def _few(product: Product, port: int, wanted: Kept) -> bool:
    now = await _kept(product, port)
    return now.files <= wanted.files and now.tasks <= wanted.tasks


def _clean_now(product: Product) -> None:
    """The hour since the last cleaning is over, and so is the time that rows of ended sessions are kept."""
    with contextlib.closing(sqlite3.connect(product.state.root / "zun.sqlite", timeout=30)) as connection, connection:
        connection.execute("DELETE FROM leases WHERE name = ?", (PRUNE_LEASE,))
        connection.execute("UPDATE sessions SET expires_at = datetime('now', '-30 days')")


def _compared(what: str, before: Kept, after: Kept) -> list[Figure]:
    units = {"memory": " MiB", "files": " files", "tasks": " tasks", "threads": " threads", "database": " KiB"}
    found = []
    for name, unit in units.items():
        was, now = getattr(before, name), getattr(after, name)
        found.append(
            Figure(f"{name} after {what}", f"{now:.0f}{unit}", f"≤ 1.05 x {was:.0f}", now <= max(was * MOST, was + 1))
        )
    return found
