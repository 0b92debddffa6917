"""Names and sizes of containers: quota, claim, engine and row agree, whatever happens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.api import told
from tests.support.containers import Plane
from zun.domain.errors import Conflict
from zun.domain.resources import MEMORY_MB, VCPU

URL = "/v1/containers"


async def test_patch_name_and_healing_at_once(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    changed = await client.patch(f"{URL}/{uuid}", json={"name": "other", "auto_heal": "True"})
    assert changed.status_code == 200
    assert (changed.json()["name"], changed.json()["auto_heal"]) == ("other", True)
    assert changed.json()["links"]
    assert plane.bus.calls == []
    assert (await client.patch(f"{URL}/{uuid}", json={"name": None})).json()["name"] == "other"
    assert (await client.patch(f"{URL}/{uuid}", json={})).status_code == 200
    assert (await client.patch(f"{URL}/{uuid}", json={"disk": 5})).status_code == 400
    await plane.set_row(uuid, status="Error")
    assert told(await client.patch(f"{URL}/{uuid}", json={"name": "x1"}))[2].startswith("Cannot update container")


async def test_patch_size_changes_quota_claim_engine_and_row(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client(), cpu=1, memory=512))["uuid"]
    plane.bus.answers["update"] = None
    changed = await client.patch(f"{URL}/{uuid}", json={"cpu": "2.5", "memory": 256})
    assert (changed.json()["cpu"], changed.json()["memory"]) == (2.5, "256")
    assert plane.bus.calls == [("node1", "update", {"uuid": uuid, "cpu": 2.5, "memory": 256})]
    assert await plane.usage() == {"containers": 1, "cpu": 2500, "memory": 256, "disk": 0}
    assert await plane.api.control.placement.allocation(uuid) == {VCPU: 3, MEMORY_MB: 256}


async def test_sizes_asked_side_by_side_leave_row_quota_claim_and_engine_alike(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client(), cpu=1, memory=512))["uuid"]
    plane.bus.answers["update"] = None
    wishes = [{"cpu": cores, "memory": 512} for cores in (2, 3, 4, 5)]
    answers = await asyncio.gather(*(client.patch(f"{URL}/{uuid}", json=wish) for wish in wishes))
    assert {answer.status_code for answer in answers} <= {200, 409}
    shown = (await client.get(f"{URL}/{uuid}")).json()
    assert plane.bus.calls[-1][2]["cpu"] == shown["cpu"]
    assert (await plane.usage())["cpu"] == shown["cpu"] * 1000
    assert await plane.api.control.placement.allocation(uuid) == {VCPU: int(shown["cpu"]), MEMORY_MB: 512}


@pytest.mark.parametrize("answer", [Conflict("The engine refuses."), None])
async def test_refused_size_leaves_everything_as_it_was(plane: Plane, answer: Exception | None) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client(), cpu=1, memory=512))["uuid"]
    if answer is not None:
        plane.bus.answers["update"] = answer
    refusal = await client.patch(f"{URL}/{uuid}", json={"cpu": 2, "memory": 1024})
    assert refusal.status_code == (409 if answer else 503)
    shown = (await client.get(f"{URL}/{uuid}")).json()
    assert (shown["cpu"], shown["memory"]) == (1.0, "512")
    assert await plane.usage() == {"containers": 1, "cpu": 1000, "memory": 512, "disk": 0}
    assert await plane.api.control.placement.allocation(uuid) == {VCPU: 1, MEMORY_MB: 512}


@pytest.mark.parametrize("refused", [False, True])
async def test_a_resize_holds_both_sizes_until_the_engine_agreed(plane: Plane, refused: bool) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client(), cpu=4, memory=512))["uuid"]
    held = []
    call = plane.bus.call

    async def asked(*given: Any) -> Any:
        held.append(await plane.api.control.placement.allocation(uuid))
        return await call(*given)

    plane.bus.call = asked  # type: ignore[method-assign]
    plane.bus.answers["update"] = Conflict("no") if refused else None
    answer = await client.post(f"{URL}/{uuid}/resize_container", json={"cpu": 1, "memory": 1024})
    assert answer.status_code == (409 if refused else 202)
    assert held == [{VCPU: 4, MEMORY_MB: 1024}]
    after = {VCPU: 4, MEMORY_MB: 512} if refused else {VCPU: 1, MEMORY_MB: 1024}
    assert await plane.api.control.placement.allocation(uuid) == after


async def test_size_beyond_the_quota_is_403_and_the_node_is_not_asked(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    await plane.client("admin").put("/v1/quotas/proj1", json={"cpu": 2})
    assert told(await client.patch(f"{URL}/{uuid}", json={"cpu": 3}))[:2] == (403, "over-quota")
    assert plane.bus.calls == []


async def test_a_resize_whose_process_dies_leaves_no_quota_counted(plane: Plane) -> None:
    """Quota is counted with the row: at the moment the node is asked, nothing is."""
    client, uuid = plane.client(), (await plane.create(plane.client(), cpu=1, memory=512))["uuid"]
    counted = []
    call = plane.bus.call

    async def asked(*given: Any) -> Any:
        counted.append(await plane.usage())
        return await call(*given)

    plane.bus.call = asked  # type: ignore[method-assign]
    plane.bus.answers["update"] = None
    assert (await client.patch(f"{URL}/{uuid}", json={"cpu": 3, "memory": 1024})).status_code == 200
    assert counted == [{"containers": 1, "cpu": 1000, "memory": 512, "disk": 0}]
    assert await plane.usage() == {"containers": 1, "cpu": 3000, "memory": 1024, "disk": 0}


async def test_a_size_the_quota_refuses_at_last_is_taken_back_from_the_engine(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client(), cpu=1, memory=512))["uuid"]
    admin, call = plane.client("admin"), plane.bus.call

    async def asked(*given: Any) -> Any:
        assert (await admin.put("/v1/quotas/proj1", json={"cpu": 1})).status_code == 200
        return await call(*given)

    plane.bus.call = asked  # type: ignore[method-assign]
    plane.bus.answers["update"] = None
    assert told(await client.patch(f"{URL}/{uuid}", json={"cpu": 3}))[:2] == (403, "over-quota")
    assert [sent[2]["cpu"] for sent in plane.bus.calls] == [3, 1]
    assert await plane.usage() == {"containers": 1, "cpu": 1000, "memory": 512, "disk": 0}
    assert await plane.api.control.placement.allocation(uuid) == {VCPU: 1, MEMORY_MB: 512}


async def test_resize_container_answers_the_old_values(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    plane.bus.answers["update"] = None
    answer = await client.post(f"{URL}/{uuid}/resize_container", json={"memory": "1024"})
    assert (answer.status_code, answer.json()["memory"]) == (202, "512")
    assert (await client.get(f"{URL}/{uuid}")).json()["memory"] == "1024"


async def test_rename_to_the_same_name_is_409(plane: Plane) -> None:
    client, uuid = plane.client(version="1.13"), (await plane.create(plane.client(), name="same"))["uuid"]
    assert (await client.post(f"{URL}/{uuid}/rename?name=same")).status_code == 409
    assert (await client.post(f"{URL}/same/rename", json={"name": "other"})).json()["name"] == "other"
