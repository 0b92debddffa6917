"""Networks and security groups of living containers, through Neutron and Kuryr (§10.5)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.cloud.test_network_kuryr import User
from tests.support.cloud_product import CloudProduct
from tests.support.testbed import Testbed
from tests.support.testbed_project import Project
from tests.support.wait import wait_until


@pytest.fixture
def user(cloud_product: CloudProduct, project: Project) -> User:
    return User(cloud_product, project)


def change(user: User, uuid: str, verb: str, version: str = "1.40", **params: str) -> dict[str, Any]:
    """The action of an accepted change, once it is over."""
    answer = ask(user, uuid, verb, version, **params)
    assert answer.status_code in (200, 202), answer.text
    path = f"/v1/containers/{uuid}/container_actions/{answer.headers['x-openstack-request-id']}"

    def over() -> dict[str, Any] | None:
        found: dict[str, Any] = user.http.get(path).json()
        return found if found["finish_time"] else None

    return wait_until(over, 90, f"{verb} of {uuid} is over")


def ask(user: User, uuid: str, verb: str, version: str = "1.40", **params: str) -> httpx.Response:
    headers = {"OpenStack-API-Version": f"container {version}"}
    return user.http.post(f"/v1/containers/{uuid}/{verb}", params=params, headers=headers)


def test_a_network_is_joined_and_left(user: User, project: Project, testbed: Testbed) -> None:
    uuid = user.running()["uuid"]
    second, _ = project.add_network(cidr="10.99.31.0/24")
    assert change(user, uuid, "network_attach", network=second, fixed_ip="10.99.31.77")["message"] is None
    shown = user.settled(uuid, "Running")
    assert [item["addr"] for item in shown["addresses"][second]] == ["10.99.31.77"]
    assert "inet 10.99.31.77/24" in user.run(uuid, "ip addr")[1]
    [port] = testbed.ports(device_id=uuid, network_id=second)
    wait_until(lambda: (testbed.port(port["id"]) or {}).get("status") == "ACTIVE", 60, "the port is active")
    assert ask(user, uuid, "network_attach", network=second).status_code == 400
    assert change(user, uuid, "network_detach", network=second)["message"] is None
    assert testbed.ports(device_id=uuid, network_id=second) == []
    assert "10.99.31.77" not in user.run(uuid, "ip addr")[1]
    assert second not in user.settled(uuid, "Running")["addresses"]
    assert change(user, uuid, "network_detach", network=project.network_id)["message"] is None
    assert testbed.ports(device_id=uuid) == []
    assert change(user, uuid, "network_attach")["message"] is None
    assert list(user.settled(uuid, "Running")["addresses"]) == [project.network_id]
    user.delete(uuid)


def test_a_users_port_is_joined_and_given_back(user: User, project: Project, testbed: Testbed) -> None:
    uuid = user.running()["uuid"]
    second, subnet = project.add_network(cidr="10.99.32.0/24")
    body = {"network_id": second, "name": "mine-too", "fixed_ips": [{"subnet_id": subnet}]}
    made = project.neutron("POST", "/ports", json={"port": body})["port"]
    before = testbed.port(made["id"])
    assert before is not None
    assert change(user, uuid, "network_attach", port="mine-too")["message"] is None
    [item] = user.settled(uuid, "Running")["addresses"][second]
    assert (item["port"], item["preserve_on_delete"]) == (made["id"], True)
    assert change(user, uuid, "network_detach", port="mine-too")["message"] is None
    after = testbed.port(made["id"])
    assert after is not None
    for name in ("device_id", "device_owner", "binding:host_id", "name", "mac_address", "fixed_ips"):
        assert after[name] == before[name], name
    user.delete(uuid)


def test_security_groups_of_all_ports(user: User, project: Project, testbed: Testbed) -> None:
    uuid = user.running()["uuid"]
    group = project.neutron("POST", "/security-groups", json={"security_group": {"name": "web"}})["security_group"]
    [port] = testbed.ports(device_id=uuid)
    default = list(port["security_groups"])
    assert change(user, uuid, "add_security_group", "1.14", name="web")["message"] is None
    assert sorted((testbed.port(port["id"]) or {})["security_groups"]) == sorted([*default, group["id"]])
    assert sorted(user.settled(uuid, "Running")["security_groups"]) == sorted([*default, group["id"]])
    assert ask(user, uuid, "add_security_group", "1.14", name="web").status_code == 400
    assert change(user, uuid, "remove_security_group", "1.14", name=group["id"])["message"] is None
    assert (testbed.port(port["id"]) or {})["security_groups"] == default
    assert ask(user, uuid, "remove_security_group", "1.14", name="nothing").status_code == 400
    user.delete(uuid)
    project.neutron("DELETE", f"/security-groups/{group['id']}")
