"""What ``zun.store`` promises, on SQLite, MariaDB and PostgreSQL alike."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from zun.domain.container import Container, VolumeMapping
from zun.domain.errors import OverQuota
from zun.domain.operation import Operation, State
from zun.store import (
    compute_nodes,
    containers,
    leases,
    local_identity,
    local_volumes,
    operations,
    quotas,
    registries,
    services,
    settings,
    volume_mappings,
)
from zun.store.containers import Page
from zun.store.database import Database
from zun.store.tables import quota_usages

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901)
MINUTE = timedelta(minutes=1)
PROJECT = "blue"


def container(name: str = "one", **fields: Any) -> Container:
    values = {
        "project_id": PROJECT,
        "user_id": "ada",
        "image": "busybox",
        "image_driver": "docker",
        "status": "Running",
    }
    return Container(**{"uuid": str(uuid4()), "name": name, "created_at": NOW, **values, **fields})


async def put(db: Database, *rows: Container) -> None:
    async with db.write() as connection:
        for row in rows:
            await containers.insert(connection, row)


async def names(db: Database, **wanted: Any) -> list[str]:
    async with db.read() as connection:
        return [row["name"] for row in await containers.page(connection, Page(**{"limit": 100, **wanted}))]


# -- containers ------------------------------------------------------------------------------------


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


# -- operations ------------------------------------------------------------------------------------


async def queued(db: Database, uuid: str = "c1", host: str = "h", **fields: Any) -> int:
    values = {"kind": "start", "request_id": "r", "user_id": "u", "project_id": PROJECT, "params": {"a": [1]}}
    async with db.write() as connection:
        return await operations.insert(
            connection,
            **{"container_uuid": uuid, "host": host, "now": NOW, "deadline": NOW + MINUTE, **values, **fields},
        )


async def claimed(db: Database, number: int, worker: str, now: datetime = NOW) -> Operation | None:
    async with db.write() as connection:
        return await operations.claim(connection, number, worker=worker, now=now, lease=MINUTE)


async def test_an_operation_is_leased_to_one_worker(db: Database) -> None:
    number = await queued(db)
    assert number > 0
    won = [one for one in await asyncio.gather(*(claimed(db, number, f"w{n}") for n in range(12))) if one]
    assert len(won) == 1
    assert (won[0].id, won[0].attempt, won[0].params, won[0].lease_until) == (number, 1, {"a": [1]}, NOW + MINUTE)
    worker = str(won[0].worker)
    again = await claimed(db, number, worker)
    assert again is not None
    assert again.attempt == 2
    assert await claimed(db, number, "other") is None
    assert await claimed(db, number, "other", NOW + MINUTE) is None, "until the lease's end, to the microsecond"
    taken = await claimed(db, number, "other", NOW + MINUTE + timedelta(microseconds=1))
    assert taken is not None
    async with db.write() as connection:
        await operations.renew(connection, worker, [number], NOW + 9 * MINUTE)  # it is another's by now
        assert not await operations.finish(connection, number, worker=worker, now=NOW, error=False)
        assert await operations.finish(connection, number, worker="other", now=NOW, error=False)
        assert not await operations.finish(connection, number, worker=None, now=NOW, error=True)
        ended = await operations.get(connection, number)
    assert ended is not None
    assert (ended.state, ended.worker, ended.lease_until, ended.finish_time) == (State.SUCCEEDED, None, None, NOW)


async def test_a_renewed_lease_holds_and_a_postponed_one_waits(db: Database) -> None:
    first, second = await queued(db), await queued(db, "c2")
    assert await claimed(db, first, "w")
    assert await claimed(db, second, "w")
    async with db.write() as connection:
        await operations.renew(connection, "w", [first], NOW + 5 * MINUTE)
        assert await operations.postpone(connection, second, worker="w", until=NOW + MINUTE)
        assert not await operations.postpone(connection, second, worker="w", until=NOW)
    assert await claimed(db, first, "x", NOW + 2 * MINUTE) is None
    assert await claimed(db, second, "x") is None
    assert await claimed(db, second, "x", NOW + MINUTE) is not None


async def test_a_new_agent_disowns_the_former(db: Database) -> None:
    mine, other = await queued(db), await queued(db, host="i")
    assert await claimed(db, mine, "old")
    assert await claimed(db, other, "old")
    async with db.write() as connection:
        await operations.disown(connection, "h", "new")
        assert [one.id for one in await operations.next_of_host(connection, "h")] == [mine]
    assert await claimed(db, mine, "new") is not None
    assert await claimed(db, other, "new") is None


async def test_overdue_and_cancelled_operations(db: Database) -> None:
    late = await queued(db, deadline=NOW - 2 * MINUTE)
    later = await queued(db, deadline=NOW - MINUTE)
    good = await queued(db)
    async with db.write() as connection:
        assert [one.id for one in await operations.overdue(connection, NOW)] == [late, later]
        assert await operations.extend(connection, late, NOW + MINUTE)
        assert [one.id for one in await operations.overdue(connection, NOW)] == [later]
        await operations.cancel_unfinished(connection, "c1", NOW, before=good)
        assert [one.id for one in await operations.unfinished_of_container(connection, "c1")] == [good]
        assert not await operations.extend(connection, late, NOW)


async def test_events_and_pruning(db: Database) -> None:
    number = await queued(db)
    alive = container()
    await put(db, alive)
    kept = await queued(db, alive.uuid)
    async with db.write() as connection:
        event = await operations.start_event(connection, number, "pull", NOW)
        await operations.set_progress(connection, event, {"done": 1})
        await operations.finish_event(connection, event, NOW, "t" * 70_000, {"done": 2})
        await operations.add_event(connection, number, "start", started=NOW, finished=NOW, error=None)
        steps = await operations.events(connection, number)
        assert [(s["event"], s["result"], s["progress"]) for s in steps] == [
            ("start", "Success", None),
            ("pull", "Error", {"done": 2}),
        ]
        for one in (number, kept):
            assert await operations.finish(connection, one, worker=None, now=NOW, error=False)
        assert [a["id"] for a in await operations.actions(connection, "c1")] == [number]
        assert await operations.prune(connection, NOW) == 0
        assert await operations.prune(connection, NOW + MINUTE) == 1
        assert await operations.get(connection, number) is None
        assert await operations.events(connection, number) == []
        assert await operations.get(connection, kept) is not None


# -- quotas, leases, settings, services ------------------------------------------------------------


async def test_fifty_writers_at_once_never_pass_a_limit(db: Database) -> None:
    limits = {"containers": 17, "cpu": 100, "memory": -1, "disk": -1}
    amounts = quotas.deltas(containers=1, cpu=0.5, memory=10)

    async def reserve() -> bool:
        try:
            await db.run(lambda connection: quotas.reserve(connection, PROJECT, amounts, limits))
        except OverQuota as error:
            return error.message != "Quota exceeded for resources: ['containers']"
        return True

    assert sum(await asyncio.gather(*(reserve() for _ in range(50)))) == 17
    async with db.read() as connection:
        assert await quotas.usage(connection, PROJECT) == {"containers": 17, "memory": 170, "disk": 0, "cpu": 8500}

    async def give_back() -> None:
        await db.run(lambda connection: quotas.give_back(connection, PROJECT, amounts))

    await asyncio.gather(*(give_back() for _ in range(20)))
    async with db.read() as connection:
        assert set((await quotas.usage(connection, PROJECT)).values()) == {0}
        assert (await connection.execute(sa.select(sa.func.count()).select_from(quota_usages))).scalar_one() == 1


async def test_limits_of_project_class_and_default(db: Database) -> None:
    defaults = {"containers": 1, "memory": 2, "disk": 3, "cpu": 4}

    async def put_limit(value: int) -> None:
        await db.run(lambda connection: quotas.set_limits(connection, PROJECT, {"cpu": value}))

    await asyncio.gather(*(put_limit(value) for value in range(10, 20)))
    async with db.write() as connection:
        await quotas.set_class_limits(connection, "default", {"disk": 9, "cpu": 99})
        found = await quotas.limits(connection, PROJECT, defaults)
        assert found.pop("cpu") in range(10, 20)
        assert found == {"containers": 1, "memory": 2, "disk": 9}
        await quotas.delete_limits(connection, PROJECT)
        assert (await quotas.limits(connection, PROJECT, defaults))["cpu"] == 99


async def test_a_lease_has_one_owner(db: Database) -> None:
    async def acquire(owner: str, now: datetime = NOW) -> bool:
        async with db.write() as connection:
            return await leases.acquire(connection, "reaper", owner, now, MINUTE)

    owners = [f"o{n}" for n in range(12)]
    won = [owner for owner, got in zip(owners, await asyncio.gather(*map(acquire, owners)), strict=True) if got]
    assert len(won) == 1
    assert await acquire(won[0], NOW + MINUTE / 2)
    assert not await acquire("late", NOW + MINUTE)
    after = NOW + 2 * MINUTE
    assert sum(await asyncio.gather(*(acquire(f"p{n}", after) for n in range(12)))) == 1
    async with db.write() as connection:
        await leases.release(connection, "reaper", "nobody")
    assert not await acquire("late", after)


async def test_settings_are_one_for_all(db: Database) -> None:
    values = await asyncio.gather(*(settings.once(db, "name", f"v{n}") for n in range(10)))
    assert len(set(values)) == 1

    async def put_value(value: str) -> None:
        await db.run(lambda connection: settings.put(connection, "lock", value))

    await asyncio.gather(*(put_value(str(n)) for n in range(20)))
    async with db.read() as connection:
        assert await settings.get(connection, "lock") in {str(n) for n in range(20)}


async def test_services_and_nodes(db: Database) -> None:
    async def register(instance: str) -> None:
        async with db.write() as connection:
            await services.register(
                connection, host="h", binary="zun-compute", availability_zone=None, instance=instance, now=NOW
            )

    await asyncio.gather(register("a"), register("b"))
    node = {"hostname": "h", "mem_total": 1, "mem_used": 0, "cpus": 2, "cpu_used": 0.1, "disk_total": 3, "disk_used": 0}
    node |= {"disk_quota_supported": True, "total_containers": 0, "enable_cpu_pinning": False, "labels": {}}

    async def upsert() -> str:
        async with db.write() as connection:
            return await compute_nodes.upsert(connection, node, NOW)

    assert len(set(await asyncio.gather(upsert(), upsert()))) == 1
    async with db.write() as connection:
        found = await services.get(connection, "h", "zun-compute")
        assert found is not None
        assert await services.heartbeat(connection, "h", "zun-compute", found["instance"], NOW + MINUTE)
        assert not await services.heartbeat(connection, "h", "zun-compute", "c", NOW)
        assert await services.zones(connection, "nova") == ["nova"]
        assert await services.change(connection, "h", "zun-compute", {"disabled": True}, NOW)
        (row,) = await services.list_all(connection)
        assert (row["disabled"], row["forced_down"], row["report_count"], row["last_seen_up"]) == (
            True,
            False,
            1,
            NOW + MINUTE,
        )
        (shown,) = await compute_nodes.page(connection, limit=5, sort_key="cpu_used", descending=True, marker=None)
        assert (shown["cpu_used"], shown["disk_quota_supported"]) == (0.1, True)


async def test_tokens(db: Database) -> None:
    token = local_identity.Token("t1", "a" * 64, PROJECT, "Blue", "u", "ada", "admin", NOW, NOW + MINUTE)
    async with db.write() as connection:
        await local_identity.insert_token(connection, token)
        assert await local_identity.token_by_hash(connection, "A" * 64) is None
        assert await local_identity.token_by_hash(connection, "a" * 64) == token
        assert await local_identity.revoke(connection, "t1", NOW)
        assert not await local_identity.revoke(connection, "t1", NOW)
        (kept,) = await local_identity.tokens(connection)
        assert kept.revoked_at == NOW
        blue = local_identity.Project("p1", "Blue", NOW)
        assert await local_identity.insert_project(connection, blue)
        assert not await local_identity.insert_project(connection, local_identity.Project("p2", "Blue", NOW))
        assert await local_identity.insert_project(connection, local_identity.Project("p3", "blue", NOW))
        assert await local_identity.project_by_name(connection, "Blue") == blue
        assert {one.id for one in await local_identity.projects(connection)} == {"p1", "p3"}
