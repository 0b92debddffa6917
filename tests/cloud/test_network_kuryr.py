"""Containers on Neutron networks through Kuryr: what users ask for, and what Neutron holds (S1.4, S1.21, S1.22)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.cloud_product import CloudProduct
from tests.support.tcp_proxy import tcp_proxy
from tests.support.testbed import MACHINE, PORTS, Testbed
from tests.support.testbed_project import Project
from tests.support.wait import wait_until

SLEEP = ["sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"]
SETTLED = {"Running", "Stopped", "Created", "Error"}


class User:
    """A project's user of a product."""

    def __init__(self, product: CloudProduct, project: Project) -> None:
        self.product, self.project = product, project
        self.http = product.http(project.account)

    def ask(self, **body: Any) -> httpx.Response:
        body = {"image": "busybox", "command": SLEEP, "cpu": 0.1, "memory": "64"} | body
        return self.http.post("/v1/containers", params={"run": "true"}, json=body)

    def create(self, **body: Any) -> str:
        answer = self.ask(**body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["uuid"])

    def show(self, uuid: str) -> dict[str, Any] | None:
        answer = self.http.get(f"/v1/containers/{uuid}")
        return None if answer.status_code == 404 else answer.json()

    def settled(self, uuid: str, *wanted: str, timeout: float = 90) -> dict[str, Any]:
        """Shown once it is in one of these statuses."""

        def row() -> dict[str, Any] | None:
            found = self.show(uuid)
            assert found is not None
            if found["task_state"] is None and found["status"] in SETTLED:
                assert found["status"] in wanted, f"{found['status']}: {found['status_reason']}"
                return found
            return None

        return wait_until(row, timeout, f"{uuid} is {wanted}")

    def running(self, **body: Any) -> dict[str, Any]:
        return self.settled(self.create(**body), "Running")

    def delete(self, *uuids: str, timeout: float = 60) -> None:
        """Gone everywhere."""
        for uuid in uuids:
            answer = self.http.delete(f"/v1/containers/{uuid}", params={"stop": "true"})
            assert answer.status_code == 204, answer.text
        for uuid in uuids:
            wait_until(lambda uuid=uuid: self.show(uuid) is None, timeout, f"{uuid} is gone")  # type: ignore[misc]
        self.product.check_no_leak(*uuids)

    def run(self, uuid: str, command: str) -> tuple[int, str]:
        answer = self.http.post(f"/v1/containers/{uuid}/execute", params={"command": command, "run": "true"})
        assert answer.status_code == 200, answer.text
        return answer.json()["exit_code"], answer.json()["output"]


@pytest.fixture
def user(cloud_product: CloudProduct, project: Project) -> User:
    return User(cloud_product, project)


def test_one_network_from_create_to_delete(user: User, testbed: Testbed, project: Project) -> None:
    shown = user.running()
    [port] = testbed.ports(device_id=shown["uuid"])
    assert port["status"] == "ACTIVE"
    assert port["device_owner"] == "compute:kuryr"
    assert port["binding:host_id"] == MACHINE
    assert port["project_id"] == project.id
    [ip] = port["fixed_ips"]
    assert shown["addresses"] == {
        project.network_id: [
            {
                "addr": ip["ip_address"],
                "version": 4,
                "port": port["id"],
                "subnet_id": project.subnet_id,
                "preserve_on_delete": False,
            }
        ]
    }
    user.delete(shown["uuid"])


@pytest.fixture
def other(new_project: Callable[..., Project]) -> Project:
    return new_project()


@pytest.mark.xdist_group("shared-networks")  # others of the cloud would be found
def test_names_and_ids_mean_what_the_project_has(user: User, project: Project, other: Project) -> None:
    foreign, _ = other.add_network()
    refused = [
        ([{"network": "nothing"}], 404, "Network nothing could not be found."),
        ([{"network": foreign}], 404, f"Network {foreign} could not be found."),
        ([{"port": "nothing"}], 404, "Port nothing could not be found."),
    ]
    for nets, status, title in refused:
        answer = user.ask(nets=nets)
        assert (answer.status_code, answer.json()["errors"][0]["title"]) == (status, title)
    answer = user.ask(security_groups=["nothing"])
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["title"] == "Security group nothing not found."
    project.add_network()
    assert user.ask(nets=[{"network": f"{project.name}-net"}]).status_code == 409
    assert user.show("nothing") is None
    nobody = User(user.product, other)
    other.neutron("DELETE", f"/networks/{foreign}")
    answer = nobody.ask()
    assert (answer.status_code, answer.json()["errors"][0]["title"]) == (
        409,
        "There is no neutron network available",
    )


