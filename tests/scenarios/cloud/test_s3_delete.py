"""Scenario 3 beside the real services: delete a container. Test names carry the statements they check."""

from __future__ import annotations

import pytest

from tests.support.real_cloud import RealCloud
from tests.support.testbed_project import Project
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("s3-cloud")

SIZED = [{"size": "1", "destination": "/d"}]


def test_s3_1_a_status_that_does_not_allow_it_is_409_and_nothing_is_let_go(tenant: RealCloud) -> None:
    uuid = tenant.running()["uuid"]
    error = tenant.delete(uuid, 409).json()["errors"][0]
    assert error["code"] == "container.invalid-state-exception"
    assert error["title"] == f"Cannot delete container {uuid} in Running state"
    assert tenant.ports(uuid)
    assert tenant.allocation(uuid)


def test_s3_2_with_its_node_down_a_delete_is_accepted_and_finished_when_it_returns(
    cloud: RealCloud, tenant: RealCloud
) -> None:
    uuid = tenant.running(mounts=SIZED)["uuid"]
    tenant.product.node.kill()
    query = {"host": cloud.product.node.host, "binary": "zun-compute"}
    assert cloud.http.put("/v1/services/force_down", params=query | {"forced_down": "true"}).status_code == 200
    try:
        refused = tenant.act(uuid, "stop", 409).json()["errors"][0]
        assert refused["code"] == "container.container-host-not-up"
        assert refused["title"] == f"Container {uuid} host is not up."
        tenant.delete(uuid, stop="true")
    finally:
        assert cloud.http.put("/v1/services/force_down", params=query | {"forced_down": "false"}).status_code == 200
    tenant.product.start()
    tenant.wait_gone(uuid)
    wait_until(lambda: tenant.holds_nothing(uuid), 30, "nothing is held")


def test_s3_3_a_container_without_host_is_removed_at_once(tenant: RealCloud) -> None:
    uuid = tenant.create(availability_zone="elsewhere")["uuid"]
    tenant.delete(uuid)
    assert tenant.show(uuid) is None
    assert tenant.holds_nothing(uuid)


def test_s3_4_the_answer_comes_before_the_work_is_done(tenant: RealCloud) -> None:
    uuid = tenant.running(command=["sh", "-c", "trap '' TERM; sleep 1000 & wait; wait"])["uuid"]
    tenant.delete(uuid, stop="true")
    shown = tenant.show(uuid)
    assert shown
    assert (shown["status"], shown["task_state"]) == ("Deleting", "container_deleting")
    tenant.wait_gone(uuid)


def test_s3_5_s3_6_s3_7_s3_11_s3_12_everything_is_given_back(tenant: RealCloud) -> None:
    uuid = tenant.running(exposed_ports={"80/tcp": {}})["uuid"]
    assert tenant.port_rows(uuid)
    assert tenant.allocation(uuid)
    (group,) = tenant.testbed.security_groups(name=f"zun-{uuid}")
    assert group["project_id"] == tenant.account.project_id
    tenant.delete(uuid, stop="true")
    tenant.wait_gone(uuid)
    assert tenant.holds_nothing(uuid)
    answer = tenant.http.get(f"/v1/containers/{uuid}")
    assert answer.json()["errors"][0]["code"] == "container.container-not-found"


def test_s3_5_a_port_that_was_given_is_handed_back_as_it_was(tenant: RealCloud, tenant_project: Project) -> None:
    body = {"port": {"network_id": tenant_project.network_id, "name": "mine"}}
    made = tenant_project.neutron("POST", "/ports", json=body)["port"]["id"]
    before = tenant.testbed.port(made)
    shown = tenant.running(nets=[{"port": made}])
    bound = tenant.testbed.port(made)
    assert before
    assert bound
    assert bound["device_id"] == shown["uuid"]
    assert bound["binding:vif_type"] == "ovs"
    tenant.delete(shown["uuid"], stop="true")
    tenant.wait_gone(shown["uuid"])
    kept = ("name", "device_id", "device_owner", "binding:host_id", "binding:vif_type", "fixed_ips", "mac_address")

    def as_before() -> bool:
        after = tenant.testbed.port(made)
        assert after
        return all(after[field] == before[field] for field in (*kept, "security_groups", "admin_state_up"))

    wait_until(as_before, 30, "the port is as it was")
    tenant_project.neutron("DELETE", f"/ports/{made}")


def test_s3_8_a_volume_that_was_given_is_available_again(tenant: RealCloud) -> None:
    volume = tenant.make_volume()
    uuid = tenant.running(mounts=[{"source": volume, "destination": "/d"}])["uuid"]
    assert tenant.product.mounts()
    tenant.delete(uuid, stop="true")
    tenant.wait_gone(uuid)
    assert tenant.volume_status(volume) == "available"
    assert tenant.product.mounts() == []
    tenant.account.call("volumev3", "DELETE", f"/volumes/{volume}")
    wait_until(lambda: tenant.own_volumes() == [], 60, "the volume is deleted")


def test_s3_9_a_volume_made_for_it_is_gone_with_it(tenant: RealCloud) -> None:
    uuid = tenant.running(mounts=SIZED)["uuid"]
    tenant.delete(uuid, stop="true")
    tenant.wait_gone(uuid)
    assert tenant.own_volumes() == []


def test_s3_10_the_hosts_usage_falls(cloud: RealCloud, tenant: RealCloud) -> None:
    def used() -> float:
        return float(cloud.get("/hosts")["hosts"][0]["cpu_used"])

    wait_until(lambda: used() == 0, 20, "what earlier tests used is free again")
    uuid = tenant.running(cpu=1.5)["uuid"]
    wait_until(lambda: used() == 1.5, 20, "the host shows what is used")
    tenant.delete(uuid, stop="true")
    tenant.wait_gone(uuid)
    wait_until(lambda: used() == 0, 20, "the host shows what is free again")


def test_s3_13_an_engines_refusal_without_force_is_error_and_all_is_kept(cloud: RealCloud, tenant: RealCloud) -> None:
    uuid = tenant.running()["uuid"]
    tenant.act(uuid, "stop", timeout="0")
    tenant.wait(uuid, "Stopped")
    tenant.product.engine.post(f"/containers/zun-{uuid}/start")
    answer = tenant.http.delete(f"/v1/containers/{uuid}")
    if answer.status_code == 409:  # the watcher was faster: the start is seen already
        assert tenant.wait(uuid, "Running")
        return
    shown = tenant.wait(uuid, "Error")
    assert shown["status_reason"].startswith("Docker internal error: ")
    assert tenant.show(uuid)
