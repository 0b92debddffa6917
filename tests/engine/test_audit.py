"""``zun-manage audit`` on a product with real Docker: leftovers of each kind are told and removed, others' stay."""

from __future__ import annotations

import base64
import contextlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support import forks
from tests.support.cloud import Cloud
from tests.support.engine import OWNER_LABEL, Engine
from tests.support.product import Product
from tests.support.wait import wait_until

MANAGE = Path(sys.executable).with_name("zun-manage")
_OF_A_CONTAINER = (
    ("containers", "uuid"),
    ("containers", "capsule_uuid"),
    ("volume_mappings", "container_uuid"),
)


def audit(product: Product, *options: str, code: int) -> dict[str, Any]:
    command = [str(MANAGE), "--config-file", str(product.state.conf_file), "audit", "--json", *options]
    done = forks.run(command, timeout=120)
    assert done.returncode == code, f"{done.returncode} {done.stdout} {done.stderr}"
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def found(report: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(one["kind"], one["container"], one["state"]) for one in report["findings"]}


@pytest.fixture
def cloud(make_product: Any, busybox: str) -> Cloud:
    """Of a product that looks for leftovers so seldom that the audit has to."""
    product: Product = make_product()
    product.conf(
        DEFAULT={"sync_container_state_interval": "-1"},
        compute={"abandoned_volume_seconds": "1", "reaper_interval": "600", "orphan_grace_seconds": "3600"},
    )
    return Cloud(product.start(), busybox)


def make(cloud: Cloud, **more: Any) -> str:
    file = base64.b64encode(b"hello").decode()
    mounts = [{"size": "1", "destination": "/data"}, {"type": "bind", "source": file, "destination": "/etc/greeting"}]
    return str(cloud.running(image_pull_policy="ifnotpresent", mounts=mounts, **more)["uuid"])


def forget(product: Product, uuid: str) -> None:
    """The record goes, as with a database restored from an older backup."""
    database = product.state.root / "zun.sqlite"
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        for table, column in _OF_A_CONTAINER:
            connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (uuid,))


def telling(kind: str, product: Product) -> dict[str, Any] | None:
    """What the audit says, once it tells of this kind."""
    seen = audit(product, code=1)
    return seen if kind in {one["kind"] for one in seen["findings"]} else None


@pytest.fixture
def foreign(cloud: Cloud, engine: Engine, busybox: str) -> Iterator[tuple[str, Path]]:
    """Another deployment's container, named as ours are, and somebody's mount among ours."""
    name = f"zun-{uuid4()}"
    body = {"Image": busybox, "Cmd": ["sleep", "1000"], "Labels": {OWNER_LABEL: f"{uuid4()}/somewhere"}}
    engine.post("/containers/create", body, name=name)
    mount = cloud.product.state.root / "mnt" / str(uuid4())
    mount.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "theirs", str(mount)], check=True)
    try:
        yield name, mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)
        engine.remove(name)


def test_what_no_record_claims_is_told_and_removed_and_all_else_stays(
    cloud: Cloud, engine: Engine, foreign: tuple[str, Path]
) -> None:
    product = cloud.product
    kept, lost = make(cloud), make(cloud)
    assert audit(product, "--heal", "--grace", "0", code=0)["findings"] == []
    forget(product, lost)
    seen = wait_until(lambda: telling("volume", product), 60, "its volume is older than the sweep leaves them")
    kinds = ("engine_container", "port", "allocation")
    assert found(seen) >= {(kind, lost, "found") for kind in kinds}
    assert sorted(one["kind"] for one in seen["findings"]) == sorted([*kinds, "mount", "mount", "volume"])
    young = audit(product, "--heal", code=1)
    assert {one["state"] for one in young["findings"]} == {"young"}
    assert cloud.engine(lost), "looking, or being asked too early, changes nothing"
    healed = audit(product, "--heal", "--grace", "0s", code=0)
    assert {one["state"] for one in healed["findings"]} == {"removed"}
    assert cloud.holds_nothing(lost)
    assert audit(product, "--heal", "--grace", "0s", code=0)["findings"] == []
    assert cloud.show(kept)["status"] == "Running"  # type: ignore[index]
    assert (
        cloud.post(f"/containers/{kept}/execute", 200, params={"command": "cat /etc/greeting"}).json()["output"]
        == "hello"
    )
    name, mount = foreign
    assert engine.get(f"/containers/{name}/json")["State"]["Status"] == "created"
    assert str(mount) in product.mounts()
