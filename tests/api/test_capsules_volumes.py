"""Capsules in the API: volumes found, made, kept and taken back (S1.8, S3.9)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import fault
from tests.support.capsules import create, template
from tests.support.containers import Plane, make_plane
from zun.control import container_volumes
from zun.store import capsules as store
from zun.store import volume_mappings
from zun.store.tables import containers, local_volumes

MOUNTS = {"volumeMounts": [{"name": "data", "mountPath": "/d", "readOnly": "true"}]}


async def _mappings(plane: Plane, uuid: str) -> list[Any]:
    async with plane.db.read() as connection:
        return list(await volume_mappings.of_container(connection, uuid))


@pytest.mark.parametrize("kept", [True, False])
async def test_a_new_volume_is_the_capsules_and_shared_by_its_members(plane: Plane, kept: bool) -> None:
    volume = {"name": "data", "cinder": {"size": 2, "autoRemove": not kept}}
    made = await create(plane.client(), template(MOUNTS, MOUNTS, volumes=[volume]))
    (mapping,) = await _mappings(plane, made["uuid"])
    assert (mapping.auto_remove, mapping.driver, mapping.volume_id is not None) == (not kept, "local", True)
    for one in made["containers"]:
        row = await plane.row(one["uuid"])
        assert row is not None
        assert row.volume_mounts == [{"mapping": mapping.uuid, "destination": "/d", "read_only": True}]
    assert await plane.count(local_volumes) == 1


async def test_an_existing_volume_is_named_by_its_id_and_never_deleted_by_a_failing_request(tmp_path: Path) -> None:
    async with make_plane(tmp_path) as plane:
        await plane.add_host(capsules=True)
        client = plane.client()
        first = await create(client, template(MOUNTS, volumes=[{"name": "data", "cinder": {"size": 1}}]))
        (mapping,) = await _mappings(plane, first["uuid"])
        given = {"name": "data", "cinder": {"volumeID": mapping.volume_id, "autoRemove": True}}
        await plane.set_service(forced_down=True)
        refused = await create(client, template(MOUNTS, volumes=[given]))
        assert refused["status"] == "Error"
        assert await plane.count(local_volumes) == 1
        (left,) = await _mappings(plane, refused["uuid"])
        assert (left.volume_id, left.auto_remove) == (mapping.volume_id, True)


async def test_volumes_made_for_a_request_that_fails_are_removed(plane: Plane) -> None:
    unknown = "00000000-0000-0000-0000-000000000000"
    entry = {"volumeMounts": [{"name": "new", "mountPath": "/a"}, {"name": "old", "mountPath": "/b"}]}
    volumes = [{"name": "new", "cinder": {"size": 1}}, {"name": "old", "cinder": {"volumeID": unknown}}]
    error = fault(await plane.client().post("/v1/capsules", json={"template": template(entry, volumes=volumes)}))
    assert error["code"] == "container.volume-not-found"
    plane.placement.down = True
    only = template(MOUNTS, volumes=[{"name": "data", "cinder": {"size": 1}}])
    assert (await plane.client().post("/v1/capsules", json={"template": only})).status_code == 503
    assert await plane.count(local_volumes) == await plane.count(containers) == 0


async def test_a_mount_of_no_volume_is_ignored(plane: Plane) -> None:
    made = await create(plane.client(), template(MOUNTS))
    row = await plane.row(made["containers"][0]["uuid"])
    assert row is not None
    assert row.volume_mounts == []


async def swept(plane: Plane) -> int:
    """How many volumes the reaper takes for those of dead requests, a day later."""
    plane.clock.ahead += timedelta(days=1)
    return await container_volumes.sweep(plane.api.control)


@pytest.mark.parametrize("kept", [True, False])
async def test_a_new_volume_to_be_kept_outlives_its_capsule(plane: Plane, kept: bool) -> None:
    volume = {"name": "data", "cinder": {"size": 1, "autoRemove": not kept}}
    first = (await create(plane.client(), template(MOUNTS, volumes=[volume])))["uuid"]
    (mapping,) = await _mappings(plane, first)
    assert await swept(plane) == 0
    async with plane.db.write() as connection:
        await volume_mappings.delete_of_container(connection, first)
        assert await store.remove(connection, first, {})
    assert await swept(plane) == (0 if kept else 1)
    again = {"name": "data", "cinder": {"volumeID": mapping.volume_id}}
    answer = await plane.client().post("/v1/capsules", json={"template": template(MOUNTS, volumes=[again])})
    assert answer.status_code == (202 if kept else 404), answer.text


async def test_a_kept_volume_is_found_by_the_name_its_template_gives(plane: Plane) -> None:
    volume = {"name": "data", "cinder": {"size": 1}}
    first = (await create(plane.client(), template(MOUNTS, volumes=[volume])))["uuid"]
    (mapping,) = await _mappings(plane, first)
    container = await plane.create(plane.client(), mounts=[{"source": "data", "destination": "/d"}])
    assert [one.volume_id for one in await _mappings(plane, container["uuid"])] == [mapping.volume_id]
