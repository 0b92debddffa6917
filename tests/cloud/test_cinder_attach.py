"""Volumes of the testbed's Cinder on this node: up and down, waits, after a reboot of the machine.

Outside state is read from Cinder, the kernel's mounts and loop devices."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from tests.support import cinder_node as rig
from tests.support.cinder_node import CinderNode
from tests.support.testbed import Testbed
from tests.support.testbed_project import Project
from zun.domain.errors import VolumeAttachFailed, VolumeNotReady
from zun.volume import mounts

pytestmark = [pytest.mark.cloud, pytest.mark.usefixtures("nothing_stays")]


async def test_up_and_down_s1_17_s3_8(node: CinderNode, owner: Project, testbed: Testbed) -> None:
    volume_id = rig.make_volume(owner)
    one = node.mapping(volume_id)
    path, stored = await node.volumes.attach(one)
    assert path == str(node.target(one))
    shown = testbed.volume(volume_id)
    assert shown
    assert shown["status"] == "in-use"
    held = shown["attachments"]
    assert [(a["server_id"], a["host_name"]) for a in held] == [(one.container_uuid, node.conf.host)]
    assert stored == {"attachment_id": held[0]["attachment_id"], "device": rig.loops(volume_id)[0], "host": "node"}
    assert mounts.source_of(node.target(one)) == stored["device"]
    rig.write(path, "kept")
    assert await node.volumes.attach(one) == (path, stored)  # again: what is there stays
    await node.volumes.detach(one)
    assert (rig.wait_status(testbed, volume_id, "available")["attachments"], rig.loops(volume_id)) == ([], [])
    assert node.entries() == []
    await node.volumes.detach(one)
    again = node.mapping(volume_id)
    path, _ = await node.volumes.attach(again)
    assert rig.read(path, "kept") == "data"
    await node.volumes.detach(again)


async def test_a_volume_of_a_lost_host_is_let_go_and_taken_down_at_its_return(
    node: CinderNode, owner: Project, testbed: Testbed
) -> None:
    volume_id = rig.make_volume(owner)
    one = node.mapping(volume_id)
    await node.volumes.attach(one)
    assert await node.volumes.let_go(one)
    assert await node.volumes.let_go(one)
    assert rig.wait_status(testbed, volume_id, "available")["attachments"] == []
    assert node.is_mounted(one)
    await node.volumes.detach(one)
    assert not node.is_mounted(one)
    assert (node.entries(), rig.loops(volume_id)) == ([], [])
    assert await node.volumes.let_go(node.mapping(None))
    assert await node.volumes.let_go(node.mapping(str(uuid4())))


async def test_detach_is_safe_though_attach_never_ran(node: CinderNode, owner: Project, testbed: Testbed) -> None:
    await node.volumes.detach(node.mapping(None))
    await node.volumes.detach(node.mapping(str(uuid4())))
    volume_id = rig.make_volume(owner)
    await node.volumes.detach(node.mapping(volume_id))
    assert (testbed.volume(volume_id) or {})["status"] == "available"


async def test_a_volume_in_making_is_waited_for_s1_16(node: CinderNode, owner: Project, testbed: Testbed) -> None:
    volume_id = rig.make_volume(owner)
    rig.set_status(testbed, volume_id, "creating")
    one = node.mapping(volume_id)
    attaching = asyncio.create_task(node.volumes.attach(one))
    await asyncio.sleep(0)
    rig.set_status(testbed, volume_id, "available")
    await attaching
    await node.volumes.detach(one)


@pytest.mark.parametrize("status", ["error", "creating"])
async def test_a_volume_that_does_not_become_available_s1_27(
    node: CinderNode, owner: Project, testbed: Testbed, status: str
) -> None:
    volume_id = rig.make_volume(owner)
    rig.set_status(testbed, volume_id, status)
    one = node.mapping(volume_id)
    with pytest.raises(VolumeNotReady) as raised:
        await node.volumes.attach(one)
    assert raised.value.message == "Volumes did not reach available status after 3 seconds"
    await node.volumes.detach(one)
    assert (testbed.volume(volume_id) or {})["status"] == status
    assert (rig.attachments(testbed, volume_id), node.entries()) == ([], [])


async def test_a_volume_somebody_else_holds_is_not_taken(node: CinderNode, owner: Project, testbed: Testbed) -> None:
    volume_id = rig.make_volume(owner)
    wanted = {"attachment": {"volume_uuid": volume_id, "instance_uuid": str(uuid4()), "connector": None}}
    theirs = testbed.admin.call("volumev3", "POST", "/attachments", json=wanted)["attachment"]
    one = node.mapping(volume_id)
    with pytest.raises(VolumeNotReady):
        await node.volumes.attach(one)
    await node.volumes.detach(one)
    assert [held["id"] for held in rig.attachments(testbed, volume_id)] == [theirs["id"]]
    assert (testbed.volume(volume_id) or {})["status"] == "reserved"
    testbed.admin.call("volumev3", "DELETE", f"/attachments/{theirs['id']}")


async def test_a_volume_that_does_not_exist_is_told(node: CinderNode) -> None:
    one = node.mapping(str(uuid4()))
    with pytest.raises(VolumeAttachFailed, match=f"Volume {one.volume_id} could not be found"):
        await node.volumes.attach(one)


async def test_mounts_and_devices_are_there_again(node: CinderNode, owner: Project, testbed: Testbed) -> None:
    volume_id = rig.make_volume(owner)
    one = node.mapping(volume_id)
    path, _ = await node.volumes.attach(one)
    rig.write(path, "kept")
    assert await node.volumes.attached(one)
    rig.reboot(volume_id, path)
    assert not await node.volumes.attached(one)
    with pytest.raises(PermissionError):
        rig.write(path, "lost")  # an engine that was faster cannot fill the host's disk
    assert (await node.volumes.attach(one))[0] == path
    assert rig.read(path, "kept") == "data"
    assert await node.volumes.attached(one)
    assert rig.wait_status(testbed, volume_id, "in-use")["attachments"][0]["server_id"] == one.container_uuid
    assert len(rig.attachments(testbed, volume_id)) == 1
    await node.volumes.detach(one)


async def test_detached_after_a_reboot_without_being_mounted_again(node: CinderNode, owner: Project) -> None:
    volume_id = rig.make_volume(owner)
    one = node.mapping(volume_id)
    path, _ = await node.volumes.attach(one)
    rig.reboot(volume_id, path)
    await node.volumes.detach(one)
    assert node.entries() == []
