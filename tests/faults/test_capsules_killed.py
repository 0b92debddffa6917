"""SIGKILL before and after each step of a capsule's create and delete on a real containerd, one run a step; then a
restart, and the truth: the capsule ``Running`` with one sandbox, or ``Error``/absent with none; nothing held."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.faults.conftest import trap
from tests.support.capsule_cloud import CapsuleCloud
from tests.support.engine import Engine
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("capsules-killed")

UP = ("allocation", "volumes", "ports", "image", "sandbox", "init_1", "start")
DOWN = ("stop", "release_sandbox", "release_ports", "release_volumes", "release_allocation")


def around(steps: tuple[str, ...]) -> list[str]:
    return [f"{when}:{step}" for step in steps for when in ("before", "after")]


CREATE = ["scheduled", "recorded", "claimed", *around(UP), "before:end", "after:end"]
DELETE = ["scheduled", "recorded", "claimed", *around(DOWN), "before:end", "after:end"]


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[CapsuleCloud]:
    """Its product kills itself where it is told; started once, so that the engine and its pair are there."""
    made = CapsuleCloud(tmp_path_factory.mktemp("mortal-capsules"), engine)
    made.product.program = [sys.executable, "-m", "tests.faults.killable"]
    made.product.conf(
        DEFAULT={"sync_container_state_interval": "1"},
        compute={"reaper_interval": "1", "abandoned_volume_seconds": "2", "orphan_grace_seconds": "1"},
    )
    try:
        yield made.start(trap("", Path("/nonexistent")))
    finally:
        made.close()


@pytest.fixture
def mark(tmp_path: Path, mortal: CapsuleCloud) -> Iterator[Path]:
    """The trap's mark; after the test the product is emptied, by the process that came after the trap if it runs."""
    killed = tmp_path / "killed"
    yield killed
    if not (mortal.product.running and killed.exists()):
        mortal.product.restart(trap("", tmp_path / "none"))
    mortal.clear()


def lies(cloud: CapsuleCloud) -> list[str]:
    """What is not true, or not yet."""
    rows = cloud.http.get("/v1/capsules?all_projects=true").json()["capsules"]
    found = [f"{row['uuid']} is {row['status']}" for row in rows if row["status"] not in ("Running", "Error")]
    members = [one for row in rows for one in [*row["containers"], *row["init_containers"]]]
    alive = sorted(row["uuid"] for row in rows if row["status"] == "Running")
    boxes = cloud.sandboxes()
    if boxes != alive:
        found.append(f"the engine has {boxes}, records have {alive}")
    for what, query in (
        ("allocations", "SELECT DISTINCT consumer FROM local_allocations"),
        ("ports", "SELECT DISTINCT device_id FROM local_ports"),
    ):
        held = sorted(row[0] for row in cloud.product.query(query))
        if held != alive:
            found.append(f"{what} are held by {held}, records have {alive}")
    volumes = {row[0] for row in cloud.product.query("SELECT uuid FROM local_volumes")}
    mapped = {
        row[0] for row in cloud.product.query("SELECT volume_id FROM volume_mappings WHERE volume_id IS NOT NULL")
    }
    if volumes != mapped:
        found.append(f"volumes {sorted(volumes)}, of capsules {sorted(mapped)}")
    counted = sum(row[0] for row in cloud.product.query("SELECT containers FROM quota_usages"))
    if counted != len(members):
        found.append(f"quota counts {counted}, records have {len(members)}")
    unfinished = cloud.product.query("SELECT kind FROM operations WHERE finish_time IS NULL")
    return found + [f"operation {row[0]} is not done" for row in unfinished]


def expect_truth(cloud: CapsuleCloud, timeout: float = 120.0) -> None:
    wait_until(lambda: not lies(cloud), timeout, f"all is true again; {lies(cloud)}\n{cloud.product.log()[-6000:]}")


def ask(cloud: CapsuleCloud) -> str:
    mounts = [{"name": "data", "mountPath": "/data"}]
    return cloud.create(
        {"volumeMounts": mounts},
        {},
        initContainers=[{"script": "echo x > /data/x", "volumeMounts": mounts}],
        volumes=[{"name": "data", "cinder": {"size": 1, "autoRemove": True}}],
    )


@pytest.mark.parametrize("point", CREATE)
def test_killed_in_a_create(mortal: CapsuleCloud, mark: Path, point: str) -> None:
    mortal.product.restart(trap(f"create:{point}", mark))
    with contextlib.suppress(httpx.TransportError):  # the node may come to its end before the API has answered
        ask(mortal)
    mortal.product.wait_ended()
    assert mark.exists(), "the trap went off"
    mortal.product.start(trap("", mark))
    expect_truth(mortal)
    shown = mortal.http.get("/v1/capsules").json()["capsules"]
    assert [one["status"] for one in shown] == ([] if point == "scheduled" else ["Running"])


@pytest.mark.parametrize("point", DELETE)
def test_killed_in_a_delete(mortal: CapsuleCloud, mark: Path, point: str) -> None:
    mortal.product.restart(trap(f"delete:{point}", mark))
    uuid = ask(mortal)
    mortal.wait(uuid, "Running")
    answered = True
    try:
        mortal.http.delete(f"/v1/capsules/{uuid}")
    except httpx.TransportError:
        answered = False
    mortal.product.wait_ended()
    assert mark.exists(), "the trap went off"
    mortal.product.start(trap("", mark))
    if answered:
        mortal.until(uuid, lambda shown: not shown, 60, "is gone")
    expect_truth(mortal)


def test_the_daemon_killed_while_capsules_are_made(mortal: CapsuleCloud, mark: Path) -> None:
    made = [mortal.create({}, name=f"daemon-{number}") for number in range(3)]
    mortal.kill_daemon()
    mortal.start_daemon()
    for uuid in made:
        mortal.until(uuid, lambda shown: shown["status"] in ("Running", "Error"), 120, "comes to an end")
    expect_truth(mortal)
    again = mortal.create({})
    mortal.wait(again, "Running")


def test_containerd_killed_while_capsules_are_made_and_run(mortal: CapsuleCloud, mark: Path) -> None:
    lives = mortal.create({}, name="lives")
    before = mortal.wait(lives, "Running")["containers"][0]["uuid"]
    made = [mortal.create({}, name=f"engine-{number}") for number in range(3)]
    mortal.containerd.kill()
    mortal.containerd.start()
    for uuid in made:
        mortal.until(uuid, lambda shown: shown["status"] in ("Running", "Error"), 120, "comes to an end")
    expect_truth(mortal)
    assert mortal.execute(before, "echo still here") == "still here\n"
    mortal.clear()
