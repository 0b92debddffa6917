"""Volumes of the testbed's Cinder on this node: several users of one volume."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import cinder_node as rig
from tests.support.cinder_node import CinderNode, cinder_node
from tests.support.testbed import Testbed
from tests.support.testbed_project import Project
from zun.domain.errors import VolumeAttachFailed

pytestmark = [pytest.mark.cloud, pytest.mark.usefixtures("nothing_stays")]


@pytest.fixture
def shared(owner: Project, testbed: Testbed) -> Iterator[str]:
    """A multi-attach volume."""
    kind = rig.multiattach_type(testbed)
    yield rig.make_volume(owner, volume_type=kind)
    owner._remove_volumes()
    rig.remove_type(testbed, kind)


async def test_two_containers_of_a_node_share_a_volume(node: CinderNode, testbed: Testbed, shared: str) -> None:
    first, second = node.mapping(shared), node.mapping(shared)
    (here, _), (there, _) = await asyncio.gather(node.volumes.attach(first), node.volumes.attach(second))
    rig.write(here, "seen")
    assert rig.read(there, "seen") == "data"
    users = {held["server_id"] for held in (testbed.volume(shared) or {})["attachments"]}
    assert users == {first.container_uuid, second.container_uuid}
    await node.volumes.detach(first)
    assert rig.read(there, "seen") == "data"
    assert len(rig.loops(shared)) == 1
    assert (testbed.volume(shared) or {})["status"] == "in-use"
    await node.volumes.detach(second)
    assert (rig.wait_status(testbed, shared, "available")["attachments"], rig.loops(shared)) == ([], [])
    assert node.entries() == []


async def test_two_go_at_once(node: CinderNode, testbed: Testbed, shared: str) -> None:
    both = node.mapping(shared), node.mapping(shared)
    for one in both:
        await node.volumes.attach(one)
    await asyncio.gather(*(node.volumes.detach(one) for one in both))
    assert (rig.wait_status(testbed, shared, "available")["attachments"], rig.loops(shared)) == ([], [])


async def test_one_container_mounts_a_volume_twice(node: CinderNode, owner: Project, testbed: Testbed) -> None:
    volume_id = rig.make_volume(owner)
    first = node.mapping(volume_id)
    second = node.mapping(volume_id, first.container_uuid)
    (here, _), (there, _) = await asyncio.gather(node.volumes.attach(first), node.volumes.attach(second))
    rig.write(here, "seen")
    assert rig.read(there, "seen") == "data"
    assert len(rig.attachments(testbed, volume_id)) == 1
    await node.volumes.detach(first)
    assert rig.read(there, "seen") == "data"
    assert (testbed.volume(volume_id) or {})["status"] == "in-use"
    await node.volumes.detach(second)
    assert (testbed.volume(volume_id) or {})["status"] == "available"


async def test_two_hosts_do_not_mount_one_file_system(
    node: CinderNode, tmp_path: Path, owner: Project, testbed: Testbed, shared: str
) -> None:
    async with cinder_node(tmp_path, owner, testbed, host="other", volume__timeout_wait_volume_available=3) as other:
        here, there = node.mapping(shared), other.mapping(shared)
        path, _ = await node.volumes.attach(here)
        rig.write(path, "kept")
        with pytest.raises(VolumeAttachFailed, match="is attached on another host"):
            await other.volumes.attach(there)
        await other.volumes.detach(there)
        assert rig.read(path, "kept") == "data"
        assert (testbed.volume(shared) or {})["status"] == "in-use"
        await node.volumes.detach(here)
        path, _ = await other.volumes.attach(there)
        assert rig.read(path, "kept") == "data"
        await other.volumes.detach(there)


async def test_of_two_hosts_at_once_one_mounts(
    node: CinderNode, tmp_path: Path, owner: Project, testbed: Testbed, shared: str
) -> None:
    async with cinder_node(tmp_path, owner, testbed, host="other", volume__timeout_wait_volume_available=30) as other:
        both = [(node, node.mapping(shared)), (other, other.mapping(shared))]
        results = await asyncio.gather(*(where.volumes.attach(one) for where, one in both), return_exceptions=True)
        assert sum(isinstance(result, VolumeAttachFailed) for result in results) == 1, results
        assert sum(where.is_mounted(one) for where, one in both) == 1
        for where, one in both:
            await where.volumes.detach(one)
    assert (rig.wait_status(testbed, shared, "available")["attachments"], rig.loops(shared)) == ([], [])
