"""Walking through 10,000 containers while others make, change and delete them: no row is lost or repeated."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
import sqlalchemy as sa

from tests.support.api import PROJECT, USER, fault
from tests.support.containers import Plane, make_plane
from zun.api import place
from zun.domain.container import Container
from zun.store.tables import containers as table

URL = "/v1/containers"
ROWS = 10_000
LIMIT = 500
SOMETHING = ("Running", "Stopped", "Error", "Paused")


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    async with make_plane(tmp_path) as made:
        yield made


def row(plane: Plane, number: int) -> dict[str, Any]:
    """A record; every third has no ``hostname``, so that nulls are sorted, too."""
    one = Container(
        uuid=str(UUID(int=number)), name=f"c{number * 7919 % 100_003:06d}", project_id=PROJECT, user_id=USER,
        image="cirros", image_driver="docker", status=SOMETHING[number % 4], cpu=number % 8 / 4, memory=128,
        hostname=f"h{number % 50}" if number % 3 else None, created_at=plane.clock.now(),
    )  # fmt: skip
    values = dataclasses.asdict(one) | {"name_key": one.name}
    values.pop("id")
    return values


async def fill(plane: Plane, count: int = ROWS) -> None:
    async with plane.db.write() as connection:
        await connection.execute(table.insert(), [row(plane, number) for number in range(count)])


class Writers:
    """Works on every second row without an end; ``steady`` rows are left alone."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.steady = {str(UUID(int=number)) for number in range(0, ROWS, 2)}
        self.others = [str(UUID(int=number)) for number in range(1, ROWS, 2)]
        self.made = ROWS
        self.rounds = 0
        self._chance = random.Random(4711)

    async def work(self) -> None:
        while True:
            await self.once()
            await asyncio.sleep(0)

    async def once(self) -> None:
        """Make twenty, delete twenty, change twenty (all that lists are sorted by, the name included)."""
        self._chance.shuffle(self.others)
        gone, changed = self.others[:20], self.others[20:40]
        self.others = self.others[20:]
        new = [row(self.plane, self.made + number) for number in range(20)]
        self.made += 20
        self.others += [one["uuid"] for one in new]
        values = {"name": f"r{self.made}", "status": self._chance.choice(SOMETHING), "hostname": f"z{self.made}"}
        async with self.plane.db.write() as connection:
            await connection.execute(sa.delete(table).where(table.c.uuid.in_(gone)))
            await connection.execute(table.insert(), new)
            await connection.execute(sa.update(table).where(table.c.uuid.in_(changed)).values(values))
        self.rounds += 1

    async def delete(self, uuid: str) -> None:
        """Exactly this one; the marker of a page."""
        async with self.plane.db.write() as connection:
            await connection.execute(sa.delete(table).where(table.c.uuid == uuid))


async def walk(client: httpx.AsyncClient, writers: Writers, url: str) -> list[str]:
    """Uuids in the order seen. Markers that are not steady are deleted before the next page is asked for."""
    found: list[str] = []
    following: str | None = url
    while following:
        answer = await client.get(following)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        uuids = [one["uuid"] for one in page["containers"]]
        found += uuids
        following = page["next"]
        if uuids and uuids[-1] not in writers.steady:
            await writers.delete(uuids[-1])
        await writers.once()
    return found


@contextlib.asynccontextmanager
async def at_work(writers: Writers) -> AsyncIterator[None]:
    task = asyncio.create_task(writers.work())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


SORTS = (
    "",
    "&sort_key=id&sort_dir=desc",
    "&sort_key=cpu&sort_dir=desc",
    "&sort_key=name",
    "&sort_key=status",
    "&sort_key=hostname&sort_dir=desc",
)
UNMOVED = SORTS[:3]
"""Orders in which no row moves; in the others one that was changed may be met at both of its places."""


@pytest.mark.parametrize("sort", SORTS)
async def test_rows_that_stay_are_seen_once(plane: Plane, sort: str) -> None:
    await fill(plane)
    writers = Writers(plane)
    async with at_work(writers):
        found = await walk(plane.client(), writers, f"{URL}?limit={LIMIT}{sort}")
    assert writers.rounds >= ROWS // LIMIT
    steady = [uuid for uuid in found if uuid in writers.steady]
    assert len(steady) == len(set(steady)), "a row was repeated"
    assert set(steady) == writers.steady, "a row was lost"
    if sort in UNMOVED:
        assert len(found) == len(set(found)), "a row was repeated"


async def test_a_marker_that_changes_its_place_does_not_move_the_page(plane: Plane) -> None:
    """``next`` holds where the page ended, not where the marker is by now."""
    await fill(plane, 20)
    client = plane.client()
    page = (await client.get(f"{URL}?limit=3&sort_key=name")).json()
    uuids = [one["uuid"] for one in page["containers"]]
    async with plane.db.write() as connection:
        last = await connection.execute(sa.select(table.c.uuid).order_by(table.c.name).limit(1).offset(3))
        fourth = last.scalar_one()
        await connection.execute(sa.update(table).where(table.c.uuid == uuids[-1]).values(name="zzz"))
    following = (await client.get(page["next"])).json()["containers"]
    assert following[0]["uuid"] == fourth


async def test_a_marker_of_the_users_own_has_to_exist(plane: Plane) -> None:
    """As the contract has it (§8); only ``next`` is sure of its place."""
    await fill(plane, 20)
    gone = str(UUID(int=ROWS + 1))
    assert fault(await plane.client().get(f"{URL}?limit=3&marker={gone}"))["status"] == 404


@pytest.mark.parametrize(
    "text",
    ["x", "e30", "W10", "WzFd", place.write(-1, 1), place.write(2**63, 1), place.write(1, "text"), place.write(1, True),
     place.write(1, 2**63), "W", "ü", "A" * 10_000],
)  # fmt: skip
async def test_a_place_that_is_none_is_told(plane: Plane, text: str) -> None:
    answer = await plane.client().get(URL, params={"after": text})
    assert (fault(answer)["status"], fault(answer)["code"]) == (400, "container.invalid-value")


@pytest.mark.parametrize(
    ("key", "value"), [("name", "a\x00"), ("name", 1), ("name", "\ud800"), ("cpu", "1"), ("created_at", "yesterday"),
                       ("created_at", 5), ("interactive", 1)],
)  # fmt: skip
async def test_a_value_of_another_kind_is_told(plane: Plane, key: str, value: Any) -> None:
    raw = f'[1, "{chr(92)}ud800"]' if value == "\ud800" else None
    text = place.write(1, value) if raw is None else base64.urlsafe_b64encode(raw.encode()).decode()
    answer = await plane.client().get(URL, params={"after": text, "sort_key": key})
    assert fault(answer)["status"] == 400


async def test_a_place_in_anothers_list_shows_nothing_of_it(plane: Plane) -> None:
    await fill(plane, 20)
    page = (await plane.client().get(f"{URL}?limit=3")).json()
    stranger = plane.client(project_id="proj2", user_id="user2")
    assert (await stranger.get(page["next"])).json() == {"containers": [], "next": None}
