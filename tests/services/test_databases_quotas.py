"""The queries on quotas, leases, settings, services, nodes and tokens, on every database."""

from __future__ import annotations

import asyncio
from datetime import datetime

import sqlalchemy as sa

from tests.services.rows import MINUTE, NOW, PROJECT
from zun.domain.errors import OverQuota
from zun.store import (
    compute_nodes,
    leases,
    local_identity,
    quotas,
    services,
    settings,
)
from zun.store.database import Database
from zun.store.tables import quota_usages


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
