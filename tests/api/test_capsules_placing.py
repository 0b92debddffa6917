"""Capsules in the API: quota, and the host that is chosen."""

from __future__ import annotations

from pathlib import Path

from tests.support.api import fault
from tests.support.capsules import create, template
from tests.support.containers import Plane, make_plane
from zun.store import capsules as store
from zun.store.tables import containers, local_volumes


async def test_quota_counts_the_size_and_each_member(plane: Plane) -> None:
    entry = {"resources": {"requests": {"cpu": 0.5, "memory": 100}}}
    init = {"image": "busybox", "resources": {"requests": {"cpu": 2, "memory": 50}}}
    uuid = (await create(plane.client(), template(entry, entry, initContainers=[init])))["uuid"]
    assert await plane.usage() == {"containers": 3, "cpu": 2000, "memory": 200, "disk": 0}
    await plane.client().delete(f"/v1/capsules/{uuid}")
    async with plane.db.write() as connection:
        assert await store.remove(connection, uuid, {})
    assert not any((await plane.usage()).values())
    assert await plane.count(containers) == 0


async def test_over_quota_leaves_nothing(tmp_path: Path) -> None:
    async with make_plane(tmp_path, {"quota.containers": 2}) as plane:
        await plane.add_host(capsules=True)
        sized = {"volumes": [{"name": "data", "cinder": {"size": 1}}]}
        entry = {"volumeMounts": [{"name": "data", "mountPath": "/d"}]}
        error = fault(await plane.client().post("/v1/capsules", json={"template": template(entry, {}, {}, **sized)}))
        assert (error["status"], error["title"]) == (403, "Quota exceeded for resources: ['containers']")
        assert await plane.count(containers) == await plane.count(local_volumes) == 0


async def test_a_host_without_an_engine_for_capsules_is_not_chosen(tmp_path: Path) -> None:
    async with make_plane(tmp_path) as plane:
        await plane.add_host("node1")
        made = await create(plane.client(), template({}, initContainers=[{"image": "busybox"}]))
        assert (made["status"], made["status_reason"]) == ("Error", "There are not enough hosts available.")
        assert {one["status"] for one in [*made["containers"], *made["init_containers"]]} == {"Error"}
        (action,) = (
            await plane.client().get(f"/v1/containers/{made['containers'][0]['uuid']}/container_actions")
        ).json()["containerActions"]
        assert action["message"] == "Error"
        await plane.add_host("node2", capsules=True)
        again = await create(plane.client("admin"), template())
        row = await plane.row(again["uuid"])
        assert row is not None
        assert row.host == "node2"
        assert (await plane.client().delete(f"/v1/capsules/{made['uuid']}")).status_code == 204
        assert (await plane.client().get(f"/v1/capsules/{made['uuid']}")).status_code == 404
        assert (await plane.usage())["containers"] == 1


async def test_the_runtime_has_to_be_one_of_the_engines_where_it_tells(tmp_path: Path) -> None:
    async with make_plane(tmp_path) as plane:
        await plane.add_host("node1", capsules=True, capsule_runtimes=["other", "runsc"])
        admin = plane.client("admin")
        for known in ("runsc", "runc"):
            assert (await create(admin, template(runtime=known)))["status"] == "Creating"
        assert (await create(admin, template(runtime="kata")))["status"] == "Error"
