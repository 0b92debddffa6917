"""The API's side of Cinder on the testbed: found, made, deleted with the caller's token; faults of Cinder itself."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support import cinder_node as rig
from tests.support.cinder_node import CinderNode, cinder_node
from tests.support.tcp_proxy import TcpProxy, tcp_proxy
from tests.support.testbed import PORTS, Testbed
from tests.support.testbed_project import Project
from tests.support.wait import eventually
from zun.domain.errors import (
    Conflict,
    ServiceUnavailable,
    Unauthorized,
    VolumeCreateFailed,
    VolumeDeleteFailed,
    VolumeInUse,
    VolumeNotFound,
    VolumeNotUsable,
)
from zun.store import volume_mappings
from zun.volume.base import container_volume_name
from zun.volume.cinder import NOTE

pytestmark = pytest.mark.cloud


@pytest.fixture(autouse=True)
def no_volumes_stay(owner: Project) -> Iterator[None]:
    yield
    owner._remove_volumes()


@pytest.fixture
async def node(tmp_path: Path, owner: Project, testbed: Testbed) -> AsyncIterator[CinderNode]:
    async with cinder_node(tmp_path, owner, testbed, volume__timeout_wait_volume_deleted=2) as made:
        yield made


# -- find --------------------------------------------------------------------------------------------


async def test_found_by_id_and_by_name(node: CinderNode, owner: Project) -> None:
    made = rig.make_volume(owner, "mine")
    assert await node.volumes.find(node.caller, made) == await node.volumes.find(node.caller, "mine") == made
    for ident in ("min", "nonsense", str(uuid4()), "../volumes", "?name=mine", ""):
        with pytest.raises(VolumeNotFound):
            await node.volumes.find(node.caller, ident)


async def test_a_name_twice_is_ambiguous(node: CinderNode, owner: Project) -> None:
    for _ in range(2):
        rig.make_volume(owner, "twin")
    with pytest.raises(Conflict, match="twin"):
        await node.volumes.find(node.caller, "twin")


async def test_another_projects_volume(
    node: CinderNode, owner: Project, testbed: Testbed, new_project: Callable[..., Project]
) -> None:
    made = rig.make_volume(owner)
    stranger = new_project()
    with pytest.raises(VolumeNotFound):  # Cinder does not show it
        await node.volumes.find(rig.caller_of(stranger.account), made)
    with pytest.raises(VolumeNotUsable, match=f"Volume {made} is not usable"):  # an administrator sees it
        await node.volumes.find(rig.caller_of(testbed.admin), made)


async def test_a_volume_in_use(node: CinderNode, owner: Project) -> None:
    made = rig.make_volume(owner)
    one = node.mapping(made)
    await node.volumes.attach(one)
    with pytest.raises(VolumeInUse, match=f"Volume {made} is in use"):
        await node.volumes.find(node.caller, made)
    await node.volumes.detach(one)
    assert await node.volumes.find(node.caller, made) == made


async def test_a_token_that_is_not_valid(node: CinderNode) -> None:
    with pytest.raises(Unauthorized):
        await node.volumes.find(dataclasses.replace(node.caller, token="nonsense"), "mine")


# -- make and delete ---------------------------------------------------------------------------------


async def test_a_volume_made_for_a_mount_s1_8_s3_9(node: CinderNode, owner: Project, testbed: Testbed) -> None:
    one = node.mapping(None)
    made = await node.volumes.create(node.caller, 1, container_volume_name(one))
    shown = testbed.volume(made) or {}
    assert (shown["name"], shown["size"]) == (f"zun-{one.container_uuid}-{one.uuid[:8]}", 1)
    assert (shown["os-vol-tenant-attr:tenant_id"], shown["user_id"]) == (owner.id, owner.account.user_id)
    await node.volumes.delete(made)  # while it may still be in making
    assert testbed.volume(made) is None
    await node.volumes.delete(made)


async def test_beyond_cinders_quota_is_told(node: CinderNode, owner: Project, testbed: Testbed) -> None:
    admin = testbed.admin
    quota = f"/os-quota-sets/{owner.id}"
    admin.call("volumev3", "PUT", quota, json={"quota_set": {"gigabytes": 2}})
    try:
        with pytest.raises(VolumeCreateFailed, match=r"The volume of 3 GiB could not be made: .*quota"):
            await node.volumes.create(node.caller, 3, "large")
    finally:
        admin.call("volumev3", "DELETE", quota)
    assert await node.volumes.abandoned(rig.now() + timedelta(days=1)) == []


async def test_a_volume_that_cannot_be_deleted_is_told(node: CinderNode, owner: Project, testbed: Testbed) -> None:
    made = await node.volumes.create(node.caller, 1, "kept")
    rig.wait_status(testbed, made, "available")
    body = {"snapshot": {"volume_id": made, "name": "kept"}}
    snapshot = owner.account.call("volumev3", "POST", "/snapshots", json=body)["snapshot"]["id"]
    try:
        with pytest.raises(VolumeDeleteFailed, match=f"Volume {made} could not be deleted: "):
            await node.volumes.delete(made)
    finally:
        path = f"/snapshots/{snapshot}"
        await eventually(
            lambda: owner.account.call("volumev3", "GET", path)["snapshot"]["status"] == "available", 30, "snapshot"
        )
        owner.account.call("volumev3", "DELETE", path)
        await eventually(lambda: owner.account.ask("volumev3", "GET", path).status_code == 404, 30, "no snapshot")
    await node.volumes.delete(made)


async def test_a_deletion_that_takes_too_long_is_told_s3_9(node: CinderNode, owner: Project, testbed: Testbed) -> None:
    made = rig.make_volume(owner)
    rig.set_status(testbed, made, "creating")
    with pytest.raises(VolumeDeleteFailed) as raised:
        await node.volumes.delete(made)
    assert raised.value.message == "Volumes cannot be successfully deleted after 2 seconds"
    rig.set_status(testbed, made, "available")


async def test_volumes_without_a_mount_are_found(node: CinderNode, owner: Project, testbed: Testbed) -> None:
    used, left = node.mapping(None), node.mapping(None)
    first = await node.volumes.create(node.caller, 1, container_volume_name(used))
    second = await node.volumes.create(node.caller, 1, container_volume_name(left))
    async with node.db.write() as connection:
        await volume_mappings.insert(connection, node.mapping(first))
    assert await node.volumes.abandoned(rig.now() - timedelta(minutes=1)) == []
    assert await node.volumes.abandoned(rig.now() + timedelta(minutes=1)) == [second]
    await node.volumes.delete(second)
    assert await node.volumes.abandoned(rig.now() + timedelta(minutes=1)) == []


# -- faults of Cinder --------------------------------------------------------------------------------


@pytest.fixture
async def proxied(tmp_path: Path, owner: Project, testbed: Testbed) -> AsyncIterator[tuple[CinderNode, TcpProxy]]:
    """A node whose Cinder is behind a proxy."""
    with tcp_proxy(PORTS["Cinder"]) as proxy:
        options = {
            "cinder_client__endpoint_override": f"{proxy.url}/v3/{owner.id}",  # as in clouds that name the project
            "volume__timeout_wait_volume_available": 3,
        }
        async with cinder_node(tmp_path, owner, testbed, host="far", **options) as node:
            yield node, proxy


FAULTS = ("refuse", "hang", "500")


@pytest.mark.parametrize("mode", FAULTS)
async def test_faults_name_cinder_and_leave_nothing(
    proxied: tuple[CinderNode, TcpProxy], owner: Project, testbed: Testbed, mode: str
) -> None:
    node, proxy = proxied
    made = rig.make_volume(owner)
    one, sized = node.mapping(made), node.mapping(None)
    await _set(proxy, node, mode)
    for call in (
        node.volumes.find(node.caller, made),
        node.volumes.create(node.caller, 1, container_volume_name(sized)),
        node.volumes.delete(made),
        node.volumes.attach(one),
        node.volumes.detach(one),
    ):
        with pytest.raises(ServiceUnavailable, match=r"^Cinder is not available: "):
            await call
    assert (rig.attachments(testbed, made), rig.loops(made), node.entries()) == ([], [], [])
    await _set(proxy, node, "pass")
    await node.volumes.attach(one)
    await _set(proxy, node, mode)
    assert await node.volumes.attached(one)
    assert await node.volumes.attach(one)  # what is mounted does not need Cinder
    with pytest.raises(ServiceUnavailable):
        await node.volumes.detach(one)
    assert node.is_mounted(one)
    await _set(proxy, node, "pass")
    await node.volumes.detach(one)
    assert (rig.attachments(testbed, made), rig.loops(made), node.entries()) == ([], [], [])


@pytest.mark.parametrize(
    "path", ["POST .*/attachments$", "PUT .*/attachments/", "POST .*/action", "DELETE .*/attachments"]
)
async def test_an_answer_lost_on_its_way(
    proxied: tuple[CinderNode, TcpProxy], owner: Project, testbed: Testbed, path: str
) -> None:
    """Cinder did what was asked, and nobody heard: the next try goes on from there."""
    node, proxy = proxied
    made = rig.make_volume(owner)
    one = node.mapping(made)
    proxy.mode("lose", path)
    for verb in (node.volumes.attach, node.volumes.detach):
        await _until_done(verb, one)
    assert proxy.lost == 1
    assert (testbed.volume(made) or {})["status"] == "available"
    assert (rig.attachments(testbed, made), rig.loops(made), node.entries()) == ([], [], [])


async def _set(proxy: TcpProxy, node: CinderNode, mode: str) -> None:
    """A hanging service is given up on soon, one that answers is not."""
    node.conf.set_override("timeout", 0.5 if mode == "hang" else 30.0, "cinder_client")
    await asyncio.to_thread(proxy.mode, mode)


async def _until_done(verb: Callable[..., object], one: object) -> None:
    for _ in range(5):
        try:
            await verb(one)  # type: ignore[misc]
        except ServiceUnavailable:
            await asyncio.sleep(0)
        else:
            return
    raise AssertionError("never done")


async def test_a_create_without_answer_is_followed_up(
    proxied: tuple[CinderNode, TcpProxy], owner: Project, testbed: Testbed
) -> None:
    node, proxy = proxied
    name = container_volume_name(node.mapping(None))
    proxy.mode("lose", "POST /v3/volumes$")
    with pytest.raises(ServiceUnavailable):
        await node.volumes.create(node.caller, 1, name)
    namesake = rig.make_volume(owner, name)  # somebody else's, by chance
    found = await node.volumes.abandoned(rig.now() + timedelta(minutes=1))
    assert len(found) == 1
    assert found != [namesake]
    assert NOTE in (testbed.volume(found[0]) or {})["metadata"]
    await node.volumes.delete(found[0])
    assert testbed.volume(namesake)
