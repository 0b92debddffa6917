"""Images that a node removes when its disk fills up, and those that it never does, on the simulated engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from tests.support.wait import eventually
from zun.compute.image_care import ImageCare
from zun.compute.image_holds import ImageUses
from zun.domain.errors import EngineConflict
from zun.domain.node_image import DISK_PRESSURE, Marks, Needed, NodeImage, removable
from zun.store import node_images
from zun.store.database import DatabaseUnavailable
from zun.store.tables import node_images as table

NOW = datetime(2026, 1, 2, 3, 4, 5)
ON = {"compute__image_unused_seconds": 3600, "periodic_interval_max": 600}


def image(number: int, age: int = 0, name: str = "") -> NodeImage:
    used = NOW - timedelta(seconds=age)
    return NodeImage("h", "docker", name or f"team/app{number}:1", f"sha256:{number}", used, used)


# -- the choice ------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), max_size=20, unique_by=lambda one: one[0]),
    st.frozensets(st.integers(0, 9)),
    st.frozensets(st.integers(0, 9)),
    st.integers(0, 20),
)
def test_what_is_needed_or_was_used_is_never_chosen(
    aged: list[tuple[int, int]], ids: frozenset[int], names: frozenset[int], unused: int
) -> None:
    images = [image(number, age) for number, age in aged]
    needed = Needed({f"sha256:{n}" for n in ids}, {f"app{n}:1" for n in names})
    chosen = removable(images, needed, NOW - timedelta(seconds=unused))
    numbers = {int(one.image_id.partition(":")[2]) for one in chosen}
    assert numbers == {number for number, age in aged if age >= unused} - ids - names
    assert [one.used_at for one in chosen] == sorted(one.used_at for one in chosen)


def test_a_name_that_is_only_alike_needs_nothing() -> None:
    plain = image(1, name="registry.example.org/team/app:1")
    assert Needed((), ["team/app:1"]).covers(plain)
    assert Needed((), ["registry.example.org/team/app:1"]).covers(plain)
    assert not Needed((), ["eam/app:1", "team/app:2", "app"]).covers(plain)


@pytest.mark.parametrize(
    ("use", "begun", "wanting"),
    [(84.9, False, False), (85, False, True), (84.9, True, True), (75.1, True, True), (75, True, False)],
)
def test_it_begins_at_the_high_mark_and_ends_at_the_low_one(use: float, begun: bool, wanting: bool) -> None:
    assert Marks(85, 75).wanting(use, begun=begun) is wanting


async def test_who_needs_an_image_that_is_being_removed_waits_and_one_that_is_needed_stays() -> None:
    uses = ImageUses()
    async with uses.removing("app:1", "sha256:1") as may:
        assert may
        waiting = [asyncio.create_task(uses.need(name, name)) for name in ("app:1", "sha256:1")]
        await asyncio.sleep(0)  # they have begun
        assert not await uses.need("other", "other:1")
        assert not any(task.done() for task in waiting)
    assert await asyncio.gather(*waiting) == [True, True]
    uses.free("app:1")
    async with uses.removing("app:1", "sha256:1") as may:
        assert not may
    uses.free("sha256:1")
    async with uses.removing("app:1", "sha256:1") as may:
        assert may


# -- the node --------------------------------------------------------------------------------------


async def made(cloud: SimulatedCloud, *names: str, delete: bool = True) -> None:
    """A container of each image, pulled for it; deleted again."""
    for name in names:
        uuid = await cloud.create(image=name)
        await cloud.wait(uuid, "Running")
        if delete:
            await cloud.http.delete(f"/v1/containers/{uuid}", params={"stop": "true"})
            await cloud.wait(uuid, "gone")


async def ahead(cloud: SimulatedCloud, name: str) -> None:
    """An administrator has the image pulled to the host."""
    answer = await cloud.http.post("/v1/images", json={"repo": name, "host": "sim"})
    assert answer.status_code == 202, answer.text
    path = f"/v1/images/{answer.json()['uuid']}"

    async def there() -> bool:
        return bool((await cloud.http.get(path)).json()["image_id"])

    await eventually(there, 60, f"{name} is there")


async def age(cloud: SimulatedCloud, *names: str) -> None:
    """The first was used before the second, and so on; all longer ago than the option says."""
    now = cloud.api.parts.clock.now()
    async with cloud.api.parts.db.write() as connection:
        for place, name in enumerate(names):
            used = now - timedelta(days=9, seconds=-place)
            await connection.execute(table.update().where(table.c.reference == name).values(used_at=used))


def disk(cloud: SimulatedCloud, percent: Callable[[], float]) -> None:
    assert cloud.node is not None
    one = 100 * 1024**2  # bytes
    cloud.node.disk_usage = lambda root: SimpleNamespace(used=percent() * one, free=(100 - percent()) * one)


async def noted(cloud: SimulatedCloud) -> list[str]:
    async with cloud.api.parts.db.read() as connection:
        return [one.reference for one in await node_images.of_host(connection, "sim")]


async def tidy(cloud: SimulatedCloud) -> set[str]:
    """One round; the names that the engine has after it."""
    assert cloud.node is not None
    await ImageCare(cloud.node).round()
    return set(cloud.runtime._images)


async def test_the_longest_unused_go_until_there_is_room(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "zun.compute")
    async with simulated_cloud(tmp_path, **ON) as cloud:
        names = [f"app{n}:1" for n in range(4)]
        await made(cloud, *names)
        assert await noted(cloud) == names
        disk(cloud, lambda: 50 + 10 * len(cloud.runtime._images))
        assert await tidy(cloud) == set(names)  # used a moment ago
        await age(cloud, "app2:1", "app0:1", "app3:1", "app1:1")
        assert await tidy(cloud) == {"app3:1", "app1:1"}
        assert sorted(await noted(cloud)) == ["app1:1", "app3:1"]
        assert [r.message.split()[1] for r in caplog.records if r.message.endswith("result=removed")] == [
            "reference=app2:1",
            "reference=app0:1",
        ]
        assert await tidy(cloud) == {"app3:1", "app1:1"}  # below the high mark


async def test_what_is_used_and_what_is_not_ours_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with simulated_cloud(tmp_path, **ON) as cloud:
        for before in ("there:1", "never:1"):
            cloud.runtime.add_image(before)
        await ahead(cloud, "wanted:1")
        await made(cloud, "used:1", delete=False)
        await made(cloud, "there:1", "kept:1", "wanted:1", "unused:1", "held:1", "refused:1")
        await ahead(cloud, "kept:1")
        await age(cloud, *await noted(cloud))
        disk(cloud, lambda: 99)
        assert cloud.node is not None
        await cloud.node.image_uses.need("a create", "held:1")
        cloud.runtime.fail_next("remove_image", EngineConflict("in use by somebody"), times=1)
        async with cloud.api.parts.db.write() as connection:  # the first to be tried
            early = NOW - timedelta(days=900)
            await connection.execute(table.update().where(table.c.reference == "refused:1").values(used_at=early))
        left = {"there:1", "never:1", "used:1", "kept:1", "wanted:1", "held:1", "refused:1"}
        care = ImageCare(cloud.node)
        await care.round()
        assert set(cloud.runtime._images) == left
        await care.round()
        warnings = [r for r in caplog.records if r.message.endswith("result=no unused image is left to remove")]
        assert len(warnings) == 1
        assert set(cloud.runtime._images) == left - {"refused:1"}  # asked again in the next round


async def test_an_image_whose_name_has_moved_on_goes_by_its_id(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path, **ON) as cloud:
        await made(cloud, "app:1")
        new = cloud.runtime._images["app:1"]
        old = replace(new, image_id="sha256:old")
        cloud.runtime._images["app:1"] = old
        async with cloud.api.parts.db.write() as connection:
            await connection.execute(table.update().values(image_id="sha256:old"))
        await made(cloud, "app:1")  # pulled again: another image
        assert sorted(await noted(cloud)) == ["app:1", "sha256:old"]
        cloud.runtime._images["somebody/s:1"] = replace(old, names=("somebody/s:1",))
        await age(cloud, "app:1", "sha256:old")
        disk(cloud, lambda: 99)
        assert await tidy(cloud) == {"somebody/s:1"}  # has a name of somebody's by now
        assert await noted(cloud) == []


async def test_a_name_that_somebody_else_moved_is_no_longer_ours(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path, **ON) as cloud:
        await made(cloud, "app:1")
        cloud.runtime._images["app:1"] = replace(cloud.runtime._images["app:1"], image_id="sha256:theirs")
        await age(cloud, "app:1")
        disk(cloud, lambda: 99)
        assert await tidy(cloud) == {"app:1"}
        assert await noted(cloud) == []


async def test_a_create_goes_on_where_the_image_cannot_be_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*given: Any) -> None:
        raise DatabaseUnavailable("It is away.")

    monkeypatch.setattr(node_images, "put", fails)
    async with simulated_cloud(tmp_path, **ON) as cloud:
        await made(cloud, "app:1")
        assert await noted(cloud) == []


async def test_nothing_is_noted_or_asked_where_nothing_is_removed(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        await made(cloud, "app:1")
        assert await noted(cloud) == []
        assert cloud.runtime.faults.calls["images_in_use"] == 0
        assert cloud.runtime.faults.calls["image"] == 0


async def shown(cloud: SimulatedCloud, path: str) -> Any:
    return (await cloud.http.get(path, params={"pressure": "true"})).json()


async def test_a_full_disk_refuses_creates_until_there_is_room(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path, compute__disk_free_min_mib=1001, periodic_interval_max=600) as cloud:
        node = cloud.node
        assert node is not None
        disk(cloud, lambda: 90)
        await node.report_now()
        uuid = await cloud.create()
        assert (await cloud.wait(uuid, "Error"))["status_reason"] == "There are not enough hosts available."
        path = f"/v1/containers/{uuid}/container_actions"
        (action,) = (await cloud.http.get(path)).json()["containerActions"]
        (event,) = (await cloud.http.get(f"{path}/{action['request_id']}")).json()["events"]
        assert event["traceback"].endswith(f"were rejected: DiskPressureFilter ({DISK_PRESSURE}): 1.")
        one = await shown(cloud, "/v1/hosts/sim")
        assert one["conditions"] == [DISK_PRESSURE]
        assert (await shown(cloud, "/v1/hosts"))["hosts"] == [one]
        del one["conditions"]
        assert (await cloud.http.get("/v1/hosts/sim")).json() == one
        assert (await cloud.http.get("/v1/hosts")).json()["hosts"] == [one]
        assert (await cloud.http.get("/v1/hosts", params={"pressure": "much"})).status_code == 400
        disk(cloud, lambda: 89.9)
        node.usage_changed()  # as after a removal: soon, not with the next heartbeat

        async def again() -> bool:
            return (await shown(cloud, "/v1/hosts/sim"))["conditions"] == []

        await eventually(again, 60, "the host has room")
        await cloud.wait(await cloud.create(), "Running")
