"""The cloud of the testbed. A machine on which it does not run fails the tests: nothing is skipped silently."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support import cinder_node as rig
from tests.support.cinder_node import CinderNode, cinder_node
from tests.support.keystone import Keystone
from tests.support.keystone import keystone as open_keystone
from tests.support.tcp_proxy import TcpProxy, tcp_proxy
from tests.support.testbed import PORTS, Testbed
from tests.support.testbed_project import Project


@pytest.fixture(scope="module")
def keystone(testbed: Testbed) -> Iterator[Keystone]:
    """The testbed's Keystone; what a module makes in it is removed at the module's end."""
    with open_keystone() as made:
        yield made


@pytest.fixture
def keystone_proxy() -> Iterator[TcpProxy]:
    """A proxy before the testbed's Keystone."""
    with tcp_proxy(PORTS["Keystone"]) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def owner(testbed: Testbed) -> Iterator[Project]:
    """One project for the tests of a module; ``nothing_stays`` removes its volumes after each."""
    project = Project(testbed)
    yield project
    project.remove()


@pytest.fixture
def nothing_stays(testbed: Testbed, owner: Project, tmp_path: Path) -> Iterator[None]:
    """No mount, no loop device, no hold on a volume; what a failed test left is taken away and told."""
    yield
    left = [f"mount {source}" for source in _mounted_below(tmp_path)]
    for path in _mounted_below(tmp_path):
        subprocess.run(["umount", path], check=False)
    volumes = [str(volume["id"]) for volume in testbed.volumes(project_id=owner.id)]
    left += [f"hold {one}" for volume in volumes for one in rig.attachments(testbed, volume)]
    left += [f"loop device {one} of {volume}" for volume in volumes for one in rig.loops(volume)]
    for volume in volumes:
        for one in rig.attachments(testbed, volume):
            testbed.zun.ask("volumev3", "DELETE", f"/attachments/{one['id']}", headers=_service(testbed))
    owner._remove_volumes()
    assert left == []


def _service(testbed: Testbed) -> dict[str, str]:
    return {"X-Service-Token": testbed.zun.token}


def _mounted_below(folder: Path) -> list[str]:
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [path for path in mounted if path.startswith(str(folder))]


@pytest.fixture
async def node(tmp_path: Path, owner: Project, testbed: Testbed) -> AsyncIterator[CinderNode]:
    """The node's side of Cinder's driver."""
    async with cinder_node(tmp_path, owner, testbed, volume__timeout_wait_volume_available=3) as made:
        yield made
