"""The fault table, create on the node: a service that is stopped, hung or broken from a step on.

The container runs once the fault has passed; one that lasts ends in ``Error`` with a reason that names the service, and
nothing is left anywhere.
"""

from __future__ import annotations

import re

import pytest

from tests.faults.cloud_rig import FaultRig
from tests.faults.rows import HTTP, LOSE, RAW, Row, rows

pytestmark = pytest.mark.xdist_group("faults-create")

OPTIONS = {"network": {"driver": "direct"}}
SILENT = ("stop", "hang", "lose")
"""An engine that answers 500 has said no: that is told at once."""
PORTS = "POST /v2.0/ports"
CREATES = "POST /v[^/]*/containers/create"
PASSES = [
    *rows("MariaDB", RAW, at="create:claim"),
    *rows("MariaDB", RAW, at="create:before:volumes", needs="volume"),
    *rows("MariaDB", RAW, at="create:before:end"),
    *[
        row
        for step in ("allocation", "image", "ports", "engine", "start")
        for row in rows("MariaDB", ("cut", "hang"), at=f"create:before:{step}")
    ],
    *rows("RabbitMQ", RAW),
    *rows("RabbitMQ", RAW, side="api"),
    *rows("Keystone", HTTP, f"Neutron {PORTS}"),
    *rows("Keystone", HTTP, "Cinder POST /v3/attachments", needs="volume"),
    *rows("registry", HTTP, "(GET|HEAD) /v2/[^ ]*manifests", needs="pull"),
    *rows("registry", HTTP, "GET /v2/fresh/blobs", needs="new layer"),
    *rows("Glance", HTTP, "GET /v2/images/[^/]*$", needs="glance"),
    *rows("Glance", LOSE, "GET /v2/images/[^/]*/file", needs="glance"),
    *rows("Cinder", HTTP, "GET /v3/volumes", needs="volume"),
    *rows("Cinder", LOSE, "POST /v3/attachments$", needs="volume"),
    *rows("Cinder", LOSE, "PUT /v3/attachments/", needs="volume"),
    *rows("Cinder", LOSE, "POST /v3/attachments/.*/action", needs="volume"),
    *rows("Cinder", ("refuse",), at="create:before:volumes", needs="size"),
    *rows("Neutron", HTTP, "GET /v2.0/security-groups", needs="exposed"),
    *rows("Neutron", LOSE, "POST /v2.0/security-groups", needs="exposed"),
    *rows("Neutron", LOSE, "POST /v2.0/security-group-rules", needs="exposed"),
    *rows("Neutron", LOSE, PORTS, needs="volume"),
    *rows("Neutron", ("refuse",), at="create:before:ports", needs="volume"),
    *rows("Neutron", HTTP, r"GET /v2.0/ports.*fields=status"),
    *rows("Docker", SILENT, "GET /v[^/]*/images/", needs="volume"),
    *rows("Docker", HTTP, "POST /v[^/]*/images/create", needs="pull"),
    *rows("Docker", SILENT, CREATES, needs="volume"),
    *rows("Docker", SILENT, "POST /v[^/]*/containers/[^/]*/start", needs="volume"),
    *rows("Docker", SILENT, "GET /v[^/]*/containers/zun-[^/]*/json"),
]
LASTS = [
    *rows("Keystone", ("stop",), f"Neutron {PORTS}", needs="all", ends="Error"),
    *rows("registry", HTTP, "(GET|HEAD) /v2/[^ ]*manifests", needs="pull", ends="Error"),
    *rows("registry", HTTP, "GET /v2/fresh/blobs", needs="new layer", ends="Error"),
    *rows("Glance", ("500", "hang"), "GET /v2/images/[^/]*/file", needs="glance", ends="Error"),
    *rows("Cinder", ("500",), "POST /v3/attachments$", needs="all", ends="Error"),
    *rows("Cinder", ("hang",), "PUT /v3/attachments/", needs="all", ends="Error"),
    *rows("Cinder", ("stop",), "POST /v3/attachments/.*/action", needs="all", ends="Error"),
    *rows("Neutron", HTTP, PORTS, needs="all", ends="Error"),
    *rows("Neutron", ("500",), "POST /v2.0/security-group-rules", needs="all", ends="Error"),
    *rows("Docker", ("500",), "GET /v[^/]*/images/", needs="all", ends="Error"),
    *rows("Docker", ("500", "stop"), CREATES, needs="all", ends="Error"),
    *rows("Docker", ("500",), "GET /v[^/]*/containers/zun-[^/]*/json", needs="all", ends="Error"),
    *rows("Docker", HTTP, "POST /v[^/]*/containers/[^/]*/start", needs="all", ends="Error"),
]


@pytest.mark.parametrize("row", PASSES, ids=str)
def test_a_create_goes_on_once_the_fault_has_passed(rig: FaultRig, row: Row) -> None:
    body = rig.body(row.needs)
    with rig.broken(row):
        uuid = rig.cloud.create(**body)["uuid"]
        rig.wait_met(row, "create", uuid)
    rig.check_running(uuid, row.needs)
    rig.remove(uuid)


@pytest.mark.parametrize("row", LASTS, ids=str)
def test_a_create_whose_fault_lasts_ends_in_error_and_leaves_nothing(rig: FaultRig, row: Row) -> None:
    body = rig.body(row.needs)
    with rig.broken(row):
        uuid = rig.cloud.create(**body)["uuid"]
        shown = rig.cloud.wait(uuid, "Error", timeout=120)
    assert re.search(row.named, shown["status_reason"]), shown["status_reason"]
    rig.nothing_is_held(kept=1 if row.needs == "all" else 0)
    rig.remove(uuid)


RETRIED = [
    *rows("Placement", LOSE, "GET /allocations/"),
    *rows("Neutron", HTTP, r"GET /v2.0/ports\?device_id"),
]


@pytest.mark.parametrize("row", RETRIED, ids=str)
def test_a_create_that_is_tried_again_looks_for_what_the_first_try_took(rig: FaultRig, row: Row) -> None:
    """Only a second attempt asks for the allocation that the API took, and for ports."""
    body = rig.body(row.needs)
    rig.proxy("Docker").fault("lose", CREATES)
    with rig.broken(row):
        uuid = rig.cloud.create(**body)["uuid"]
        rig.wait_met(row, "create", uuid)
    rig.check_running(uuid, row.needs)
    rig.remove(uuid)


@pytest.mark.parametrize("row", rows("Placement", ("500",), "/allocations/", needs="all", ends="Error"), ids=str)
def test_a_create_that_is_tried_again_without_placement_ends_in_error_and_leaves_nothing(
    rig: FaultRig, row: Row
) -> None:
    body = rig.body(row.needs)
    rig.proxy("Docker").fault("lose", CREATES)
    with rig.broken(row):
        uuid = rig.cloud.create(**body)["uuid"]
        shown = rig.cloud.wait(uuid, "Error", timeout=120)
    assert re.search(row.named, shown["status_reason"]), shown["status_reason"]
    rig.nothing_is_held(kept=1)
    rig.remove(uuid)
