"""Commands of the unmodified stock client that need Neutron: security groups at their version, floating IPs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cloud.test_network_kuryr import User
from tests.support.cloud_product import CloudProduct
from tests.support.stock_client import StockClient, refused
from tests.support.testbed import HOST, PORTS, Testbed
from tests.support.testbed_project import Project
from tests.support.wait import wait_until


@pytest.fixture
def user(cloud_product: CloudProduct, project: Project) -> User:
    return User(cloud_product, project)


@pytest.fixture
def client(cloud_product: CloudProduct, project: Project, tmp_path: Path) -> StockClient:
    """The user's `openstack`: its token, containers of this product, networks of the cloud."""
    made = StockClient(cloud_product.url, project.token)
    cloud = {
        "auth_type": "admin_token",
        "auth": {"endpoint": f"{cloud_product.url}/v1", "token": project.token},
        "network_endpoint_override": f"http://{HOST}:{PORTS['Neutron']}",
    }
    file = tmp_path / "clouds.json"
    file.write_text(json.dumps({"clouds": {"testbed": cloud}}))
    made.env = {name: value for name, value in made.env.items() if not name.startswith("OS_")}
    made.env |= {"OS_CLIENT_CONFIG_FILE": str(file), "OS_CLOUD": "testbed"}
    return made


def test_security_groups(user: User, project: Project, testbed: Testbed, client: StockClient) -> None:
    uuid = user.running(name="guarded")["uuid"]
    body = {"security_group": {"name": "web"}}
    group = project.neutron("POST", "/security-groups", json=body)["security_group"]["id"]

    def groups() -> list[str]:
        (port,) = testbed.ports(device_id=uuid)
        return list(port["security_groups"])

    default = groups()
    old = ("--os-container-api-version", "1.14", "appcontainer")
    said = client.text(*old, "add", "security", "group", "guarded", "web")
    assert "Request to add security group for container guarded has been accepted." in said
    wait_until(lambda: sorted(groups()) == sorted([*default, group]), 60, "the port has the group")
    user.settled(uuid, "Running")
    refused(client.raw(*old, "add", "security", "group", "guarded", "web"), 400, "Security group web is applied .*")
    said = client.text(*old, "remove", "security", "group", "guarded", "web")
    assert "Request to remove security group from container guarded has been accepted." in said
    wait_until(lambda: groups() == default, 60, "the port has lost it")
    user.settled(uuid, "Running")
    newest = client.raw("appcontainer", "remove", "security", "group", "guarded", "web")
    assert "HTTP 406" in newest.stdout + newest.stderr
    user.delete(uuid)


@pytest.fixture
def floating(testbed: Testbed, project: Project) -> Iterator[dict[str, Any]]:
    """A floating IP of the project, whose network a router joins to an external one; all of it goes afterwards."""
    inner = {"subnet_id": project.subnet_id}

    def neutron(method: str, path: str, **body: Any) -> Any:
        return testbed.admin.call("network", method, f"/v2.0{path}", **({"json": body} if body else {}))

    with contextlib.ExitStack() as undo:
        outside = {"name": f"{project.name}-out", "router:external": True}
        network = neutron("POST", "/networks", network=outside)["network"]["id"]
        undo.callback(neutron, "DELETE", f"/networks/{network}")
        subnet = {"network_id": network, "ip_version": 4, "cidr": "203.0.113.0/24", "enable_dhcp": False}
        neutron("POST", "/subnets", subnet=subnet)
        gateway = {"project_id": project.id, "external_gateway_info": {"network_id": network}}
        router = neutron("POST", "/routers", router=gateway)["router"]["id"]
        undo.callback(neutron, "DELETE", f"/routers/{router}")
        neutron("PUT", f"/routers/{router}/add_router_interface", **inner)
        undo.callback(neutron, "PUT", f"/routers/{router}/remove_router_interface", **inner)
        wanted = {"floating_network_id": network, "project_id": project.id}
        made = neutron("POST", "/floatingips", floatingip=wanted)["floatingip"]
        undo.callback(neutron, "DELETE", f"/floatingips/{made['id']}")
        yield made


def test_floating_ips(
    user: User, project: Project, testbed: Testbed, client: StockClient, floating: dict[str, Any]
) -> None:
    uuid = user.running(name="reachable")["uuid"]
    (port,) = testbed.ports(device_id=uuid)
    address = floating["floating_ip_address"]

    def fixed() -> Any:
        found = project.neutron("GET", f"/floatingips/{floating['id']}")["floatingip"]
        return found["port_id"], found["fixed_ip_address"]

    inside = port["fixed_ips"][0]["ip_address"]
    client.text("appcontainer", "add", "floating", "ip", "reachable", address)
    assert fixed() == (port["id"], inside)
    client.text("appcontainer", "remove", "floating", "ip", address)
    assert fixed() == (None, None)
    client.text("appcontainer", "add", "floating", "ip", "--fixed-ip-address", inside, "reachable", address)
    assert fixed() == (port["id"], inside)
    client.text("appcontainer", "remove", "floating", "ip", address)
    user.delete(uuid)
