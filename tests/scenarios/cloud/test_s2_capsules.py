"""Scenario 2 beside the real services: capsules of containerd on Neutron's ports, wired by the real CNI pair."""

from __future__ import annotations

import pytest

from tests.support.capsule_node import PATIENCE, CapsuleNode
from tests.support.namespaces import devices, ovs_ports
from tests.support.testbed import MACHINE, Testbed
from tests.support.testbed_project import Project
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("s2-cloud")

SERVES = "trap 'exit 0' TERM; while :; do nc -lp 8080 -e echo hello; done & wait"


def test_s2_6_to_s2_15_capsules_run_with_active_ports_and_reach_each_other_by_tcp(
    rig: CapsuleNode, project: Project, testbed: Testbed
) -> None:
    server = rig.create(SERVES, ports=[{"containerPort": 8080, "protocol": "TCP"}])
    client = rig.create()
    served, asking = rig.wait(server, "Running"), rig.wait(client, "Running")
    [port] = testbed.ports(device_id=server)
    assert port["status"] == "ACTIVE"
    assert port["device_owner"] == "compute:zun"
    assert port["binding:host_id"] == MACHINE
    [group] = testbed.security_groups(name=f"zun-{server}")
    assert port["security_groups"] == [group["id"]]
    address = served["addresses"][project.network_id][0]["addr"]
    assert address == port["fixed_ips"][0]["ip_address"]
    member = asking["containers"][0]["uuid"]

    def run(command: str) -> str:
        answer = rig.http.post(f"/v1/containers/{member}/execute", params={"command": command, "run": "true"})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["output"])

    own = asking["addresses"][project.network_id][0]["addr"]
    assert f"inet {own}/24" in run("ip addr show eth0")
    wait_until(lambda: "hello" in run(f"sh -c 'nc -w 3 {address} 8080 </dev/null'"), 20, "TCP passes")
    rig.delete(server, client)


def test_s2_16_and_s2_17_a_port_that_does_not_become_active_is_named_with_the_seconds_and_nothing_is_left(
    rig: CapsuleNode, project: Project, testbed: Testbed
) -> None:
    """Its owner has switched it off, so that Neutron's agent leaves it DOWN; the agent itself is shared."""
    body = {"port": {"network_id": project.network_id, "admin_state_up": False}}
    port = project.neutron("POST", "/ports", json=body)["port"]["id"]
    uuid = rig.create(nets=[{"port": port}])
    shown = rig.wait(uuid, "Error")
    assert f"Port {port} did not become ACTIVE in Neutron within {PATIENCE} seconds" in shown["status_reason"]
    assert "status=504" in rig.log.read_text()
    wait_until(lambda: not rig.containerd.leftovers(), 20, "the sandbox is gone")
    after = testbed.port(port)
    assert after is not None
    assert after["device_id"] == ""
    assert f"tap{port[:11]}" not in devices() | set(ovs_ports("br-int"))
    rig.delete(uuid)