def test_addresses_asked_for(user: User, project: Project) -> None:
    wanted = project.cidr.replace("0/24", "77")
    nets = [{"network": project.network_id, "v4-fixed-ip": wanted}]
    shown = user.running(nets=nets)
    assert [item["addr"] for item in shown["addresses"][project.network_id]] == [wanted]
    assert f"inet {wanted}/24" in user.run(shown["uuid"], "ip addr show eth0")[1]
    taken, outside = user.ask(nets=nets), user.ask(nets=[{"network": project.network_id, "v4-fixed-ip": "192.0.2.1"}])
    assert (taken.status_code, outside.status_code) == (400, 400)
    user.delete(shown["uuid"])


def test_a_users_port_is_given_back_as_it_was(user: User, project: Project, testbed: Testbed) -> None:
    body = {"network_id": project.network_id, "name": "mine", "fixed_ips": [{"subnet_id": project.subnet_id}] * 2}
    made = project.neutron("POST", "/ports", json={"port": body})["port"]
    before = testbed.port(made["id"])
    assert before is not None
    shown = user.running(nets=[{"port": "mine"}])
    held = testbed.port(made["id"])
    assert held is not None
    assert (held["device_id"], held["device_owner"], held["binding:host_id"]) == (
        shown["uuid"],
        "compute:kuryr",
        MACHINE,
    )
    assert held["status"] == "ACTIVE"
    items = shown["addresses"][project.network_id]
    assert {item["addr"] for item in items} == {ip["ip_address"] for ip in made["fixed_ips"]}
    assert all(item["port"] == made["id"] and item["preserve_on_delete"] for item in items)
    answer = user.ask(nets=[{"port": made["id"]}])
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "container.port-in-use")
    user.delete(shown["uuid"])
    after = testbed.port(made["id"])
    assert after is not None
    for name in ("device_id", "device_owner", "binding:host_id", "binding:vif_type", "name", "mac_address", "tags"):
        assert after[name] == before[name], name
    assert after["binding:vif_type"] == "unbound"


def test_ipv4_and_ipv6(user: User, project: Project, testbed: Testbed) -> None:
    project.add_subnet(project.network_id, ip_version=6, cidr="fd00:77::/64")
    shown = user.running()
    items = shown["addresses"][project.network_id]
    assert [item["version"] for item in items] == [4, 6]
    assert len({item["port"] for item in items}) == 1
    inside = user.run(shown["uuid"], "ip addr show eth0")[1]
    assert all(item["addr"] in inside for item in items)
    only = project.neutron(
        "POST",
        "/ports",
        json={"port": {"network_id": project.network_id, "fixed_ips": [{"subnet_id": project.subnet_id}]}},
    )["port"]
    four = user.running(nets=[{"port": only["id"]}])
    assert [item["version"] for item in four["addresses"][project.network_id]] == [4]
    fixed = user.running(nets=[{"network": project.network_id, "v6-fixed-ip": "fd00:77::99"}])
    assert "fd00:77::99" in {item["addr"] for item in fixed["addresses"][project.network_id]}
    user.delete(shown["uuid"], four["uuid"], fixed["uuid"])


def test_a_subnet_without_gateway(user: User, project: Project, other: Project) -> None:
    cidr = "10.99.7.0/24"
    network, _ = project.add_network(cidr=cidr, gateway_ip=None)
    shown = user.running(nets=[{"network": network}])
    routes = user.run(shown["uuid"], "ip route")[1]
    assert routes.startswith(cidr)
    assert "default" not in routes
    twin, _ = other.add_network(cidr=cidr, gateway_ip=None)  # the same addresses in another network
    stranger = User(user.product, other)
    second = stranger.running(nets=[{"network": twin}])
    stranger.delete(second["uuid"])
    user.delete(shown["uuid"])


def test_several_networks_in_the_order_asked(user: User, project: Project, testbed: Testbed) -> None:
    second, _ = project.add_network()
    third, _ = project.add_network()
    mine = project.neutron("POST", "/ports", json={"port": {"network_id": second}})["port"]
    shown = user.running(nets=[{"network": third}, {"network": project.network_id}, {"port": mine["id"]}])
    assert list(shown["addresses"]) == [third, project.network_id, second]
    wait_until(
        lambda: {port["status"] for port in testbed.ports(device_id=shown["uuid"])} == {"ACTIVE"}, 60, "all are wired"
    )
    # The engine numbers the interfaces of a plug-in's networks as it likes: which is eth0 is not ours to say.
    inside = user.run(shown["uuid"], "ip -o addr show")[1]
    interfaces = {word[3].split("/")[0]: word[1] for line in inside.splitlines() if (word := line.split())[2] == "inet"}
    named = [interfaces[shown["addresses"][network][0]["addr"]] for network in shown["addresses"]]
    assert sorted(named) == ["eth0", "eth1", "eth2"]
    user.delete(shown["uuid"])
    after = testbed.port(mine["id"])
    assert after is not None
    assert (after["device_id"], after["mac_address"]) == ("", mine["mac_address"])


