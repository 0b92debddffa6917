"""The queries on containers, on every database: SQLite, MariaDB, PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.services.rows import MINUTE, NOW, PROJECT, container, names, put
from zun.domain.container import Container, VolumeMapping
from zun.store import (
    cinder_volumes,
    containers,
    local_volumes,
    made_volumes,
    registries,
    volume_mappings,
)
from zun.store.containers import Page
from zun.store.database import Database
from zun.volume.base import container_volume_name


async def test_a_container_comes_back_as_it_was_written(db: Database) -> None:
    one = container(
        name="Ünï-\N{CAT FACE}",
        cpu=0.1,
        memory=2**31 - 1,
        command=["sh", "-c", "echo '\N{CAT FACE}'"],
        environment={"K" * 300: "v" * 100_000},
        labels={"a": "%s %(x)s :y"},
        workdir="/" + "w" * 70_000,
        auto_heal=True,
        started_at=NOW.replace(microsecond=0),
        addresses={"n": [{"addr": "10.0.0.2"}]},
    )
    await put(db, one)
    async with db.read() as connection:
        got = await containers.get(connection, one.uuid)
    assert got is not None
    assert got.id > 0
    assert Container(**{**{f: getattr(got, f) for f in one.__slots__}, "id": 0}) == one


async def test_ids_and_names_are_compared_exactly(db: Database) -> None:
    await put(db, container("Web"), container("web"), container("wéb"))
    async with db.read() as connection:
        for name in ("Web", "web", "wéb"):
            (found,) = await containers.find(connection, name, {"project_id": PROJECT})
            assert found.name == name
        assert await containers.find(connection, "WEB", {}) == []
        assert await containers.find(connection, "web", {"project_id": "BLUE"}) == []
        assert await containers.name_taken(connection, "WEB", PROJECT)
        assert not await containers.name_taken(connection, "WEB", "red")
    assert await names(db, filters={"name": ["web"]}) == ["web"]


async def test_a_name_found_twice_is_told_as_two(db: Database) -> None:
    await put(db, container("twin"), container("twin"), container("twin"))
    async with db.read() as connection:
        assert len(await containers.find(connection, "twin", {})) == 2


SORTED = [("host", ["a", "b", None]), ("cpu", [0.1, 0.3, 2.0]), ("memory", [1, 5, 2**31 - 1])]
SORTED += [
    ("auto_remove", [False, True]),
    ("started_at", [NOW, NOW + MINUTE, None]),
    ("id", [0]),
    ("status", ["x", "y"]),
]


@pytest.mark.parametrize(("key", "values"), SORTED, ids=[key for key, _ in SORTED])
@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
async def test_pages_follow_each_other_without_gap_or_double(
    db: Database, key: str, values: Sequence[Any], descending: bool
) -> None:
    turns = itertools.cycle(values)
    rows = [container(f"c{number:02d}", **{key: next(turns)}) for number in range(11)]
    await put(db, *rows)
    seen: list[Any] = []
    marker: str | None = None
    while True:
        wanted = Page(limit=2, marker=marker, sort_key=key, descending=descending)
        async with db.read() as connection:
            page = await containers.page(connection, wanted)
        if not page:
            break
        seen += page
        marker = page[-1]["uuid"]
    by_uuid = {row.uuid: (number, getattr(row, key)) for number, row in enumerate(rows)}
    order = [by_uuid[row["uuid"]] for row in seen]
    expected = sorted(by_uuid.values(), key=lambda one: (one[1] is None, [] if one[1] is None else [one[1]], one[0]))
    assert order == (expected[::-1] if descending else expected)


async def test_a_page_shows_json_and_times_as_text(db: Database) -> None:
    plain = NOW.replace(microsecond=0)
    await put(db, container("a", labels={"k": "v"}, created_at=plain, started_at=NOW), container("b"))
    async with db.read() as connection:
        first, second = await containers.page(connection, Page(limit=5))
    assert (first["created_at"], first["started_at"]) == ("2026-01-02 03:04:05.000000", "2026-01-02 03:04:05.678901")
    assert (first["labels"], second["labels"], second["started_at"]) == ('{"k":"v"}', None, None)
    assert first["registry_uuid"] is None


async def test_filters(db: Database) -> None:
    await put(db, container("a", memory=64, auto_remove=True), container("b", memory=64), container("c", host="h"))
    assert await names(db, filters={"memory": [64]}) == ["a", "b"]
    assert await names(db, filters={"memory": [64], "auto_remove": [True]}) == ["a"]
    assert await names(db, filters={"auto_remove": [False], "host": ["h", "i"]}) == ["c"]
    assert await names(db, scope={"project_id": "red"}) == []
    with pytest.raises(LookupError):
        await names(db, marker=str(uuid4()))


async def test_guarded_writes(db: Database) -> None:
    one = container(cpu=0.1)
    await put(db, one)
    async with db.write() as connection:

        async def write(expect: dict[str, Any], **values: Any) -> bool:
            return await containers.update(connection, one.uuid, expect, values, NOW)

        assert await write({"status": ("Running", "Paused"), "task_state": None, "cpu": 0.1}, status="Stopped")
        assert not await write({"status": ("Running",)}, status="Paused")
        assert not await write({"task_state": "x"}, status="Paused")
        assert await write({"status": ("Stopped",)}, status="Stopped"), "the same again is a write"
        assert not await write({"generation": (0,)}, name="Other")
        assert await write({"generation": (2,)}, name="Other")
        assert await containers.name_taken(connection, "other", PROJECT)
        assert await containers.delete(connection, one.uuid, {"status": "Running"}) is None
        removed = await containers.delete(connection, one.uuid, {"status": ("Stopped",)})
        assert removed is not None
        assert removed.cpu == 0.1
        assert await containers.delete(connection, one.uuid, {}) is None


async def test_of_two_writers_who_expect_the_same_one_wins(db: Database) -> None:
    one = container()
    await put(db, one)

    async def write(status: str) -> bool:
        async with db.write() as connection:
            return await containers.update(connection, one.uuid, {"generation": (0,)}, {"status": status}, NOW)

    assert sorted(await asyncio.gather(*(write(f"s{n}") for n in range(12)))) == [False] * 11 + [True]


async def test_usage_of_a_host(db: Database) -> None:
    await put(
        db, container("a", host="h", cpu=0.25, memory=3, disk=1), container("b", host="h", cpu=1.5), container("c")
    )
    async with db.read() as connection:
        assert await containers.usage_of_host(connection, "h") == (2, 1.75, 3, 1)
        assert await containers.usage_of_host(connection, "H") == (0, 0.0, 0, 0)


async def test_mounts_and_registries(db: Database) -> None:
    one = container()
    mapping = VolumeMapping(str(uuid4()), one.uuid, PROJECT, "ada", "bind", "local", "/x", contents="c" * 200_000)
    registry = {"uuid": str(uuid4()), "name": "r", "domain": "d", "project_id": PROJECT, "user_id": "ada"}
    async with db.write() as connection:
        await registries.insert(connection, {**registry, "password": "p" * 90_000, "created_at": NOW})
        (row,) = await registries.find(connection, registry["uuid"], {"project_id": PROJECT})
        await containers.insert(
            connection, Container(**{**{f: getattr(one, f) for f in one.__slots__}, "registry_id": row["id"]})
        )
        await volume_mappings.insert(connection, mapping)
        assert await volume_mappings.set_volume(connection, mapping.uuid, "v")
        assert not await volume_mappings.set_volume(connection, mapping.uuid, "w")
        assert await volume_mappings.lasting_use(connection, "v")
    async with db.read() as connection:
        (got,) = await volume_mappings.of_container(connection, one.uuid)
        assert got.contents == mapping.contents
        assert (await containers.page(connection, Page(limit=1)))[0]["registry_uuid"] == registry["uuid"]
        assert await containers.using_registry(connection, row["id"])
    with pytest.raises(sa.exc.IntegrityError):
        async with db.write() as connection:
            await registries.delete(connection, registry["uuid"])


async def test_abandoned_volumes_are_found_by_their_name(db: Database) -> None:
    made, kept = str(uuid4()), str(uuid4())
    async with db.write() as connection:
        await local_volumes.insert(connection, made, f"zun-{uuid4()}-12345678", PROJECT, 1, NOW)
        await local_volumes.insert(connection, kept, "zun-of-mine", PROJECT, None, NOW)
        assert await local_volumes.abandoned(connection, NOW + MINUTE) == [made]
        assert await local_volumes.abandoned(connection, NOW) == []


@pytest.mark.parametrize("driver", ["local", "cinder"])
async def test_a_volume_is_its_rows_or_the_sweeps(db: Database, driver: str) -> None:
    mine, swept = (
        VolumeMapping(f"m{number}", "c1", PROJECT, "u", "volume", driver, "/data", f"volume-{number}")
        for number in "12"
    )
    await put(db, container(uuid="c1"))
    async with db.write() as connection:
        for mapping in (mine, swept):
            if driver == "local":
                await local_volumes.insert(connection, str(mapping.volume_id), "v", PROJECT, 1, NOW)
            else:
                await cinder_volumes.insert(connection, mapping.uuid, "v", NOW)
                await cinder_volumes.made(connection, mapping.uuid, str(mapping.volume_id))
    async with db.write() as connection:
        assert await made_volumes.take(connection, mine)
        await volume_mappings.insert(connection, mine)
    async with db.write() as connection:
        assert not await made_volumes.give_up(connection, driver, str(mine.volume_id))
        assert await made_volumes.give_up(connection, driver, str(swept.volume_id))
        assert await made_volumes.give_up(connection, driver, "nobody's")
    async with db.write() as connection:
        assert not await made_volumes.take(connection, swept)
        assert await made_volumes.take(connection, mine)


async def test_of_a_row_and_a_sweep_at_the_same_time_one_has_the_volume(db: Database) -> None:
    await put(db, container(uuid="c1"))
    for number in range(6):
        volume = f"volume-{number}"
        mapping = VolumeMapping(f"m{number}", "c1", PROJECT, "u", "volume", "local", "/data", volume)
        async with db.write() as connection:
            await local_volumes.insert(connection, volume, "v", PROJECT, 1, NOW)

        async def records(mapping: VolumeMapping = mapping) -> bool:
            async def work(connection: AsyncConnection) -> bool:
                taken = await made_volumes.take(connection, mapping)
                if taken:
                    await volume_mappings.insert(connection, mapping)
                return taken

            return await db.run(work)

        async def sweeps(volume: str = volume) -> bool:
            return await db.run(lambda connection: made_volumes.give_up(connection, "local", volume))

        taken, given_up = await asyncio.gather(records(), sweeps())
        assert taken != given_up


async def test_a_volume_that_is_kept_is_not_abandoned(db: Database) -> None:
    mapping = VolumeMapping(
        uuid=str(uuid4()), container_uuid=str(uuid4()), project_id=PROJECT, user_id="u", kind="volume", driver="local",
        destination="data", volume_id=str(uuid4()),
    )  # fmt: skip
    volume_id = str(mapping.volume_id)
    async with db.write() as connection:
        await local_volumes.insert(connection, volume_id, container_volume_name(mapping), PROJECT, 1, NOW)
        await cinder_volumes.insert(connection, "note", container_volume_name(mapping), NOW)
        await cinder_volumes.made(connection, "note", volume_id)
        assert len(await local_volumes.abandoned(connection, NOW + MINUTE)) == 1
        assert len(await cinder_volumes.abandoned(connection, NOW + MINUTE)) == 1
        await volume_mappings.keep_volume(connection, mapping, "data")
        assert not await local_volumes.abandoned(connection, NOW + MINUTE)
        assert not await cinder_volumes.abandoned(connection, NOW + MINUTE)
        assert [row["uuid"] for row in await local_volumes.named(connection, PROJECT, "data")] == [volume_id]
