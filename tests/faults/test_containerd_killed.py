"""SIGKILL of containerd before and after each step of a capsule's create and delete; then it comes
back, and the truth: the capsule ``Running`` (or ``Error`` with a reason) or gone, and nothing of it is left."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import ROOT
from tests.faults.test_capsules_killed import around, ask, expect_truth
from tests.support.capsule_cloud import CapsuleCloud
from tests.support.engine import Engine
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("containerd-killed")

CREATE = ["claimed", *around(("image", "sandbox", "init_1", "start")), "before:end"]
DELETE = ["claimed", *around(("stop", "release_sandbox"))]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[CapsuleCloud]:
    """Its product kills containerd where a test orders it."""
    made = CapsuleCloud(tmp_path_factory.mktemp("containerd-killed"), engine)
    made.product.program = [sys.executable, "-m", "tests.faults.killable"]
    made.product.conf(
        DEFAULT={"sync_container_state_interval": "1"},
        compute={"reaper_interval": "1", "abandoned_volume_seconds": "2", "orphan_grace_seconds": "1"},
    )
    order = made.product.state.conf_file.parent / "order"
    try:
        yield made.start({"ZUN_KILL_ORDER": str(order), "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]})
    finally:
        made.close()


def order(cloud: CapsuleCloud) -> Path:
    return cloud.product.state.conf_file.parent / "order"


def kill_at(cloud: CapsuleCloud, point: str) -> None:
    part = order(cloud).with_suffix(".part")
    part.write_text(f"{point} {cloud.containerd.process.pid}")
    part.replace(order(cloud))


def back_again(cloud: CapsuleCloud) -> None:
    """Once it was killed, it is started."""
    wait_until(lambda: not order(cloud).exists(), 60, f"containerd is killed\n{cloud.product.log()[-3000:]}")
    cloud.containerd.kill()
    cloud.containerd.start()


def taken(cloud: CapsuleCloud) -> str:
    """A capsule that the node has. For a moment after an engine came back no node may be known that takes capsules."""

    def on_the_node() -> str:
        uuid = ask(cloud)
        shown = cloud.until(uuid, lambda shown: shown["host"] or shown["status"] == "Error", 60, "is placed")
        if shown["host"]:
            return uuid
        assert "not enough hosts" in shown["status_reason"], shown
        cloud.delete(uuid)  # the quota has not room for many
        return ""

    return wait_until(on_the_node, 60, "a node takes a capsule")


@pytest.mark.parametrize("point", CREATE)
def test_killed_in_a_create(cloud: CapsuleCloud, point: str) -> None:
    kill_at(cloud, f"create:{point}")
    uuid = taken(cloud)
    back_again(cloud)
    shown = cloud.until(uuid, lambda shown: shown["status"] in ("Running", "Error"), 90, "comes to an end")
    assert shown["status"] == "Running" or shown["status_reason"]
    expect_truth(cloud)
    cloud.clear()


@pytest.mark.parametrize("point", DELETE)
def test_killed_in_a_delete(cloud: CapsuleCloud, point: str) -> None:
    uuid = taken(cloud)
    cloud.wait(uuid, "Running")
    kill_at(cloud, f"delete:{point}")
    cloud.http.delete(f"/v1/capsules/{uuid}")
    back_again(cloud)
    cloud.until(uuid, lambda shown: not shown, 90, "is gone")
    expect_truth(cloud)
    cloud.clear()
