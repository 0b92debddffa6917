"""Scenario 1 beside the real services: create and run a container. Test names carry the statements they check."""

from __future__ import annotations

import pytest

from tests.support.real_cloud import RealCloud
from tests.support.testbed import MACHINE
from tests.support.testbed_project import Project
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("s1-cloud")

NO_HOST = "There are not enough hosts available."
ELSEWHERE = {"availability_zone": "elsewhere"}


def test_s1_1_s1_2_s1_12_the_allocation_is_placements_when_the_202_arrives(tenant: RealCloud) -> None:
    uuid = tenant.create(cpu=0.5, memory=64)["uuid"]
    assert tenant.allocation(uuid) == {"VCPU": 1, "MEMORY_MB": 64}
    held = tenant.testbed.admin.call("placement", "GET", f"/allocations/{uuid}")
    assert (held["project_id"], held["user_id"]) == (tenant.account.project_id, tenant.account.user_id)
    (provider,) = held["allocations"]
    found = tenant.testbed.provider(tenant.product.node.host)
    assert found
    assert provider == found["uuid"]


def test_s1_3_s1_14_s1_15_s1_23_a_run_is_accepted_with_its_location_and_ends_running(tenant: RealCloud) -> None:
    answer = tenant.ask()
    assert answer.status_code == 202
    uuid = answer.json()["uuid"]
    assert answer.json()["status"] == "Creating"
    assert answer.headers["location"] == f"{tenant.product.url}/v1/containers/{uuid}"
    tenant.wait(uuid, "Running")
    engine = tenant.engine(uuid)
    assert engine
    assert engine["State"]["Running"]
    queues = tenant.product.vhost.queues()
    doorbells = [name for name in queues if name.endswith(f"{tenant.product.node.host}.doorbell")]
    assert doorbells
    assert not any(queues[name] for name in doorbells)


def test_s1_4_names_are_looked_up_in_the_users_project(
    tenant: RealCloud, stranger: RealCloud, project: Project
) -> None:
    assert stranger.ask(nets=[{"network": project.network_id}]).status_code == 404
    port = project.neutron("POST", "/ports", json={"port": {"network_id": project.network_id}})["port"]["id"]
    assert stranger.ask(nets=[{"port": port}]).status_code == 404
    group = project.neutron("POST", "/security-groups", json={"security_group": {"name": "theirs"}})
    assert tenant.ask(security_groups=["theirs"]).status_code == 400
    assert tenant.ask(security_groups=[group["security_group"]["id"]]).status_code == 400


def test_s1_5_s1_6_over_the_limit_is_403_and_asks_nothing_of_the_services(cloud: RealCloud, tenant: RealCloud) -> None:
    project = tenant.account.project_id
    assert cloud.http.put(f"/v1/quotas/{project}", json={"containers": 0}).status_code == 200
    try:
        answer = tenant.ask(mounts=[{"size": "1", "destination": "/d"}])
        assert answer.status_code == 403
        assert answer.json()["errors"][0]["code"] == "container.over-quota"
    finally:
        assert cloud.http.delete(f"/v1/quotas/{project}").status_code == 200
    assert tenant.get("/containers")["containers"] == []
    assert tenant.own_volumes() == []
    assert not tenant.testbed.allocations_on(tenant.product.node.host)


def test_s1_7_a_refused_request_leaves_no_row_and_no_volume(tenant: RealCloud) -> None:
    sized = {"size": "1", "destination": "/d"}
    for body, status in (
        ({"mounts": [{"source": "no-such-volume", "destination": "/d"}]}, 404),
        ({"mounts": [sized, {"source": "no-such-volume", "destination": "/e"}]}, 404),
        ({"nets": [{"network": "no-such-network"}], "mounts": [sized]}, 404),
        ({"security_groups": ["no-such-group"]}, 400),
    ):
        answer = tenant.ask(**body)
        assert answer.status_code == status, answer.text
    assert tenant.get("/containers")["containers"] == []
    wait_until(lambda: tenant.own_volumes() == [], 30, "no volume is left")


