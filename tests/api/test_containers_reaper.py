"""The reaper: nothing is stuck for ever (S1.26), on a clock the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.containers import Plane, make_plane
from tests.support.wait import eventually
from zun.control import containers_create, containers_delete, reaper
from zun.domain.errors import VolumeInUse
from zun.store import operations, tables

URL = "/v1/containers"


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    async with make_plane(tmp_path) as made:
        await made.add_host()
        yield made


async def reap(plane: Plane, owner: str = "me") -> str:
    return await reaper.reap_once(plane.api.control, owner)


async def test_nothing_overdue_is_left_alone(plane: Plane) -> None:
    uuid = (await plane.create(plane.client(), None))["uuid"]
    plane.clock.ahead = timedelta(seconds=1790)
    assert (await reap(plane)).startswith("Ended 0 operations")
    assert [one.kind for one in await plane.operations(uuid)] == ["create"]


async def test_create_that_never_ends_is_error_and_gives_everything_back(plane: Plane) -> None:
    """S1.26: the reason says where it stood, the host gets a hidden release."""
    client = plane.client()
    uuid = (await plane.create(client, None))["uuid"]
    (create,) = await plane.operations(uuid)
    async with plane.db.write() as connection:
        await operations.add_event(
            connection, create.id, "ports", started=plane.clock.now(), finished=plane.clock.now(), error=None
        )
        await operations.start_event(connection, create.id, "image", plane.clock.now())
    plane.bus.rings.clear()
    plane.clock.ahead = timedelta(seconds=1801)
    assert (await reap(plane)).startswith("Ended 1 operations")
    shown = (await client.get(f"{URL}/{uuid}")).json()
    assert (shown["status"], shown["task_state"]) == ("Error", None)
    assert shown["status_reason"] == (
        "Container failed to create correctly: no progress within 1800 seconds (step image)"
    )
    (left,) = await plane.operations(uuid)
    assert (left.kind, left.host, left.request_id) == ("release", "node1", create.request_id)
    assert plane.bus.rings == ["node1"]
    (action,) = (await client.get(f"{URL}/{uuid}/container_actions")).json()["containerActions"]
    assert (action["action"], action["message"]) == ("create", "Error")
    assert (await reap(plane)).startswith("Ended 0 operations")


async def test_reboot_that_never_ends_is_error_but_keeps_its_container(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    await client.post(f"{URL}/{uuid}/reboot")
    plane.clock.ahead = timedelta(seconds=601)
    await reap(plane)
    shown = (await client.get(f"{URL}/{uuid}")).json()
    assert (shown["status"], shown["task_state"]) == ("Error", None)
    assert shown["status_reason"].startswith("The reboot did not finish within 600 seconds")
    assert await plane.operations(uuid) == []


async def test_stop_that_never_ends_does_not_lie_about_the_status(plane: Plane) -> None:
    """Rule 4: what runs is what the engine says."""
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    await client.post(f"{URL}/{uuid}/stop")
    plane.clock.ahead = timedelta(seconds=601)
    await reap(plane)
    shown = (await client.get(f"{URL}/{uuid}")).json()
    assert (shown["status"], shown["task_state"]) == ("Running", None)
    assert "did not finish" in shown["status_reason"]


async def test_deletes_get_more_time_and_never_end(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client(), "Stopped"))["uuid"]
    await client.delete(f"{URL}/{uuid}")
    for hours in (1, 2, 3):
        plane.clock.ahead = timedelta(hours=hours)
        assert "gave 1 more time" in await reap(plane)
    (left,) = await plane.operations(uuid)
    assert left.kind == "delete"
    assert left.deadline > plane.clock.now()


async def test_one_process_reaps_at_a_time(plane: Plane) -> None:
    await plane.create(plane.client(), None)
    plane.clock.ahead = timedelta(seconds=1801)
    sentences = [await reap(plane, "a"), await reap(plane, "b")]
    assert sentences[1] == "Another process reaps."
    plane.clock.ahead += timedelta(seconds=120)
    assert (await reap(plane, "b")).startswith("Ended 0")


async def test_an_operation_that_ends_meanwhile_stays_as_it_ended(plane: Plane) -> None:
    uuid = (await plane.create(plane.client(), None))["uuid"]
    (create,) = await plane.operations(uuid)
    plane.clock.ahead = timedelta(seconds=1801)
    await plane.settle(uuid)
    assert await reaper._end(plane.api.control, create) is False
    row = await plane.row(uuid)
    assert row is not None
    assert row.status == "Running"


async def test_actions_of_containers_long_gone_are_forgotten_hourly(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client(), "Error"))["uuid"]
    kept = (await plane.create(plane.client()))["uuid"]
    await plane.set_row(uuid, host=None)
    await client.delete(f"{URL}/{uuid}")
    await reap(plane)
    plane.clock.ahead = timedelta(days=31)
    assert "forgot 2 old actions" in await reap(plane)
    assert await plane.count(tables.operations) == 1
    assert (await client.get(f"{URL}/{kept}/container_actions")).json()["containerActions"]


async def test_run_reaps_until_told_to_stop(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client(), None))["uuid"]
    plane.clock.ahead = timedelta(seconds=1801)
    stop = asyncio.Event()
    task = asyncio.create_task(reaper.run(plane.api.control, stop))

    async def status() -> str:
        shown: str = (await client.get(f"{URL}/{uuid}")).json()["status"]
        return shown if shown == "Error" else ""

    reached: str = await eventually(status, 60, "the reaper ends the create")
    assert reached == "Error"
    stop.set()
    await asyncio.wait_for(task, 60)


async def test_what_a_later_operation_announced_is_not_overwritten(plane: Plane) -> None:
    """A stop that never ends, a delete behind it: the row goes on saying Deleting."""
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    assert (await client.post(f"{URL}/{uuid}/stop")).status_code == 202
    plane.clock.ahead = timedelta(seconds=60)
    assert (await client.delete(f"{URL}/{uuid}", params={"stop": "true"})).status_code == 204
    plane.clock.ahead = timedelta(seconds=601)
    assert (await reap(plane)).startswith("Ended 1 operations")
    shown = (await client.get(f"{URL}/{uuid}")).json()
    assert (shown["status"], shown["task_state"]) == ("Deleting", "container_deleting")


async def test_a_delete_from_here_outlives_its_process(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3.3: killed between announcing and removing, the row must not say Deleting for ever."""
    client = plane.client()
    await plane.host_down()
    uuid = (await plane.create(client, None))["uuid"]
    release, begun, go_on = containers_delete.release_from_here, asyncio.Event(), asyncio.Event()

    async def stopped_once(*given: Any) -> None:
        if not begun.is_set():
            begun.set()
            await go_on.wait()
        await release(*given)

    monkeypatch.setattr(containers_delete, "release_from_here", stopped_once)
    request = asyncio.create_task(client.delete(f"{URL}/{uuid}"))
    await begun.wait()
    assert (await client.get(f"{URL}/{uuid}")).json()["status"] == "Deleting"
    assert (await client.delete(f"{URL}/{uuid}")).status_code == 204, "parallel deletes never fail"
    plane.clock.ahead = timedelta(seconds=61)
    assert (await reap(plane)).startswith("Ended 1 operations")
    assert (await client.get(f"{URL}/{uuid}")).status_code == 404
    assert await plane.usage() == {"containers": 0, "cpu": 0, "memory": 0, "disk": 0}
    go_on.set()
    assert (await request).status_code == 204
    assert await plane.usage() == {"containers": 0, "cpu": 0, "memory": 0, "disk": 0}


