"""Volumes of the testbed's Cinder on this node: what is on them is mounted, and never formatted (S1.18)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import cinder_node as rig
from tests.support import signatures
from tests.support.cinder_node import CinderNode, cinder_node
from tests.support.testbed import Testbed
from tests.support.testbed_project import Project
from zun.domain.errors import VolumeAttachFailed

pytestmark = [pytest.mark.cloud, pytest.mark.usefixtures("nothing_stays")]


@pytest.mark.parametrize("fstype", ["ext2", "ext4", "xfs"])
async def test_data_is_mounted_by_its_own_type(
    node: CinderNode, owner: Project, testbed: Testbed, tmp_path: Path, fstype: str
) -> None:
    volume_id = rig.make_volume(owner)
    signatures.make_filesystem(rig.volume_file(volume_id), fstype, tmp_path, "kept")
    one = node.mapping(volume_id)
    path, _ = await node.volumes.attach(one)
    assert rig.read(path, "kept") == "data"
    assert rig.mounted_type(path) == fstype
    await node.volumes.detach(one)


async def test_two_clones_of_an_xfs_volume_beside_each_other(node: CinderNode, owner: Project, tmp_path: Path) -> None:
    first = rig.make_volume(owner)
    signatures.make_filesystem(rig.volume_file(first), "xfs", tmp_path, "kept")
    second = rig.make_volume(owner, source_volid=first)
    both = [node.mapping(first), node.mapping(second)]
    for path, _ in [await node.volumes.attach(one) for one in both]:
        assert rig.read(path, "kept") == "data"
    for one in both:
        await node.volumes.detach(one)


@pytest.mark.parametrize("fstype", ["ext4", "xfs"])
async def test_an_empty_volume_gets_the_file_system_asked_for(
    tmp_path: Path, owner: Project, testbed: Testbed, fstype: str
) -> None:
    volume_id = rig.make_volume(owner)
    async with cinder_node(tmp_path, owner, testbed, volume__fstype=fstype) as node:
        one = node.mapping(volume_id)
        path, _ = await node.volumes.attach(one)
        assert rig.mounted_type(path) == fstype
        await node.volumes.detach(one)


@pytest.mark.parametrize("kind", sorted(signatures.KINDS))
async def test_what_is_no_file_system_is_left_as_it_is(
    node: CinderNode, owner: Project, testbed: Testbed, kind: str
) -> None:
    volume_id = rig.make_volume(owner)
    file = rig.volume_file(volume_id)
    reason = signatures.KINDS[kind](file)
    before = signatures.digest(file)
    one = node.mapping(volume_id)
    with pytest.raises(VolumeAttachFailed, match=f"Volume {volume_id} could not be attached: .*{reason}"):
        await node.volumes.attach(one)
    assert not node.is_mounted(one)
    await node.volumes.detach(one)
    assert signatures.digest(file) == before
    assert (testbed.volume(volume_id) or {})["status"] == "available"
    assert node.entries() == []


async def test_a_device_that_cannot_be_read_is_not_formatted(node: CinderNode, owner: Project) -> None:
    volume_id = rig.make_volume(owner)
    file, connect = rig.volume_file(volume_id), node.brick.connect

    async def connect_and_break(connection: object) -> object:
        device = await connect(connection)  # type: ignore[arg-type]
        os.truncate(file, 0)  # the device keeps its size: reads fail
        return device

    node.brick.connect = connect_and_break  # type: ignore[assignment, method-assign]
    one = node.mapping(volume_id)
    with pytest.raises(VolumeAttachFailed, match="cannot be read"):
        await node.volumes.attach(one)
    assert os.stat(file).st_size == 0
    await node.volumes.detach(one)


async def test_a_device_smaller_than_its_volume_is_not_formatted(node: CinderNode, owner: Project) -> None:
    volume_id = rig.make_volume(owner)
    os.truncate(rig.volume_file(volume_id), 512 * 1024**2)
    one = node.mapping(volume_id)
    with pytest.raises(VolumeAttachFailed, match="smaller than the volume"):
        await node.volumes.attach(one)
    await node.volumes.detach(one)