def test_s1_8_a_size_makes_a_volume_in_the_users_project(tenant: RealCloud) -> None:
    uuid = tenant.running(mounts=[{"size": "1", "destination": "/data"}])["uuid"]
    (volume,) = tenant.own_volumes()
    assert (volume["size"], volume["status"], volume["user_id"]) == (1, "in-use", tenant.account.user_id)
    assert [one["server_id"] for one in volume["attachments"]] == [uuid]
    assert "/data" in tenant.output(uuid, "mount")


def test_s1_8_s1_10_s1_11_s1_13_without_a_host_it_is_error_and_its_volume_goes(tenant: RealCloud) -> None:
    answer = tenant.ask(**ELSEWHERE, mounts=[{"size": "1", "destination": "/d"}])
    assert answer.status_code == 202
    created = answer.json()
    assert (created["status"], created["status_reason"]) == ("Error", NO_HOST)
    (action,) = tenant.actions(created["uuid"])
    assert (action["action"], action["request_id"]) == ("create", answer.headers["x-openstack-request-id"])
    wait_until(lambda: tenant.own_volumes() == [], 30, "the volume is deleted")
    assert tenant.holds_nothing(created["uuid"])


def test_s1_16_s1_17_s1_18_data_on_a_volume_outlives_containers(tenant: RealCloud) -> None:
    volume = tenant.make_volume()
    mounts = [{"source": volume, "destination": "/data"}]
    first = tenant.running(mounts=mounts)["uuid"]
    found = tenant.testbed.volume(volume)
    assert found
    assert found["status"] == "in-use"
    assert [one["server_id"] for one in found["attachments"]] == [first]
    tenant.output(first, "sh -c 'echo kept > /data/x'")
    tenant.delete(first, stop="true")
    tenant.wait_gone(first)
    assert tenant.volume_status(volume) == "available"
    second = tenant.running(mounts=mounts)["uuid"]
    assert tenant.output(second, "cat /data/x") == "kept\n"
    tenant.delete(second, stop="true")
    tenant.wait_gone(second)
    tenant.account.call("volumev3", "DELETE", f"/volumes/{volume}")
    wait_until(lambda: tenant.own_volumes() == [], 60, "the volume is deleted")


def test_s1_19_the_host_is_recorded_at_once_and_shown_to_admins_only(cloud: RealCloud, tenant: RealCloud) -> None:
    created = tenant.create()
    assert "host" not in created
    answer = cloud.http.get(f"/v1/containers/{created['uuid']}", params={"all_projects": "true"})
    assert answer.json()["host"] == cloud.product.node.host


def test_s1_21_s1_22_the_port_is_neutrons_bound_and_active(tenant: RealCloud, tenant_project: Project) -> None:
    shown = tenant.running()
    (port,) = tenant.port_rows(shown["uuid"])
    assert port["project_id"] == tenant.account.project_id
    assert port["device_owner"].startswith("compute:")
    assert port["binding:host_id"] == MACHINE
    assert port["binding:vif_type"] == "ovs"
    wait_until(
        lambda: all(one["status"] == "ACTIVE" for one in tenant.port_rows(shown["uuid"])), 30, "the port is ACTIVE"
    )
    ((network, items),) = shown["addresses"].items()
    assert network == tenant_project.network_id
    assert [one["addr"] for one in items] == [ip["ip_address"] for ip in port["fixed_ips"]]
    assert items[0]["port"] == port["id"]
    assert items[0]["addr"] in tenant.output(shown["uuid"], "ip addr")


def test_s1_22_containers_reach_each_other_as_the_security_group_says(tenant: RealCloud) -> None:
    first = tenant.create(command=["httpd", "-f", "-p", "8080", "-h", "/etc"])["uuid"]
    second = tenant.create()["uuid"]
    tenant.wait(first, "Running")
    tenant.wait(second, "Running")
    (address,) = tenant.ports(first)
    wait_until(lambda: _ends_well(tenant, second, f"ping -c1 -W1 {address}"), 30, "ping within the default group")
    ask = f"printf 'GET /passwd HTTP/1.0\\r\\n\\r\\n' | nc -w 4 {address} 8080 | grep root"
    wait_until(lambda: _ends_well(tenant, second, f'sh -c "{ask}"'), 30, "TCP within the default group")


