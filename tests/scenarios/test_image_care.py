"""A disk that counts as too full, with the real engine: images that nothing uses go, and no others; one that counts as
full takes no new containers."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.support.cloud import Cloud
from tests.support.engine import Engine
from tests.support.product import Product
from tests.support.registry import Registry
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(600)


def test_unused_images_go_and_a_full_disk_is_told(
    make_product: Callable[[], Product], registry: Registry, engine: Engine
) -> None:
    names = ("unused", "used", "theirs", "before", "wanted")
    images = {name: registry.push_busybox(f"care/{name}", "1", marker=os.urandom(64)) for name in names}
    engine.post("/images/create", fromImage=f"{registry.address}/care/before", tag="1")

    def present() -> set[str]:
        tags = {tag for row in engine.get("/images/json") for tag in row["RepoTags"] or ()}
        return {name for name, reference in images.items() if reference in tags}

    product = make_product().conf(
        DEFAULT={"periodic_interval_max": "1"},
        compute={
            "image_unused_seconds": "1",
            "image_low_percent": "0",
            "image_high_percent": "1",  # the real disk is fuller
        },
    )
    cloud = Cloud(product.start(), images["used"])
    assert present() == {"before"}
    (host,) = cloud.get("/hosts")["hosts"]
    cloud.post("/images", json={"repo": images["wanted"], "host": host["hostname"]})
    wait_until(lambda: "wanted" in present(), 60, "the administrator's image is there")
    cloud.running()
    gone = [cloud.running(image=images[name])["uuid"] for name in ("unused", "theirs", "before", "wanted")]
    foreign = engine.post("/containers/create", {"Image": images["theirs"], "Cmd": ["true"]}).json()["Id"]
    try:
        for uuid in gone:
            cloud.delete(uuid, stop="true")
        wait_until(lambda: "unused" not in present(), 60, f"the unused image is removed; log:\n{product.log()[-4000:]}")
        wait_until(lambda: "no unused image is left" in product.log(), 60, "it is told")
        assert present() == {"used", "theirs", "before", "wanted"}
    finally:
        engine.remove(foreign)
    wait_until(lambda: "theirs" not in present(), 60, "the image is removed that another tool's container has had")
    assert present() == {"used", "before", "wanted"}
    log = product.log()
    assert f"action=image_care reference={images['unused']} image=sha256:" in log
    assert log.count("no unused image is left") == 1
    again = cloud.running(image=images["unused"])  # pulled anew
    assert "unused" in present()
    cloud.delete(again["uuid"], stop="true")

    def conditions() -> list[str]:
        (shown,) = cloud.get("/hosts?pressure=true")["hosts"]
        return list(shown["conditions"])

    product.conf(compute={"disk_free_min_mib": str(2**30)}).restart()
    wait_until(lambda: conditions() == ["DISK_PRESSURE"], 60, "the host says that its disk is full")
    refused = cloud.create()
    assert refused["status"] == "Error"
    assert refused["status_reason"] == "There are not enough hosts available."
    (action,) = cloud.actions(refused["uuid"])
    (event,) = cloud.action(refused["uuid"], action["request_id"])["events"]
    assert event["traceback"].endswith("were rejected: DiskPressureFilter (DISK_PRESSURE): 1.")
    assert "conditions" not in cloud.get("/hosts")["hosts"][0]

    product.conf(compute={"disk_free_min_mib": "0"}).restart()
    wait_until(lambda: conditions() == [], 60, "the host says that it has room")
    cloud.running()
    product.clear()
