"""The fault table where Kuryr plugs: Kuryr, Docker and Neutron broken at the steps that only this way has.

Docker is Kuryr's client: what it makes of a fault is told in its own words, as those of its plug-in.
"""

from __future__ import annotations

import re

import pytest

from tests.faults.cloud_rig import FaultRig
from tests.faults.kuryr_pools import forget_network, pools
from tests.faults.rows import HTTP, LOSE, Row, rows

pytestmark = pytest.mark.xdist_group("faults-kuryr")

OPTIONS = {"network": {"driver": "kuryr"}, "docker": {"default_timeout": 30}}
NETWORK = [
    *rows("Neutron", HTTP, "GET /v2.0/subnetpools"),
    *rows("Neutron", LOSE, "POST /v2.0/subnetpools"),
    *rows("Docker", ("stop", "hang"), "GET /v[^/]*/networks"),
    *rows("Docker", ("stop", "hang", "lose"), "POST /v[^/]*/networks/create"),
    *rows("Kuryr", HTTP, "POST /IpamDriver.RequestPool"),
    *rows("Kuryr", HTTP, "POST /NetworkDriver.CreateNetwork"),
]
CONTAINER = [
    *rows("Kuryr", LOSE, "POST /IpamDriver.RequestAddress"),
    *rows("Kuryr", LOSE, "POST /NetworkDriver.CreateEndpoint"),
    *rows("Kuryr", LOSE, "POST /NetworkDriver.Join"),
    *rows("Docker", ("hang",), "POST /v[^/]*/containers/[^/]*/start"),
]
LASTS = [
    *rows("Docker", ("500",), "GET /v[^/]*/networks", ends="Error"),
    *rows("Docker", ("500",), "POST /v[^/]*/networks/create", ends="Error"),
    *rows("Kuryr", ("500",), "POST /IpamDriver.RequestPool", ends="Error"),
    *rows("Kuryr", ("500",), "POST /IpamDriver.RequestAddress", ends="Error"),
    *rows("Kuryr", ("500",), "POST /NetworkDriver.CreateEndpoint", ends="Error"),
    *rows("Kuryr", ("500",), "POST /NetworkDriver.Join", ends="Error"),
]
DELETE = [
    *rows("Kuryr", HTTP, "POST /NetworkDriver.Leave"),
    *rows("Kuryr", HTTP, "POST /NetworkDriver.DeleteEndpoint"),
    *rows("Kuryr", HTTP, "POST /IpamDriver.ReleaseAddress"),
    *rows("Docker", ("hang", "stop"), "DELETE /v[^/]*/containers/"),
]


def created_through(rig: FaultRig, row: Row) -> None:
    with rig.broken(row):
        uuid = rig.cloud.create(**rig.body(""))["uuid"]
        rig.wait_met(row, "create", uuid)
    rig.check_running(uuid, "")
    rig.remove(uuid)


@pytest.mark.parametrize("row", NETWORK, ids=str)
def test_the_engines_network_is_made_through_a_fault(rig: FaultRig, row: Row) -> None:
    mark = forget_network(rig)
    created_through(rig, row)
    assert len(rig.engine.networks({rig.project.network_id})) == 1
    assert len(pools(rig, mark)) == 1


@pytest.mark.parametrize("row", CONTAINER, ids=str)
def test_a_container_is_plugged_through_a_fault(rig: FaultRig, row: Row) -> None:
    created_through(rig, row)


@pytest.mark.parametrize("row", LASTS, ids=str)
def test_a_fault_that_lasts_is_told_and_leaves_nothing(rig: FaultRig, row: Row) -> None:
    if "RequestPool" in row.step or "networks" in row.step:
        forget_network(rig)
    with rig.broken(row):
        uuid = rig.cloud.create(**rig.body(""))["uuid"]
        shown = rig.cloud.wait(uuid, "Error", timeout=150)
    assert re.search(row.named, shown["status_reason"]), shown["status_reason"]
    rig.nothing_is_held()
    rig.remove(uuid)


@pytest.mark.parametrize("row", DELETE, ids=str)
def test_a_container_is_unplugged_through_a_fault(rig: FaultRig, row: Row) -> None:
    uuid = rig.running("")
    with rig.broken(row):
        rig.cloud.delete(uuid, stop="true")
        rig.wait_met(row, "delete", uuid)
    rig.wait_gone(uuid)
