"""Choosing among many hosts: a few are looked at, all when none of these will do, and many at once are spread."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.api import Api, make_api
from tests.support.many_hosts import CPUS, name_of, report
from zun.store.tables import compute_nodes, containers, local_inventories, local_providers, services

URL = "/v1/containers"
BODY = {"image": "busybox", "cpu": 1, "memory": 16}
MANY = 1000
UNLIMITED = {"quota.containers": -1, "quota.cpu": -1, "quota.memory": -1}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with make_api(tmp_path, UNLIMITED) as made:
        yield made


async def _report(api: Api, count: int, **node: Any) -> None:
    await report(api.parts.db, api.control.clock.now(), range(count), node=node)


async def _write(api: Api, *statements: sa.Update) -> None:
    async with api.parts.db.write() as connection:
        for statement in statements:
            await connection.execute(statement)


async def _hosts(api: Api) -> Counter[str | None]:
    async with api.parts.db.read() as connection:
        return Counter((await connection.execute(sa.select(containers.c.host))).scalars())


async def _make(api: Api, **body: Any) -> dict[str, Any]:
    answer = await api.client(("admin",)).post(URL, json=BODY | body)
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


ONLY = name_of(MANY - 1)
OTHERS = services.c.host != ONLY


@pytest.mark.parametrize(
    "change",
    [
        services.update().where(OTHERS).values(disabled=True),
        services.update().where(OTHERS).values(forced_down=True),
        services.update().where(OTHERS).values(availability_zone="elsewhere"),
        compute_nodes.update().where(compute_nodes.c.hostname != ONLY).values(disk_pressure=True),
        local_inventories.update()
        .where(
            local_inventories.c.resource_class == "VCPU",
            local_inventories.c.provider_uuid.in_(
                sa.select(local_providers.c.uuid).where(local_providers.c.name != ONLY)
            ),
        )
        .values(used=CPUS),
    ],
    ids=["disabled", "down", "zone", "disk", "full"],
)
async def test_of_a_thousand_hosts_the_only_one_that_will_do_is_found(api: Api, change: sa.Update) -> None:
    await _report(api, MANY)
    await _write(api, change)
    made = await _make(api, availability_zone="nova")
    assert (made["host"], made["status"]) == (ONLY, "Creating")


async def test_where_no_host_will_do_all_are_told(api: Api) -> None:
    await _report(api, 100, disk_pressure=True)
    made = await _make(api)
    assert (made["status"], made["host"]) == ("Error", None)
    (action,) = (await api.admin.get(f"{URL}/{made['uuid']}/container_actions")).json()["containerActions"]
    path = f"{URL}/{made['uuid']}/container_actions/{action['request_id']}"
    (event,) = (await api.admin.get(path)).json()["events"]
    assert event["traceback"] == ("All 100 candidate hosts were rejected: DiskPressureFilter (DISK_PRESSURE): 100.")


@pytest.mark.parametrize(("count", "most"), [(3, 40), (10, 14), (200, 2)])
async def test_a_hundred_at_once_are_spread(api: Api, count: int, most: int) -> None:
    await _report(api, count)
    await asyncio.gather(*(_make(api) for _ in range(100)))
    hosts = await _hosts(api)
    assert hosts.total() == 100
    assert max(hosts.values()) <= most, hosts


async def test_one_after_the_other_fill_few_hosts_evenly(api: Api) -> None:
    """As many hosts as are looked at: the emptiest of all is taken each time."""
    await _report(api, 20)
    for _ in range(40):
        await _make(api)
    assert set((await _hosts(api)).values()) == {2}


async def test_every_host_is_chosen_sooner_or_later(tmp_path: Path) -> None:
    async with make_api(tmp_path, {**UNLIMITED, "scheduler.sample_size": 2}) as api:
        await _report(api, 12)
        for _ in range(400):
            await _make(api)
            hosts = await _hosts(api)
            if len(hosts) == 12:
                break
        assert len(hosts) == 12


async def test_the_last_places_of_a_full_cloud_are_given_to_all_who_ask_at_once(tmp_path: Path) -> None:
    async with make_api(tmp_path, {**UNLIMITED, "scheduler.sample_size": 4}) as api:
        await report(api.parts.db, api.control.clock.now(), range(20), used=CPUS - 1)
        made = await asyncio.gather(*(_make(api) for _ in range(22)))
        hosts = await _hosts(api)
        assert sorted(Counter(one["status"] for one in made).items()) == [("Creating", 20), ("Error", 2)]
        assert hosts == Counter({None: 2} | {name_of(number): 1 for number in range(20)})


async def test_without_a_sample_the_emptiest_of_all_is_taken(tmp_path: Path) -> None:
    async with make_api(tmp_path, {**UNLIMITED, "scheduler.sample_size": 0}) as api:
        await report(api.parts.db, api.control.clock.now(), range(100), used=2)
        await report(api.parts.db, api.control.clock.now(), range(100, 101), used=1)
        assert (await _make(api))["host"] == name_of(100)
