"""The fault table, the API's part: a service that is stopped, hung or broken while a create or a delete is accepted.

The request is refused with a reason that names the service, and nothing of it is left anywhere.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.cloud_rig import FaultRig
from tests.faults.rows import HTTP, RAW, Row, rows
from tests.support.real_cloud import RealCloud

pytestmark = pytest.mark.xdist_group("faults-api")

OPTIONS = {
    "network": {"driver": "direct"},
    "api": {"enable_image_validation": True},
    "docker": {"default_timeout": 6},
}
CREATE = [
    *rows("Keystone", HTTP, "GET /v3/auth/tokens", side="api"),
    *rows("MariaDB", RAW, side="api"),
    *rows("MariaDB", RAW, at="api:record", needs="size", side="api"),
    *rows("Neutron", HTTP, "GET /v2.0/networks", side="api"),
    *rows("Neutron", HTTP, "GET /v2.0/security-groups", needs="group", side="api"),
    *rows("Glance", HTTP, "GET /v2/images", needs="glance", side="api"),
    *rows("Cinder", HTTP, "GET /v3/volumes", needs="volume", side="api"),
    *rows("Cinder", (*HTTP, "lose"), "POST /v3/volumes", needs="size", side="api"),
    *rows("Placement", HTTP, "GET /allocation_candidates", needs="size", side="api"),
    *rows("Placement", HTTP, "PUT /allocations", needs="size", side="api"),
    *rows("RabbitMQ", RAW, at="api:place", needs="size", side="api"),
    *rows("registry", HTTP, "(HEAD|GET) /v2/.*manifests", needs="pull"),
]


@pytest.mark.parametrize("row", CREATE, ids=str)
def test_a_create_is_refused_and_leaves_nothing(rig: FaultRig, row: Row) -> None:
    body = rig.body(row.needs)
    rig.project.account.log_in()  # a token that nobody has checked yet
    cloud = RealCloud(rig.product, rig.project.account)
    with rig.broken(row), ThreadPoolExecutor(1) as beside:
        asked = beside.submit(cloud.ask, **body)
        if row.at:
            rig.begin(row)
        answer = asked.result()
    assert answer.status_code == 503, answer.text
    assert re.search(row.named, answer.json()["errors"][0]["title"]), answer.text
    assert not rig.product.recorded()
    rig.nothing_is_held()


DELETE = [
    *rows("Keystone", HTTP, "GET /v3/auth/tokens", side="api"),
    *rows("MariaDB", RAW, side="api"),
    *rows("MariaDB", RAW, at="api:delete", side="api"),
]


@pytest.mark.parametrize("row", DELETE, ids=str)
def test_a_delete_is_refused_and_can_be_asked_again(rig: FaultRig, row: Row) -> None:
    uuid = rig.running("size")
    rig.project.account.log_in()
    cloud = RealCloud(rig.product, rig.project.account)
    with rig.broken(row), ThreadPoolExecutor(1) as beside:
        asked = beside.submit(cloud.http.delete, f"/v1/containers/{uuid}", params={"stop": "true"})
        if row.at:
            rig.begin(row)
        answer = asked.result()
    assert answer.status_code == 503, answer.text
    assert re.search(row.named, answer.json()["errors"][0]["title"]), answer.text
    rig.check_running(uuid, "size")
    rig.remove(uuid)


WITHOUT_HOST = [
    *rows("Neutron", HTTP, "GET /v2.0/ports", side="api"),
    *rows("Neutron", HTTP, "GET /v2.0/security-groups", side="api"),
    *rows("Placement", HTTP, "DELETE /allocations", side="api"),
]


@pytest.mark.parametrize("row", WITHOUT_HOST, ids=str)
def test_a_container_without_a_host_stays_until_all_of_it_is_given_back(rig: FaultRig, row: Row) -> None:
    """No node deletes it: the API does, and asks the services itself."""
    uuid = rig.cloud.create(**rig.body("size"), availability_zone="nowhere")["uuid"]
    rig.cloud.wait(uuid, "Error")
    assert rig.admin.http.get(f"/v1/containers/{uuid}", params={"all_projects": "true"}).json()["host"] is None
    with rig.broken(row):
        answer = rig.cloud.http.delete(f"/v1/containers/{uuid}")
    assert answer.status_code == 503, answer.text
    assert re.search(row.named, answer.json()["errors"][0]["title"]), answer.text
    rig.cloud.wait(uuid, "Error")
    rig.cloud.delete(uuid)
    assert rig.cloud.show(uuid) is None
    rig.nothing_is_held()
