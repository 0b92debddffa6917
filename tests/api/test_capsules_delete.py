"""Capsules in the API: delete, also where no node answers."""

from __future__ import annotations

import pytest

from tests.support.api import fault
from tests.support.capsules import create, template
from tests.support.containers import Plane
from zun.domain.container import Type
from zun.domain.operation import Kind
from zun.store import capsules as store


async def test_a_delete_ignores_what_it_does_not_know(plane: Plane) -> None:
    client = plane.client()
    uuid = (await create(client, template()))["uuid"]
    assert fault(await client.delete(f"/v1/capsules/{uuid}?all_projects=perhaps"))["status"] == 400
    assert (await client.delete(f"/v1/capsules/{uuid}?all_projects=f&force=true")).status_code == 204


@pytest.mark.parametrize("status", ["Creating", "Running", "Error", "Stopped", "Rebuilding", "Unknown"])
async def test_deletable_in_any_status_and_what_is_at_work_is_called_off(plane: Plane, status: str) -> None:
    client = plane.client()
    uuid = (await create(client, template()))["uuid"]
    await plane.set_row(uuid, status=status)
    answer = await client.delete(f"/v1/capsules/{uuid}", headers={"Content-Type": "application/octet-stream"})
    assert (answer.status_code, answer.content) == (204, b"")
    (operation,) = await plane.operations(uuid)
    assert operation.kind == Kind.DELETE
    assert operation.params["status_before"] == status
    assert (await client.delete(f"/v1/capsules/{uuid}")).status_code == 204  # under way already
    assert len(await plane.operations(uuid)) == 1


async def test_delete_while_its_host_is_down_frees_at_once_and_is_finished_later(plane: Plane) -> None:
    client = plane.client()
    entry = {"resources": {"requests": {"cpu": 1, "memory": 64}}}
    uuid = (await create(client, template(entry, entry)))["uuid"]
    await plane.settle(uuid)
    await plane.host_down()
    shown = (await client.get(f"/v1/capsules/{uuid}")).json()
    assert shown["status_reason"] == "The capsule's host was declared down. This is the last known state."
    assert (await client.delete(f"/v1/capsules/{uuid}")).status_code == 204
    assert not any((await plane.usage()).values())
    assert not await plane.api.control.placement.allocation(uuid)
    shown = (await client.get(f"/v1/capsules/{uuid}")).json()
    assert shown["status"] == "Deleting"
    (operation,) = await plane.operations(uuid)
    assert operation.params["capsule"] is True
    async with plane.db.write() as connection:
        await store.remove(connection, uuid, {})
    assert not any((await plane.usage()).values())


async def test_members_are_of_their_type(plane: Plane) -> None:
    made = await create(plane.client(), template({}, initContainers=[{"image": "busybox"}]))
    async with plane.db.read() as connection:
        kinds = [one.container_type for one in await store.members(connection, made["uuid"])]
    assert kinds == [Type.INIT, Type.MEMBER]
