"""A host that is lost and returns: what was deleted meanwhile goes first, and nothing is given back twice (S3.2)."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from tests.support.wait import eventually
from zun.compute import homecoming
from zun.domain.errors import EngineError, EngineUnreachable
from zun.store.tables import containers, local_allocations, operations, quota_usages


async def lost(cloud: SimulatedCloud, *, down: bool = True) -> None:
    """The agent is gone, and the administrator says so."""
    if down:
        await cloud.die()
    body = {"host": "sim", "binary": "zun-compute", "forced_down": down}
    assert (await cloud.http.put("/v1/services/force_down", json=body)).status_code == 200


async def back(cloud: SimulatedCloud) -> None:
    await cloud.live()
    await lost(cloud, down=False)


async def deleted(cloud: SimulatedCloud, uuid: str, **query: str) -> None:
    answer = await cloud.http.delete(f"/v1/containers/{uuid}", params=query)
    assert answer.status_code == 204, answer.text


async def engine(cloud: SimulatedCloud) -> set[str]:
    return {item.uuid for item in await cloud.runtime.list()}


async def counted(cloud: SimulatedCloud) -> int:
    return sum(row[0] for row in await cloud.rows(sa.select(quota_usages.c.containers)))


@pytest.mark.parametrize("query", [{"stop": "true"}, {"force": "true"}])
async def test_deleted_while_the_host_was_away(tmp_path: Path, query: dict[str, str]) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        uuid, kept = await cloud.create(), await cloud.create()
        for each in (uuid, kept):
            await cloud.wait(each, "Running")
        await lost(cloud)
        await deleted(cloud, uuid, **query)
        assert (await cloud.status(uuid) == "gone") == ("force" in query)
        assert await counted(cloud) == 1
        held = {row[0] for row in await cloud.rows(sa.select(local_allocations.c.consumer).distinct())}
        assert held == {kept}
        assert await engine(cloud) == {uuid, kept}
        await back(cloud)
        await cloud.wait(uuid, "gone")
        await eventually(lambda: _only(cloud, kept), 60, "the engine has what is left")
        assert await counted(cloud) == 1
        await cloud.truth()


async def _only(cloud: SimulatedCloud, uuid: str) -> bool:
    return await engine(cloud) == {uuid}


async def test_the_engine_is_forced_where_the_quota_is_free_already(tmp_path: Path) -> None:
    """The record said Stopped; on the lost host the container was started behind our back."""
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create()
        await cloud.wait(uuid, "Running")
        await cloud.http.post(f"/v1/containers/{uuid}/stop")
        await cloud.wait(uuid, "Stopped")
        await lost(cloud)
        await cloud.runtime.start(uuid)
        await deleted(cloud, uuid)
        cloud.runtime.fail_next("remove", EngineUnreachable("away"))
        cloud.runtime.fail_next("remove", EngineError("odd"))
        await back(cloud)
        await cloud.wait(uuid, "gone")
        await eventually(lambda: _nothing(cloud), 30, "the engine has nothing")
        assert await counted(cloud) == 0
        await cloud.truth()


async def _nothing(cloud: SimulatedCloud) -> bool:
    return not await engine(cloud)


async def test_removals_come_before_the_host_is_up(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create()
        await cloud.wait(uuid, "Running")
        await lost(cloud)
        await deleted(cloud, uuid, force="true")
        await lost(cloud, down=False)  # up again as soon as it says so itself
        cloud.runtime.faults.hang("remove")
        starting = asyncio.create_task(cloud.live())
        await eventually(lambda: cloud.runtime.faults.calls["remove"] > 0, 30, "it removes")
        assert await engine(cloud) == {uuid}
        assert not starting.done()
        cloud.runtime.faults.resume("remove")
        await starting
        assert await engine(cloud) == set()


async def test_what_takes_too_long_does_not_keep_the_host_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(homecoming, "LONGEST", 0.2)
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create()
        await cloud.wait(uuid, "Running")
        await lost(cloud)
        await deleted(cloud, uuid, force="true")
        cloud.runtime.faults.hang("remove")
        await back(cloud)
        other = await cloud.create()
        await cloud.wait(other, "Running")
        cloud.runtime.faults.resume("remove")
        await eventually(lambda: _only(cloud, other), 60, "removed beside the rest")
        await cloud.truth()


async def test_a_container_without_a_record_goes_at_once(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path, compute__orphan_grace_seconds=600) as cloud:
        uuid = await cloud.create()
        await cloud.wait(uuid, "Running")
        await cloud.die()
        async with cloud.api.parts.db.write() as connection:
            await connection.execute(operations.delete())
            await connection.execute(containers.delete())
        await cloud.live()
        assert await engine(cloud) == set()
        assert await cloud.rows(sa.select(local_allocations)) == []


async def test_what_moved_to_another_host_goes_and_keeps_what_it_has_there(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create()
        await cloud.wait(uuid, "Running")
        await cloud.die()
        held = await cloud.rows(sa.select(local_allocations))
        async with cloud.api.parts.db.write() as connection:
            await connection.execute(containers.update().values(host="other"))
        await cloud.live()
        assert await engine(cloud) == set()
        assert await cloud.rows(sa.select(local_allocations)) == held
        assert [row.host for row in await cloud.rows(sa.select(containers.c.host))] == ["other"]
        async with cloud.api.parts.db.write() as connection:
            await connection.execute(containers.delete())


async def test_what_is_foreign_to_the_deployment_stays(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create()
        await cloud.wait(uuid, "Running")
        await cloud.die()
        sim = cloud.runtime._containers[uuid]
        cloud.runtime._containers[uuid] = dataclasses.replace(sim, spec=dataclasses.replace(sim.spec, owner="else/sim"))
        async with cloud.api.parts.db.write() as connection:
            await connection.execute(operations.delete())
            await connection.execute(containers.delete())
        await cloud.live()
        assert await engine(cloud) == {uuid}
