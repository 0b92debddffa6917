"""The whole product in this process, with its records on a database server: a life, a death, chance, and an outage."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.support.api import configure, fault
from tests.support.db_servers import Server
from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from tests.support.wait import eventually
from tests.unit.test_agent_truth import step
from zun import parts
from zun.conf import ConfigError

UNLIMITED = {"quota__containers": -1, "quota__cpu": -1}


async def test_the_life_of_a_container(tmp_path: Path, server_url: str) -> None:
    async with simulated_cloud(tmp_path, database__connection=server_url) as cloud:
        uuid = await cloud.create(name="one", labels={"a": "b"}, environment={"K": "v"})
        shown = await cloud.wait(uuid, "Running")
        assert (shown["name"], shown["labels"], shown["cpu"], shown["memory"]) == ("one", {"a": "b"}, 0.1, "16")
        for verb, status in (("pause", "Paused"), ("unpause", "Running"), ("stop", "Stopped"), ("start", "Running")):
            answer = await cloud.http.post(f"/v1/containers/{uuid}/{verb}")
            assert answer.status_code == 202, answer.text
            await cloud.wait(uuid, status)
        (listed,) = (await cloud.http.get("/v1/containers", params={"name": "one"})).json()["containers"]
        assert listed["created_at"].startswith(shown["created_at"][:19])
        assert await cloud.lies() == []
        actions = (await cloud.http.get(f"/v1/containers/{uuid}/container_actions")).json()["containerActions"]
        assert [one["action"] for one in actions] == ["start", "stop", "unpause", "pause", "create"]
        assert (await cloud.http.delete(f"/v1/containers/{uuid}", params={"stop": "true"})).status_code == 204
        await cloud.wait(uuid, "gone")
        assert await cloud.lies() == []


async def test_an_agent_that_dies_leaves_nothing_undone(tmp_path: Path, server_url: str) -> None:
    async with simulated_cloud(tmp_path, database__connection=server_url, **UNLIMITED) as cloud:
        uuids = [await cloud.create() for _ in range(6)]
        await cloud.die()
        uuids += [await cloud.create() for _ in range(2)]
        assert (await cloud.http.delete(f"/v1/containers/{uuids[0]}", params={"stop": "true"})).status_code in (
            204,
            409,
        )
        await cloud.live()
        for uuid in uuids:
            await cloud.wait(uuid, "Running", "gone")
        await cloud.truth()


@pytest.mark.parametrize("seed", range(2))
async def test_the_truth_holds_after_any_sequence(tmp_path: Path, server_url: str, seed: int) -> None:
    chance = random.Random(seed)
    async with simulated_cloud(tmp_path, database__connection=server_url, **UNLIMITED) as cloud:
        uuids: list[str] = []
        for _ in range(50):
            await step(cloud, chance, uuids)
        cloud.runtime.faults._planned.clear()
        await cloud.truth()


async def test_requests_side_by_side_are_all_served(tmp_path: Path, server_url: str) -> None:
    """Creates, forced deletes while operations end, power: no request is told that the database does not answer."""
    async with simulated_cloud(tmp_path, database__connection=server_url, **UNLIMITED) as cloud:
        uuids = await asyncio.gather(*(cloud.create() for _ in range(20)))

        async def bother(uuid: str) -> None:
            answer = await cloud.http.post(f"/v1/containers/{uuid}/kill")
            assert answer.status_code in (202, 409), answer.text
            answer = await cloud.http.delete(f"/v1/containers/{uuid}", params={"force": "true"})
            assert answer.status_code in (204, 409), answer.text

        await asyncio.gather(*(bother(uuid) for uuid in uuids))
        await cloud.truth()


async def test_a_database_without_tables_is_told(tmp_path: Path, server: Server) -> None:
    conf = configure(tmp_path, {"database.connection": server.create_database("empty")})
    with pytest.raises(ConfigError, match="none of Zun's tables; run: zun-db-manage upgrade"):
        async with parts.build(conf):
            pass


async def test_a_server_that_is_away_delays_and_loses_nothing(tmp_path: Path, server: Server, server_url: str) -> None:
    async with simulated_cloud(tmp_path, database__connection=server_url) as cloud:
        kept = await cloud.create(name="kept")
        await cloud.wait(kept, "Running")
        at_work = await cloud.create(name="at-work")
        await asyncio.to_thread(server.stop)
        try:
            await _refused(cloud, "GET", "/v1/containers")
            await _refused(cloud, "GET", f"/v1/containers/{kept}")
            await _refused(cloud, "POST", f"/v1/containers/{kept}/stop")
            await _refused(cloud, "POST", "/v1/containers", json={"image": "busybox", "cpu": 0.1, "memory": 16})
            cloud.runtime.crash(kept, 3)  # the agent sees it and has nowhere to write it
            assert cloud._task is not None
            assert not cloud._task.done(), "the agent goes on"
        finally:
            await asyncio.to_thread(server.start)
        await cloud.wait(at_work, "Running")
        shown = await cloud.wait(kept, "Stopped")
        assert "3" in shown["status_detail"]
        assert not cloud._task.done()
        later = await cloud.create(name="later")
        await cloud.wait(later, "Running")
        await cloud.truth()


async def _refused(cloud: SimulatedCloud, method: str, path: str, **options: object) -> None:
    error = fault(await cloud.http.request(method, path, **options))  # type: ignore[arg-type]
    assert (error["status"], error["title"]) == (503, "The database does not answer now. Try again later.")


async def test_a_server_that_comes_and_goes_while_much_is_done(tmp_path: Path, server: Server, server_url: str) -> None:
    async with simulated_cloud(tmp_path, database__connection=server_url, **UNLIMITED) as cloud:
        uuids: list[str] = []
        stop = asyncio.Event()

        async def users() -> None:
            while not stop.is_set():
                answer = await cloud.http.post(
                    "/v1/containers?run=true", json={"image": "busybox", "cpu": 0.1, "memory": 16}
                )
                assert answer.status_code in (202, 503), answer.text
                if answer.status_code == 202:
                    uuids.append(answer.json()["uuid"])
                await asyncio.sleep(0.02)

        asking = asyncio.create_task(users())
        for _ in range(2):
            before = len(uuids)

            def served(more: int = before + 3) -> bool:
                return len(uuids) > more

            await eventually(served, 60, "requests are served")
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
        stop.set()
        await asking
        for uuid in uuids:
            await cloud.wait(uuid, "Running")
        await cloud.truth()
