"""Volumes of the testbed's Cinder on this node: what goes wrong on the way down (S3.14)."""

from __future__ import annotations

import pytest

from tests.support import cinder_node as rig
from tests.support.cinder_node import CinderNode
from tests.support.testbed import Testbed
from tests.support.testbed_project import Project
from zun.domain.errors import VolumeDetachFailed
from zun.volume import filesystem
from zun.volume.brick import BrickFailed

pytestmark = [pytest.mark.cloud, pytest.mark.usefixtures("nothing_stays")]


async def test_a_failed_disconnect_leaves_the_volume_in_use_s3_14(
    node: CinderNode, owner: Project, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume_id = rig.make_volume(owner)
    one = node.mapping(volume_id)
    await node.volumes.attach(one)
    seen = []

    async def refuse(*_: object, **__: object) -> None:
        seen.append((testbed.volume(volume_id) or {})["status"])
        raise BrickFailed("the device cannot be flushed")

    with monkeypatch.context() as patched:
        patched.setattr(node.brick, "disconnect", refuse)
        with pytest.raises(VolumeDetachFailed, match=f"Volume {volume_id} could not be detached: the device cannot"):
            await node.volumes.detach(one)
    assert (seen, rig.wait_status(testbed, volume_id, "in-use")["status"]) == (["detaching"], "in-use")
    path, _ = await node.volumes.attach(one)  # and can be used again
    rig.write(path, "kept")
    await node.volumes.detach(one)
    assert (testbed.volume(volume_id) or {})["status"] == "available"


async def test_a_busy_mount_is_told_and_the_volume_stays_in_use(
    node: CinderNode, owner: Project, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "BUSY_SECONDS", 0.5)
    volume_id = rig.make_volume(owner)
    one = node.mapping(volume_id)
    path, _ = await node.volumes.attach(one)
    with open(f"{path}/held", "w"), pytest.raises(VolumeDetachFailed, match="busy"):  # noqa: ASYNC230
        await node.volumes.detach(one)
    assert (testbed.volume(volume_id) or {})["status"] == "in-use"
    await node.volumes.detach(one)


async def test_a_mount_that_lives_on_in_another_namespace_keeps_its_device(
    node: CinderNode, owner: Project, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "BUSY_SECONDS", 0.5)
    volume_id = rig.make_volume(owner)
    one = node.mapping(volume_id)
    path, _ = await node.volumes.attach(one)
    with rig.other_namespace(path):
        with pytest.raises(VolumeDetachFailed, match="still in use on this host"):
            await node.volumes.detach(one)
        assert rig.loops(volume_id)
        assert (testbed.volume(volume_id) or {})["status"] == "in-use"
    await node.volumes.detach(one)


async def test_the_nodes_files_are_lost(node: CinderNode, owner: Project, testbed: Testbed) -> None:
    volume_id = rig.make_volume(owner)
    one = node.mapping(volume_id)
    await node.volumes.attach(one)
    node.forget(one)
    await node.volumes.detach(one)
    assert (testbed.volume(volume_id) or {})["status"] == "available"


async def test_a_volume_taken_away_behind_our_back(node: CinderNode, owner: Project, testbed: Testbed) -> None:
    volume_id = rig.make_volume(owner)
    one = node.mapping(volume_id)
    await node.volumes.attach(one)
    held = rig.attachments(testbed, volume_id)[0]["id"]
    reset = {"os-reset_status": {"status": "available", "attach_status": "detached"}}
    testbed.admin.call("volumev3", "POST", f"/volumes/{volume_id}/action", json=reset)
    assert (await node.volumes.attach(one))[0]  # what is mounted is not asked for
    await node.volumes.detach(one)
    assert held not in [now["id"] for now in rig.attachments(testbed, volume_id)]
    assert (node.is_mounted(one), node.entries()) == (False, [])
    rig.remove_loops(volume_id)  # Cinder forgot it
