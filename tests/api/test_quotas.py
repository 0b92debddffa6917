"""Stories of quotas, and reserving under contention."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.api import Api, fault, make_api
from zun.domain.errors import OverQuota
from zun.store import quotas

DEFAULTS = {"containers": 40, "memory": 51200, "disk": 100, "cpu": 20}
UNLIMITED = dict.fromkeys(quotas.RESOURCES, -1)


async def test_limits_of_the_project(api: Api, member: httpx.AsyncClient, admin: httpx.AsyncClient) -> None:
    assert (await member.get("/v1/quotas/proj1")).json() == DEFAULTS
    assert (await member.get("/v1/quotas/proj1/defaults")).json() == DEFAULTS
    answer = await admin.put("/v1/quotas/proj1", json={"containers": 1, "cpu": "7"})
    assert answer.json() == {**DEFAULTS, "containers": 1, "cpu": 7}
    answer = await admin.put("/v1/quotas/proj1?memory=-1&containers=2")
    assert answer.json() == {**DEFAULTS, "containers": 2, "cpu": 7, "memory": -1}
    assert (await admin.put("/v1/quotas/proj1")).json()["containers"] == 2
    assert (await member.get("/v1/quotas/proj1")).json()["containers"] == 2
    assert (await api.client(project_id="proj2").get("/v1/quotas/proj2")).json() == DEFAULTS
    gone = await admin.delete("/v1/quotas/proj1")
    assert (gone.status_code, gone.json()) == (200, None)
    assert (await member.get("/v1/quotas/proj1")).json() == DEFAULTS


async def test_who_may(api: Api, member: httpx.AsyncClient, admin: httpx.AsyncClient) -> None:
    for answer, rule in (
        (await member.get("/v1/quotas/proj2"), "quota:get"),
        (await member.get("/v1/quotas/proj2/defaults"), "quota:get_default"),
        (await member.put("/v1/quotas/proj1", json={"cpu": 1}), "quota:update"),
        (await member.delete("/v1/quotas/proj1"), "quota:delete"),
        (await member.get("/v1/quota_classes/default"), "quota_class:get"),
        (await member.put("/v1/quota_classes/default", json={"cpu": 1}), "quota_class:update"),
    ):
        assert fault(answer)["title"] == f"Policy doesn't allow {rule} to be performed."
        assert answer.status_code == 403
    assert (await admin.get("/v1/quotas/any")).status_code == 200
    assert (await member.get("/v1/quotas")).status_code == 404
    assert (await admin.delete("/v1/quota_classes/default")).status_code == 405


async def test_class_default_reaches_projects(member: httpx.AsyncClient, admin: httpx.AsyncClient) -> None:
    assert (await admin.get("/v1/quota_classes/any")).json() == DEFAULTS
    answer = await admin.put("/v1/quota_classes/default", json={"disk": 5, "cpu": 3})
    assert answer.json() == {**DEFAULTS, "disk": 5, "cpu": 3}
    await admin.put("/v1/quotas/proj1", json={"cpu": 9})
    assert (await member.get("/v1/quotas/proj1")).json() == {**DEFAULTS, "disk": 5, "cpu": 9}
    assert (await member.get("/v1/quotas/proj1/defaults")).json() == {**DEFAULTS, "disk": 5, "cpu": 3}
    assert (await admin.get("/v1/quota_classes/other")).json() == DEFAULTS


async def test_usages(api: Api, member: httpx.AsyncClient) -> None:
    taken = quotas.deltas(containers=2, cpu=1.5, memory=768, disk=5)
    async with api.control.db.write() as connection:
        await quotas.reserve(connection, "proj1", taken, UNLIMITED)
    expected = {
        "containers": {"limit": 40, "in_use": 2},
        "memory": {"limit": 51200, "in_use": 768},
        "disk": {"limit": 100, "in_use": 5},
        "cpu": {"limit": 20, "in_use": 1.5},
    }
    for value in ("True", "False"):
        assert (await member.get(f"/v1/quotas/proj1?usages={value}")).json() == expected
    assert (await member.get("/v1/quotas/proj1?usages=")).json() == DEFAULTS
    assert (await member.get("/v1/quotas/proj1?bogus=1")).status_code == 400


async def test_wrong_limits(admin: httpx.AsyncClient) -> None:
    bodies: list[dict[str, Any]] = [
        {"cpu": -2},
        {"cpu": 1.5},
        {"cpu": "a"},
        {"cpu": True},
        {"bogus": 1},
        {"cpu": 2**31},
        {"cpu": []},
        {"cpu": "9" * 10000},
        {"cpu": "1\n"},
        {"cpu": "--1"},
    ]
    for body in bodies:
        for path in ("/v1/quotas/proj1", "/v1/quota_classes/default"):
            answer = await admin.put(path, json=body)
            assert (answer.status_code, fault(answer)["code"]) == (400, "container.schema-validation-error"), body
    answer = await admin.put(f"/v1/quotas/{'p' * 256}", json={"cpu": 1})
    assert fault(answer)["code"] == "container.invalid-quota-value"


async def test_reserving_names_all_that_is_exceeded(api: Api) -> None:
    limits = {"containers": 1, "cpu": 1, "memory": 512, "disk": -1}
    async with api.control.db.write() as connection:
        await quotas.reserve(connection, "p", quotas.deltas(containers=1, cpu=0.7, memory=500, disk=9), limits)
        with pytest.raises(OverQuota, match=r"^Quota exceeded for resources: \['cpu', 'memory'\]$"):
            await quotas.reserve(connection, "p", quotas.deltas(cpu=0.301, memory=13, disk=10**6), limits)
        with pytest.raises(OverQuota, match=r"\['containers'\]"):
            await quotas.reserve(connection, "p", quotas.deltas(containers=1), limits)
        await quotas.reserve(connection, "p", quotas.deltas(cpu=0.3, memory=12), limits)
        await quotas.reserve(connection, "p", quotas.deltas(cpu=-0.5, memory=-100), limits)
        assert await quotas.usage(connection, "p") == {"containers": 1, "cpu": 500, "memory": 412, "disk": 9}
        await quotas.give_back(connection, "p", quotas.deltas(containers=5, cpu=0.2, memory=412, disk=9))
        assert await quotas.usage(connection, "p") == {"containers": 0, "cpu": 300, "memory": 0, "disk": 0}
        await quotas.give_back(connection, "unknown", quotas.deltas(containers=1))


async def test_a_lower_limit_lets_shrink(api: Api) -> None:
    async with api.control.db.write() as connection:
        await quotas.reserve(connection, "p", quotas.deltas(containers=3, memory=900), UNLIMITED)
        low = {**UNLIMITED, "containers": 1, "memory": 100}
        await quotas.reserve(connection, "p", quotas.deltas(memory=-300), low)
        assert (await quotas.usage(connection, "p"))["memory"] == 600


async def test_the_last_place_is_taken_once(tmp_path: Path) -> None:
    async with make_api(tmp_path) as api:
        limits = {**UNLIMITED, "containers": 5}

        async def one() -> bool:
            try:
                async with api.control.db.write() as connection:
                    await quotas.reserve(connection, "p", quotas.deltas(containers=1), limits)
            except OverQuota:
                return False
            return True

        outcomes = await asyncio.gather(*(one() for _ in range(20)))
        assert sum(outcomes) == 5
