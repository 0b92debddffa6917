"""A product that can be made to kill itself, a registry, and the invariant that has to hold after every restart."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.cloud_rig import FaultRig
from tests.support.cloud import SETTLED, Cloud
from tests.support.engine import Engine
from tests.support.product import Product
from tests.support.registry import Registry, start_registry
from tests.support.testbed import Testbed
from tests.support.wait import wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A real registry with ``busybox:latest``."""
    started = start_registry(tmp_path_factory.mktemp("registry"))
    started.push_busybox("busybox", "latest")
    yield started
    started.stop()


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory, engine: Engine, registry: Registry) -> Iterator[Product]:
    """A product with the trap of ``killable`` around it; not started."""
    product = Product(tmp_path_factory.mktemp("mortal") / "zun", engine)
    product.program = [sys.executable, "-m", "tests.faults.killable"]
    product.conf(
        docker={"default_registry": registry.address},
        DEFAULT={"sync_container_state_interval": "1"},
        quota={"containers": "100", "cpu": "100"},
        compute={"reaper_interval": "1", "abandoned_volume_seconds": "2", "orphan_grace_seconds": "1"},
    )
    try:
        yield product
    finally:
        product.stop()
        assert not product.remains(), product.remains()


@pytest.fixture
def mark(tmp_path: Path, mortal: Product) -> Iterator[Path]:
    """The trap's mark; after the test the product is emptied, by the process that came after the trap if it runs."""
    killed = tmp_path / "killed"
    yield killed
    if not (mortal.running and killed.exists()):
        mortal.restart(trap("", tmp_path / "none"))
    mortal.clear()
    mortal.terminate()


@pytest.fixture(scope="module")
def running_rig(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, testbed: Testbed, engine: Engine
) -> Iterator[FaultRig]:
    """A module names its ``OPTIONS``. Image and network are there from the beginning."""
    made = FaultRig(tmp_path_factory.mktemp("faults"), testbed, engine, **request.module.OPTIONS)
    try:
        made.start()
        made.remove(made.running("pull"))
        yield made
    finally:
        made.close()


@pytest.fixture
def rig(running_rig: FaultRig) -> Iterator[FaultRig]:
    """For the rows of a module. After each of them all works again, and no container is left."""
    yield running_rig
    running_rig.recover()


def trap(point: str, mark: Path) -> dict[str, str]:
    """Environment of a product that dies at ``<kind>:<point>``, once."""
    return {"ZUN_KILL_AT": point, "ZUN_KILL_MARK": str(mark), "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}


def lies(cloud: Cloud) -> list[str]:
    """What is not true, or not yet: empty when records, engine, allocations, ports, volumes and quota agree."""
    product = cloud.product
    rows = cloud.get("/containers?all_projects=true")["containers"]
    found = [f"{r['uuid']} is {r['status']}/{r['task_state']}" for r in rows]
    found = [text for row, text in zip(rows, found, strict=True) if row["status"] not in SETTLED or row["task_state"]]
    alive = {row["uuid"] for row in rows if row["status"] != "Error"}
    in_engine = [item["Names"][0].removeprefix("/zun-") for item in product.engine_containers()]
    if sorted(in_engine) != sorted(alive):
        found.append(f"engine has {sorted(in_engine)}, records have {sorted(alive)}")
    running = {i["Names"][0].removeprefix("/zun-") for i in product.engine_containers() if i["State"] == "running"}
    told = {row["uuid"] for row in rows if row["status"] == "Running"}
    if running != told:
        found.append(f"engine runs {sorted(running)}, records say {sorted(told)}")
    for what, query in (
        ("allocations", "SELECT DISTINCT consumer FROM local_allocations"),
        ("ports", "SELECT DISTINCT device_id FROM local_ports"),
    ):
        held = {row[0] for row in product.query(query)}
        if held != alive:
            found.append(f"{what} are held by {sorted(held)}, records have {sorted(alive)}")
    volumes = {row[0] for row in product.query("SELECT uuid FROM local_volumes")}
    mapped = {row[0] for row in product.query("SELECT volume_id FROM volume_mappings WHERE volume_id IS NOT NULL")}
    if volumes != mapped:
        found.append(f"volumes {sorted(volumes)}, mounts of containers {sorted(mapped)}")
    counted = sum(row[0] for row in product.query("SELECT containers FROM quota_usages"))
    if counted != len(rows):
        found.append(f"quota counts {counted}, records have {len(rows)}")
    return found


def expect_truth(cloud: Cloud, timeout: float = 120.0) -> None:
    """The invariant, reached within ``timeout`` seconds of a restart."""
    wait_until(lambda: not lies(cloud), timeout, f"all is true again; {lies(cloud)}\n{cloud.product.log()[-6000:]}")