def test_security_groups_by_name(user: User, project: Project, testbed: Testbed) -> None:
    body = {"security_group": {"name": "of-mine"}}
    group = project.neutron("POST", "/security-groups", json=body)["security_group"]["id"]
    shown = user.running(security_groups=["of-mine", group])
    assert shown["security_groups"] == [group]
    [port] = testbed.ports(device_id=shown["uuid"])
    assert port["security_groups"] == [group]
    user.delete(shown["uuid"])


def test_exposed_ports_are_open_and_their_group_goes_with_the_container(user: User, testbed: Testbed) -> None:
    page = "mkdir /www; echo welcome > /www/index.html; httpd -f -p 80 -h /www & httpd -f -p 81 -h /www"
    shown = user.running(command=["sh", "-c", page], exposed_ports={"80": {}, "53/udp": {}})
    [group] = testbed.security_groups(name=f"zun-{shown['uuid']}")
    assert shown["security_groups"] == [group["id"]]
    rules = {
        (rule["protocol"], rule["port_range_min"], rule["ethertype"])
        for rule in group["security_group_rules"]
        if rule["direction"] == "ingress"
    }
    assert rules == {(p, n, v) for p, n in (("tcp", 80), ("udp", 53)) for v in ("IPv4", "IPv6")}
    assert shown["ports"] == [53, 80]
    address = next(iter(shown["addresses"].values()))[0]["addr"]
    probe = user.running(command=["sleep", "1000"])

    def fetch(port: int) -> str:
        request = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 3 {address} {port}"
        return user.run(probe["uuid"], f'sh -c "{request}"')[1]

    assert "welcome" in fetch(80)
    assert "welcome" not in fetch(81)
    user.delete(shown["uuid"], probe["uuid"])
    assert not testbed.security_groups(name=f"zun-{shown['uuid']}")


def test_twenty_at_once_on_a_new_network(user: User, project: Project, testbed: Testbed) -> None:
    uuids = [user.create() for _ in range(20)]
    rows = [user.settled(uuid, "Running", timeout=240) for uuid in uuids]
    addresses = {row["addresses"][project.network_id][0]["addr"] for row in rows}
    assert len(addresses) == 20
    names = [row["Name"] for row in user.product.engine.get("/networks") if row["Name"] == project.network_id]
    assert len(names) == 1
    pools = testbed.admin.call("network", "GET", "/v2.0/subnetpools")["subnetpools"]
    assert len([pool for pool in pools if project.network_id in pool["description"]]) == 1
    user.delete(*uuids, timeout=240)


def test_a_network_comes_and_goes_while_the_container_runs(user: User, project: Project, testbed: Testbed) -> None:
    second, _ = project.add_network()
    shown = user.running()
    path = f"/v1/containers/{shown['uuid']}"

    def networks() -> set[str]:
        found = user.show(shown["uuid"])
        assert found is not None
        return set(found["addresses"]) if found["task_state"] is None else set()

    assert user.http.post(f"{path}/network_attach", params={"network": second}).status_code == 200
    both = {project.network_id, second}
    wait_until(lambda: networks() == both, 60, "the second network is there")
    assert {port["status"] for port in testbed.ports(device_id=shown["uuid"])} == {"ACTIVE"}
    assert user.http.post(f"{path}/network_detach", params={"network": project.network_id}).status_code == 202
    wait_until(lambda: networks() == {second}, 60, "the first network is gone")
    [port] = testbed.ports(device_id=shown["uuid"])
    assert port["network_id"] == second
    user.delete(shown["uuid"])


def test_neutron_hung_for_a_while_delays_a_create_and_makes_one_port(
    make_cloud_product: Callable[..., CloudProduct], project: Project, testbed: Testbed
) -> None:
    with tcp_proxy(PORTS["Neutron"]) as proxy:
        product = make_cloud_product().conf(neutron_client={"endpoint_override": proxy.url, "timeout": 2}).start()
        user = User(product, project)
        proxy.mode("hang", only="POST /v2.0/ports")
        uuid = user.create()
        wait_until(lambda: proxy.count("POST /v2.0/ports") > 0, 30, "Neutron is asked for a port")
        proxy.mode("pass")
        user.settled(uuid, "Running")
        assert len(testbed.ports(device_id=uuid)) == 1
        user.delete(uuid)
        product.close()


def test_neutron_failing_for_good_is_the_reason_and_nothing_is_left(
    make_cloud_product: Callable[..., CloudProduct], project: Project
) -> None:
    with tcp_proxy(PORTS["Neutron"]) as proxy:
        product = make_cloud_product().conf(
            neutron_client={"endpoint_override": proxy.url}, compute={"retry_attempts": 2}
        )
        user = User(product.start(), project)
        proxy.mode("500", only="POST /v2.0/ports")
        uuid = user.create()
        shown = user.settled(uuid, "Error")
        assert shown["status_reason"].startswith("Neutron is not available")
        assert not shown["addresses"]
        product.check_no_leak(uuid)
        user.delete(uuid)
        product.close()