async def test_a_busy_volume_of_a_dead_request_does_not_keep_old_actions(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def abandoned(before: Any) -> list[str]:
        return ["one", "two"]

    tried = []

    async def delete(volume_id: str) -> None:
        tried.append(volume_id)
        raise VolumeInUse("it is mounted")

    (driver,) = plane.api.control.volumes.values()
    monkeypatch.setattr(driver, "abandoned", abandoned)
    monkeypatch.setattr(driver, "delete", delete)
    await plane.create(plane.client(), "Stopped")
    async with plane.db.write() as connection:
        (old,) = list(await connection.execute(sa.select(tables.operations).limit(1)))
        row = {name: value for name, value in old._mapping.items() if name != "id"}
        row |= {"state": "succeeded", "finish_time": plane.clock.now(), "container_uuid": "gone long ago"}
        await connection.execute(tables.operations.insert(), [row] * 2500)
    plane.clock.ahead = timedelta(days=40)
    await reap(plane)
    assert tried == ["one", "two"]
    async with plane.db.read() as connection:
        left = (await connection.execute(sa.select(sa.func.count()).select_from(tables.operations))).scalar_one()
    assert left < 10


async def test_a_create_whose_volume_was_swept_meanwhile_is_refused_and_leaves_nothing(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood for so long between the volume and its row; no mount may name what is gone."""
    place = containers_create.place

    async def slow(*arguments: Any) -> Any:
        selection = await place(*arguments)
        plane.clock.ahead = timedelta(days=1)
        assert "swept 1 volumes" in await reap(plane)
        return selection

    monkeypatch.setattr(containers_create, "place", slow)
    body = {"image": "cirros", "mounts": [{"size": "1", "destination": "/d"}]}
    refused = await plane.client().post(URL, json=body)
    assert refused.status_code == 503, refused.text
    assert "was given up. Try again." in refused.text
    for table in (tables.containers, tables.volume_mappings, tables.local_volumes, tables.local_allocations):
        assert await plane.count(table) == 0
    assert (await plane.usage()) == {"containers": 0, "cpu": 0, "memory": 0, "disk": 0}


async def test_a_lease_taken_before_the_clock_was_set_back_does_not_stop_the_reaper(plane: Plane) -> None:
    plane.clock.ahead = timedelta(hours=3)
    await reap(plane, "died since")
    plane.clock.ahead = timedelta()
    assert (await reap(plane, "me")).startswith("Ended 0 operations")
    assert await reap(plane, "you") == "Another process reaps."