def test_s1_22_a_container_is_on_each_network_asked_for(tenant: RealCloud, tenant_project: Project) -> None:
    """In the order asked where the node plugs; Docker sorts the interfaces of a start itself."""
    other, _ = tenant_project.add_network()
    nets = [{"network": other}, {"network": tenant_project.network_id}]
    shown = tenant.running(nets=nets)
    found = {device: tenant.output(shown["uuid"], f"ip addr show dev {device}") for device in ("eth0", "eth1")}
    wanted = [f"inet {shown['addresses'][one['network']][0]['addr']}/" for one in nets]
    if tenant.product.option("network", "driver") == "direct":
        assert wanted[0] in found["eth0"]
        assert wanted[1] in found["eth1"]
    assert all(any(address in text for text in found.values()) for address in wanted)


def test_s1_24_show_is_fresh(tenant: RealCloud) -> None:
    uuid = tenant.create(command=["sh", "-c", "exit 3"])["uuid"]
    assert tenant.wait(uuid, "Stopped")["status_reason"] is None


def test_s1_25_a_node_that_is_down_is_told_and_gets_nothing(cloud: RealCloud, tenant: RealCloud) -> None:
    query = {"host": cloud.product.node.host, "binary": "zun-compute"}
    down = cloud.http.put("/v1/services/force_down", params=query | {"forced_down": "true"})
    assert down.status_code == 200
    try:
        (service,) = cloud.get("/services")["services"]
        assert service["state"] == "down"
        assert tenant.create()["status_reason"] == NO_HOST
    finally:
        assert cloud.http.put("/v1/services/force_down", params=query | {"forced_down": "false"}).status_code == 200


def test_s1_26_a_message_a_node_missed_is_found_when_it_returns(tenant: RealCloud) -> None:
    tenant.product.node.kill()
    uuid = tenant.create()["uuid"]
    shown = tenant.show(uuid)
    assert shown
    assert shown["status"] == "Creating"
    tenant.product.start()
    tenant.wait(uuid, "Running")


def test_s1_27_a_volume_that_is_not_available_is_told_and_all_else_given_back(tenant: RealCloud) -> None:
    volume = tenant.make_volume()
    tenant.product.node.kill()
    uuid = tenant.create(mounts=[{"source": volume, "destination": "/d"}])["uuid"]
    action = f"/volumes/{volume}/action"
    tenant.testbed.admin.call("volumev3", "POST", action, json={"os-reset_status": {"status": "maintenance"}})
    tenant.product.start()
    shown = tenant.wait(uuid, "Error")
    assert shown["status_reason"] == "Volumes did not reach available status after 5 seconds"
    wait_until(lambda: tenant.holds_nothing(uuid), 30, "nothing is held")
    tenant.delete(uuid)
    tenant.wait_gone(uuid)
    tenant.testbed.admin.call("volumev3", "POST", action, json={"os-reset_status": {"status": "available"}})
    tenant.account.call("volumev3", "DELETE", f"/volumes/{volume}")
    wait_until(lambda: tenant.own_volumes() == [], 60, "the volume is deleted")


def test_s1_20_s1_28_an_image_that_does_not_exist_is_error_and_holds_nothing(tenant: RealCloud) -> None:
    uuid = tenant.create(image="no/such:image", mounts=[{"size": "1", "destination": "/d"}])["uuid"]
    assert "no/such:image" in tenant.wait(uuid, "Error")["status_reason"]
    wait_until(lambda: tenant.holds_nothing(uuid), 30, "nothing is held")
    tenant.delete(uuid)
    tenant.wait_gone(uuid)
    wait_until(lambda: tenant.own_volumes() == [], 60, "the volume made for it is deleted")


def test_s1_29_a_create_the_engine_refuses_is_error_and_holds_nothing(tenant: RealCloud) -> None:
    uuid = tenant.create(command=["no-such-program"], exposed_ports={"80/tcp": {}})["uuid"]
    shown = tenant.wait(uuid, "Error")
    assert shown["status_reason"].startswith("Docker internal error: ")
    assert "no-such-program" in shown["status_reason"]
    wait_until(lambda: tenant.holds_nothing(uuid), 30, "nothing is held")
    assert not tenant.testbed.security_groups(name=f"zun-{uuid}")


def _ends_well(cloud: RealCloud, uuid: str, command: str) -> bool:
    answer = cloud.act(uuid, "execute", 200, command=command).json()
    return bool(answer["exit_code"] == 0)
