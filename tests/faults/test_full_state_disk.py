"""The disk of the state directory is full: real Docker, the embedded database, and a volume that needs room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cloud import Cloud
from tests.support.product import Product
from tests.support.wait import wait_until

MIB = 1 << 20
LEFT = 8 * MIB
"""Room for the database, none for a volume."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Where ``make_product`` puts the state of its first product: 1400 MiB, of which only what is written is used."""
    where, image = tmp_path / "zun0", tmp_path / "disk"
    where.mkdir()
    with image.open("wb") as out:
        out.truncate(1400 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True, timeout=60)
    subprocess.run(["mount", "-o", "loop", str(image), str(where)], check=True, timeout=60)
    try:
        yield where
    finally:
        subprocess.run(["umount", str(where)], check=True, timeout=60)


@pytest.fixture
def product(small_disk: Path, make_product: Callable[[], Product]) -> Iterator[Product]:
    """Ended before its disk goes."""
    made = make_product()
    assert made.state.root == small_disk
    yield made.start()
    made.stop()


def fill(file: Path, left: int) -> None:
    room = os.statvfs(file.parent)
    with file.open("wb") as out:
        os.posix_fallocate(out.fileno(), 0, room.f_bavail * room.f_frsize - max(left, 4 * MIB))
    if not left:
        with file.with_suffix(".rest").open("wb", buffering=0) as out:
            try:
                while True:
                    out.write(bytes(4096))
            except OSError as error:
                assert "No space left" in str(error)  # noqa: PT017 - it is the end that is wanted


def test_a_full_disk_of_the_node(product: Product, busybox: str) -> None:
    cloud, filler = Cloud(product, busybox), product.state.root / "filler"
    body = {"image_pull_policy": "ifnotpresent"}
    mounts = [{"size": "1", "destination": "/data"}]
    stays, dies = cloud.running(**body)["uuid"], cloud.running(**body)["uuid"]
    fill(filler, LEFT)
    refused = cloud.ask(mounts=mounts, **body)
    assert refused.status_code == 400, refused.text
    assert "0 GiB left" in refused.json()["errors"][0]["title"]
    plain = cloud.running(**body)["uuid"]
    filler.unlink()

    fill(filler, 0)

    def database_refuses() -> bool:
        answer = cloud.ask(labels={"much": "x" * 60_000}, **body)
        assert answer.status_code in (202, 503), answer.text
        return answer.status_code == 503

    wait_until(database_refuses, 60, "a create is refused once the room inside the database is used up")
    product.engine.post(f"/containers/zun-{dies}/kill")
    assert {row["uuid"] for row in cloud.get("/containers")["containers"]} >= {stays, dies, plain}
    assert (cloud.show(stays) or {})["status"] == "Running"
    assert product.running

    filler.unlink()
    filler.with_suffix(".rest").unlink()
    cloud.wait(dies, "Stopped")
    made = cloud.running(mounts=mounts, **body)["uuid"]
    assert "/data" in cloud.act(made, "execute", 200, command="df /data").json()["output"]
    for row in cloud.get("/containers")["containers"]:
        cloud.wait(row["uuid"], "Running", "Stopped", "Error")
    product.clear()
    assert "Traceback" not in product.log()
