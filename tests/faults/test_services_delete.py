"""The fault table, delete on the node: a service that is stopped, hung or broken from a step on.

The container is gone once the fault has passed, and nothing of it is left anywhere.
"""

from __future__ import annotations

import pytest

from tests.faults.cloud_rig import FaultRig
from tests.faults.rows import HTTP, LOSE, RAW, Row, rows
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("faults-delete")

OPTIONS = {"network": {"driver": "direct"}}
STEPS = [
    *rows("MariaDB", RAW, at="delete:claim"),
    *rows("MariaDB", RAW, at="delete:before:end"),
    *[
        row
        for step in (
            "stop",
            "release_engine",
            "release_image",
            "release_ports",
            "release_volumes",
            "release_allocation",
        )
        for row in rows("MariaDB", ("cut", "hang"), at=f"delete:before:{step}")
    ],
    *rows("RabbitMQ", RAW),
    *rows("RabbitMQ", RAW, side="api"),
    *rows("Keystone", HTTP, "Neutron DELETE /v2.0/ports"),
    *rows("Keystone", HTTP, "Placement DELETE /allocations"),
    *rows("Docker", LOSE, "POST /v[^/]*/containers/[^/]*/stop"),
    *rows("Docker", LOSE, "DELETE /v[^/]*/containers/", needs="all"),
    *rows("Neutron", HTTP, r"GET /v2.0/ports\?device_id"),
    *rows("Neutron", LOSE, "DELETE /v2.0/ports/", needs="all"),
    *rows("Neutron", HTTP, "GET /v2.0/security-groups", needs="exposed"),
    *rows("Neutron", LOSE, "DELETE /v2.0/security-groups/", needs="exposed"),
    *rows("Neutron", ("refuse",), at="delete:before:release_ports"),
    *rows("Cinder", HTTP, "GET /v3/volumes/", needs="volume"),
    *rows("Cinder", HTTP, "GET /v3/attachments", needs="volume"),
    *rows("Cinder", LOSE, "POST /v3/volumes/.*/action", needs="volume"),
    *rows("Cinder", LOSE, "DELETE /v3/attachments/", needs="volume"),
    *rows("Cinder", LOSE, "DELETE /v3/volumes/", needs="size"),
    *rows("Cinder", ("refuse",), at="delete:before:release_volumes", needs="all"),
    *rows("Placement", LOSE, "DELETE /allocations", needs="all"),
    *rows("Placement", ("refuse",), at="delete:before:release_allocation"),
]


@pytest.mark.parametrize("row", STEPS, ids=str)
def test_a_delete_goes_on_once_the_fault_has_passed(rig: FaultRig, row: Row) -> None:
    uuid = rig.running(row.needs)
    with rig.broken(row):
        rig.cloud.delete(uuid, stop="true")
        rig.wait_met(row, "delete", uuid)
    rig.wait_gone(uuid)


UNDONE = [
    *rows("Placement", HTTP, "DELETE /allocations"),
    *rows("Neutron", HTTP, r"GET /v2.0/ports\?device_id"),
    *rows("Cinder", HTTP, "GET /v3/attachments"),
    *rows("Docker", HTTP, "GET /v[^/]*/containers/zun-"),
]


@pytest.mark.parametrize("row", UNDONE, ids=str)
def test_what_a_failed_create_cannot_give_back_at_once_is_given_back_later(rig: FaultRig, row: Row) -> None:
    """``Error`` at once, with the reason of the create; the release goes on until the other service is there again."""
    rig.registry.push_busybox("broken", "latest")
    rig.proxy("registry").fault("500", "/v2/broken/")
    body = rig.body("all") | {"image": "broken", "image_pull_policy": "always"}
    rig.hold("create:before:release_engine")
    uuid = rig.cloud.create(**body)["uuid"]
    wait_until((rig.holds / "create:before:release_engine.met").exists, 60, "the create is being undone")
    with rig.broken(row):
        rig.release()
        shown = rig.cloud.wait(uuid, "Error", timeout=120)
        assert "broken:latest" in shown["status_reason"]
        rig.wait_met(row, "release", uuid)
    rig.nothing_is_held(kept=1)
    rig.remove(uuid)
