"""Two agents and two API processes beside the cloud: placing, and a node that is lost and returns (S3.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.support.cloud_product import CloudProduct
from tests.support.testbed import Testbed
from tests.support.testbed_project import Project
from tests.support.wait import wait_until

SLEEP = ["sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"]
ZONES = ("left", "right")


@pytest.fixture
def product(make_cloud_product: Callable[..., CloudProduct], project: Project) -> Iterator[CloudProduct]:
    """A node a zone; a node that is silent for some seconds is down."""
    made = make_cloud_product(nodes=2, apis=2)
    made.conf(DEFAULT={"service_down_time": 20, "periodic_interval_max": 3}, compute={"sweep_interval": 1})
    for node, zone in zip(made.nodes, ZONES, strict=True):
        node.sections = {**node.sections, "DEFAULT": {**node.sections["DEFAULT"], "default_availability_zone": zone}}
    yield made.start()
    if not all(service.running for service in made.services):
        made.start()
    made.clear()


def create(http: httpx.Client, **body: Any) -> str:
    wanted = {"image": "busybox", "command": SLEEP, "cpu": 0.1, "memory": 32}
    answer = http.post("/v1/containers?run=true", json=wanted | body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["uuid"])


def show(http: httpx.Client, uuid: str) -> dict[str, Any]:
    return dict(http.get(f"/v1/containers/{uuid}").json())


def settle(http: httpx.Client, uuid: str, status: str) -> dict[str, Any]:
    def reached() -> dict[str, Any] | None:
        shown = show(http, uuid)
        assert status == "Error" or shown["status"] != "Error", shown["status_reason"]
        return shown if shown["status"] == status and shown["task_state"] is None else None

    found = wait_until(reached, 120, f"{uuid} becomes {status}: {show(http, uuid)}")
    assert found
    return found


def test_placing_over_two_nodes(product: CloudProduct, project: Project, testbed: Testbed) -> None:
    user, admin = product.http(project.account), product.http(api=1)
    zones = user.get("/v1/availability_zones").json()["availability_zones"]
    assert [zone["availability_zone"] for zone in zones] == list(ZONES)
    for node, zone in zip(product.nodes, ZONES, strict=True):
        uuid = create(user, availability_zone=zone)
        settle(product.http(project.account, api=1), uuid, "Running")
        assert show(admin, uuid)["host"] == node.host
        assert "host" not in show(user, uuid)
    right = {"host": product.nodes[1].host, "binary": "zun-compute"}
    assert admin.put("/v1/services/disable", json={**right, "disabled_reason": "work"}).status_code == 200
    refused = settle(user, create(user, availability_zone="right"), "Error")
    assert refused["status_reason"] == "There are not enough hosts available."
    assert user.post("/v1/containers", json={"image": "busybox", "host": right["host"]}).status_code == 403
    assert admin.put("/v1/services/enable", json=right).status_code == 200
    disabled = "COMPUTE_STATUS_DISABLED"
    wait_until(lambda: disabled not in testbed.traits(right["host"]), 60, "Placement is told at the next inventory")
    settle(user, create(user, availability_zone="right"), "Running")


def test_a_node_that_is_lost_and_returns(product: CloudProduct, project: Project, testbed: Testbed) -> None:
    user, admin = product.http(project.account), product.http(api=1)
    node = product.nodes[1]
    kept, deleted = (create(user, availability_zone="right") for _ in range(2))
    forced = create(user, availability_zone="right", mounts=[{"size": "1", "destination": "/data"}])
    for uuid in (kept, deleted, forced):
        settle(user, uuid, "Running")
    node.kill()
    wait_until(lambda: node.host not in product.hosts_up(), 60, "the node is down")

    shown = show(user, kept)
    assert (shown["status"], shown["status_detail"]) == ("Running", "Host down")
    assert node.host not in shown["status_reason"]
    assert node.host in show(admin, kept)["status_reason"]
    for method, path in (("POST", "stop"), ("GET", "logs"), ("POST", "execute?command=ls"), ("POST", "kill")):
        for http in (user, admin):
            answer = http.request(method, f"/v1/containers/{kept}/{path}")
            error = answer.json()["errors"][0]
            assert (answer.status_code, error["code"]) == (409, "container.container-host-not-up"), path
            assert (node.host in error["title"]) == (http is admin), error["title"]

    def usage() -> int:
        return int(user.get(f"/v1/quotas/{project.id}?usages=1").json()["containers"]["in_use"])

    assert usage() == 3
    assert user.delete(f"/v1/containers/{deleted}?stop=true").status_code == 204
    assert show(user, deleted)["status"] == "Deleting"
    assert usage() == 2
    assert testbed.allocation(deleted) == {}
    assert admin.delete(f"/v1/containers/{forced}?force=true").status_code == 204
    assert user.get(f"/v1/containers/{forced}").status_code == 404
    assert usage() == 1
    assert testbed.allocation(forced) == {}
    assert testbed.ports(device_id=forced) == []
    assert testbed.volumes_attached_to(forced) == []
    wait_until(lambda: not testbed.volumes(project_id=project.id), 60, "the volume made for it is gone")
    assert settle(user, create(user, availability_zone="right"), "Error")["status_reason"]
    running = {container["Names"][0] for container in product.engine_containers()}
    assert running >= {f"/zun-{uuid}" for uuid in (kept, deleted, forced)}

    node.spawn()
    wait_until(lambda: node.host in product.hosts_up(), 90, "the node is back")
    wait_until(lambda: user.get(f"/v1/containers/{deleted}").status_code == 404, 60, "the delete is finished")
    product.check_no_leak(deleted, forced)
    assert settle(user, kept, "Running")["status_detail"] != "Host down"
    assert testbed.allocation(kept)
    assert usage() == 2  # what is kept, and the one that found no host
    settle(user, create(user, availability_zone="right"), "Running")
