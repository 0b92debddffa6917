"""Containers on Neutron's networks, plugged by the node itself: what is particular to it. What it has in common with
Kuryr is tested for both in ``test_network_kuryr``."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.cloud.test_network_kuryr import SLEEP, User
from tests.cloud.test_network_kuryr import other as other
from tests.cloud.test_network_kuryr import test_a_subnet_without_gateway as test_a_subnet_without_gateway
from tests.cloud.test_network_kuryr import test_addresses_asked_for as test_addresses_asked_for
from tests.cloud.test_network_kuryr import test_ipv4_and_ipv6 as test_ipv4_and_ipv6
from tests.cloud.test_network_kuryr import test_security_groups_by_name as test_security_groups_by_name
from tests.cloud.test_network_kuryr import (
    test_several_networks_in_the_order_asked as test_several_networks_in_the_order_asked,
)
from tests.support.cloud_product import CloudProduct
from tests.support.namespaces import OVS_DATABASE, devices, ovs_ports
from tests.support.testbed import MACHINE, Testbed
from tests.support.testbed_project import Project
from tests.support.wait import wait_until


@pytest.fixture
def user(cloud_product: CloudProduct, project: Project) -> User:
    cloud_product.conf(network={"driver": "direct", "ovsdb_connection": OVS_DATABASE}).restart()
    return User(cloud_product, project)


def test_one_network_from_create_to_delete(user: User, testbed: Testbed, project: Project) -> None:
    shown = user.running(hostname="web")
    [port] = testbed.ports(device_id=shown["uuid"])
    assert port["device_owner"] == "compute:zun"
    assert port["binding:host_id"] == MACHINE
    address = shown["addresses"][project.network_id][0]["addr"]
    assert address == port["fixed_ips"][0]["ip_address"]
    assert f"inet {address}/24" in user.run(shown["uuid"], "ip addr show eth0")[1]
    assert port["mac_address"] in user.run(shown["uuid"], "ip link show eth0")[1]
    assert address in user.run(shown["uuid"], "cat /etc/hosts")[1]
    tap = f"tap{port['id'][:11]}"
    assert tap in ovs_ports("br-int")
    user.delete(shown["uuid"])
    assert tap not in ovs_ports("br-int")
    assert tap not in devices()


def test_packets_pass_before_the_process_runs(user: User, project: Project, testbed: Testbed) -> None:
    page = "mkdir /www; echo welcome > /www/index.html; httpd -f -p 80 -h /www"
    server = user.running(command=["sh", "-c", page], exposed_ports={"80": {}})
    address = server["addresses"][project.network_id][0]["addr"]
    at_once = (
        f"ip -o addr show eth0; printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {address} 80; echo code=$?; sleep 1000"
    )
    uuids = [user.create(command=["sh", "-c", at_once]) for _ in range(8)]
    for uuid in uuids:
        user.settled(uuid, "Running")

        def said(uuid: str = uuid) -> str:
            text = user.http.get(f"/v1/containers/{uuid}/logs").text
            return text if "code=" in text else ""

        text = wait_until(said, 30, "it said what it saw")
        assert "inet " in text
        assert "welcome" in text, text
    user.delete(server["uuid"], *uuids, timeout=120)


def test_a_restart_by_the_engine_and_by_the_user_keeps_the_interface(user: User, project: Project) -> None:
    say = "ip -o addr show eth0; echo said; sleep 3; exit 1"
    shown = user.running(command=["sh", "-c", say], restart_policy={"Name": "always"})
    address = shown["addresses"][project.network_id][0]["addr"]

    def log() -> str:
        return str(user.http.get(f"/v1/containers/{shown['uuid']}/logs").text)

    wait_until(lambda: log().count("said") >= 3, 60, "the engine has restarted it")
    assert log().count(f"inet {address}/") >= log().count("said") - 1
    user.delete(shown["uuid"])
    steady = user.running(command=SLEEP)
    answer = user.http.post(f"/v1/containers/{steady['uuid']}/reboot", params={"timeout": 1})
    assert answer.status_code == 202
    user.settled(steady["uuid"], "Running")
    address = steady["addresses"][project.network_id][0]["addr"]
    assert f"inet {address}/24" in user.run(steady["uuid"], "ip addr show eth0")[1]
    user.http.post(f"/v1/containers/{steady['uuid']}/stop", params={"timeout": 1})
    user.settled(steady["uuid"], "Stopped")
    user.http.post(f"/v1/containers/{steady['uuid']}/start")
    user.settled(steady["uuid"], "Running")
    assert f"inet {address}/24" in user.run(steady["uuid"], "ip addr show eth0")[1]
    user.delete(steady["uuid"])


def test_a_closed_port_stays_closed_and_names_are_resolved(user: User, project: Project) -> None:
    project.neutron("PUT", f"/subnets/{project.subnet_id}", json={"subnet": {"dns_nameservers": ["192.0.2.53"]}})
    page = "mkdir /www; echo welcome > /www/index.html; httpd -f -p 80 -h /www & httpd -f -p 81 -h /www"
    server = user.running(command=["sh", "-c", page], exposed_ports={"80": {}})
    probe = user.running()
    address = server["addresses"][project.network_id][0]["addr"]
    ask = f"echo x | nc -w 3 {address}"
    assert "400" in user.run(probe["uuid"], f"sh -c '{ask} 80'")[1]
    assert user.run(probe["uuid"], f"sh -c '{ask} 81'")[0] != 0
    assert "nameserver 192.0.2.53" in user.run(probe["uuid"], "cat /etc/resolv.conf")[1]
    user.delete(server["uuid"], probe["uuid"])


def test_a_new_agent_finds_the_interfaces_of_what_runs_and_of_what_was_restarted_meanwhile(
    user: User, project: Project
) -> None:
    shown, other = user.running(), user.running()
    address = other["addresses"][project.network_id][0]["addr"]
    node = user.product.node
    os.kill(node.pid, signal.SIGKILL)
    node.wait_ended()
    user.product.engine.post(f"/containers/zun-{other['uuid']}/restart?t=1")
    seen = node.log().count("result=ready")
    node.spawn()
    wait_until(lambda: node.log().count("result=ready") > seen, 60, "the agent is back")
    for one in (shown, other):
        own = one["addresses"][project.network_id][0]["addr"]
        wait_until(lambda own=own, one=one: own in user.run(one["uuid"], "ip addr show eth0")[1], 40, "it is plugged")  # type: ignore[misc]
    pinged = f"ping -c 1 -W 2 {address}"
    wait_until(lambda: user.run(shown["uuid"], pinged)[0] == 0, 40, "packets pass")
    user.delete(shown["uuid"], other["uuid"])


def _port_made(user: User, uuid: str) -> bool:
    return bool(user.product.testbed.ports(device_id=uuid))


def _on_the_switch(user: User, uuid: str) -> bool:
    return any(f"tap{port['id'][:11]}" in ovs_ports("br-int") for port in user.product.testbed.ports(device_id=uuid))


def _in_the_engine(user: User, uuid: str) -> bool:
    return user.product.engine.container(uuid) is not None


def _begun(user: User, uuid: str) -> bool:
    return True


@pytest.mark.parametrize("reached", [_begun, _port_made, _on_the_switch, _in_the_engine])
def test_an_agent_killed_in_a_create_leaves_nothing(user: User, reached: Callable[[User, str], bool]) -> None:
    before = set(ovs_ports("br-int")), devices()
    uuid = user.create()
    wait_until(lambda: reached(user, uuid), 60, "the create has come so far")
    ports = user.product.testbed.ports(device_id=uuid)
    node = user.product.node
    os.kill(node.pid, signal.SIGKILL)
    node.wait_ended()
    node.spawn()
    user.product.wait_up()
    user.settled(uuid, "Running")
    ports += user.product.testbed.ports(device_id=uuid)
    user.delete(uuid)
    taps = {f"tap{port['id'][:11]}" for port in ports}
    wait_until(lambda: not taps & (set(ovs_ports("br-int")) | devices()), 30, f"nothing is left beside {before}")
