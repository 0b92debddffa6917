"""An agent killed (SIGKILL) at each step of an attach or a detach: the next one goes on or undoes it, nothing stays."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support import cinder_node as rig
from tests.support.cinder_child import DOWN, UP
from tests.support.cinder_node import CinderNode, cinder_node
from tests.support.testbed import Testbed
from tests.support.testbed_project import Project
from zun.domain.container import VolumeMapping

pytestmark = pytest.mark.cloud

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def owner(testbed: Testbed) -> Iterator[Project]:
    project = Project(testbed)
    yield project
    project.remove()


@pytest.fixture
def volume_id(owner: Project, testbed: Testbed) -> Iterator[str]:
    """A volume that in the end nobody holds and that has no device."""
    made = rig.make_volume(owner)
    yield made
    held, devices = rig.attachments(testbed, made), rig.loops(made)
    owner._remove_volumes()
    assert (held, devices) == ([], [])


@pytest.fixture
async def node(tmp_path: Path, owner: Project, testbed: Testbed) -> AsyncIterator[CinderNode]:
    """The agent that comes after the killed one."""
    async with cinder_node(tmp_path, owner, testbed, volume__timeout_wait_volume_available=10) as made:
        yield made
        assert made.entries() == []


async def killed(node: CinderNode, tmp_path: Path, verb: str, mapping: VolumeMapping, point: str) -> None:
    """The verb in a process that dies at the point."""
    arguments = [str(tmp_path / "node.conf"), str(tmp_path / "db-node"), verb, json.dumps(dataclasses.asdict(mapping))]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.cinder_child", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "ZUN_KILL_AT": point},
    )
    output, errors = await process.communicate()
    assert process.returncode == -9, (output, errors)


@pytest.mark.parametrize("point", [f"{when}:{name}" for name in UP for when in ("before", "after")])
async def test_killed_while_attaching(
    node: CinderNode, volume_id: str, testbed: Testbed, tmp_path: Path, point: str
) -> None:
    one = node.mapping(volume_id)
    await killed(node, tmp_path, "attach", one, point)
    path, _ = await node.volumes.attach(one)
    rig.write(path, "kept")
    shown = testbed.volume(volume_id) or {}
    assert (shown["status"], [held["server_id"] for held in shown["attachments"]]) == ("in-use", [one.container_uuid])
    assert len(rig.attachments(testbed, volume_id)) == 1
    await node.volumes.detach(one)
    assert (testbed.volume(volume_id) or {})["status"] == "available"


@pytest.mark.parametrize("point", [f"after:{name}" for name in UP])
async def test_killed_while_attaching_and_given_up(
    node: CinderNode, volume_id: str, testbed: Testbed, tmp_path: Path, point: str
) -> None:
    one = node.mapping(volume_id)
    await killed(node, tmp_path, "attach", one, point)
    await node.volumes.detach(one)
    assert (testbed.volume(volume_id) or {})["status"] == "available"


@pytest.mark.parametrize(
    "point", [*(f"{when}:{name}" for name in DOWN for when in ("before", "after")), "before:remove"]
)
async def test_killed_while_detaching(
    node: CinderNode, volume_id: str, testbed: Testbed, tmp_path: Path, point: str
) -> None:
    one = node.mapping(volume_id)
    path, _ = await node.volumes.attach(one)
    rig.write(path, "kept")
    await killed(node, tmp_path, "detach", one, point)
    await node.volumes.detach(one)
    assert (testbed.volume(volume_id) or {})["status"] == "available"
    again = node.mapping(volume_id)
    path, _ = await node.volumes.attach(again)
    assert rig.read(path, "kept") == "data"
    await node.volumes.detach(again)


async def test_killed_while_formatting(node: CinderNode, volume_id: str, tmp_path: Path) -> None:
    """What a killed mkfs left half done is nobody's data."""
    one = node.mapping(volume_id)
    await killed(node, tmp_path, "attach", one, "before:make")
    with rig.volume_file(volume_id).open("r+b") as file:
        file.write(b"LUKS\xba\xbe\x00\x01half of something")
    path, _ = await node.volumes.attach(one)
    rig.write(path, "kept")
    await node.volumes.detach(one)
