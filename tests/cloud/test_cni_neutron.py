"""Capsules' ports in the testbed's Neutron on its Open vSwitch, plugged by the real CNI pair."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.cni import CniNode, path_of, sandbox_id
from tests.support.database import make_database
from tests.support.namespaces import OVS_DATABASE, Namespace, devices, ovs_ports
from tests.support.testbed import MACHINE, OWN_ACCOUNT, Testbed
from tests.support.testbed_project import Project
from tests.support.wait import eventually, wait_until
from zun import conf as zun_conf
from zun.domain.clock import SystemClock
from zun.domain.container import Container, RequestedNetwork
from zun.network.cni import CniNetwork
from zun.network.cni_neutron import NeutronSource
from zun.openstack.cloud import OpenStack
from zun.plumbing.plumber import Plumber

_CONF = f"""
{OWN_ACCOUNT}
[neutron]
agent_host = {MACHINE}
[network]
driver = direct
ovsdb_connection = {OVS_DATABASE}
"""


class Place:
    """One node beside Neutron."""

    def __init__(self, node: CniNode, network: CniNetwork, project: Project, testbed: Testbed) -> None:
        self.node = node
        self.network = network
        self.project = project
        self.testbed = testbed
        self.namespaces: list[Namespace] = []
        self.rows: list[Container] = []

    def row(self, **fields: Any) -> Container:
        values = {"name": "web", "image": "", "image_driver": "docker", "status": "Creating", "user_id": "u", **fields}
        self.rows.append(Container(uuid=str(uuid.uuid4()), project_id=self.project.id, **values))
        return self.rows[-1]

    def namespace(self) -> Namespace:
        self.namespaces.append(Namespace())
        return self.namespaces[-1]

    async def capsule(self, *requested: RequestedNetwork, **fields: Any) -> tuple[Container, str, Namespace, Any]:
        """A sandbox whose ADD is done; with CNI's result."""
        row = self.row(**fields)
        await self.network.ensure_ports(row, requested or [RequestedNetwork(self.project.network_id)])
        sandbox, namespace = sandbox_id(), await asyncio.to_thread(self.namespace)
        found = (await asyncio.to_thread(self.node.add, row.uuid, sandbox, namespace)).ok()
        return row, sandbox, namespace, found

    def taps(self, uuid: str) -> set[str]:
        return {f"tap{port['id'][:11]}" for port in self.testbed.ports(device_id=uuid)}


@pytest.fixture
def node(tmp_path: Path, testbed: Testbed) -> Iterator[CniNode]:
    made = CniNode(tmp_path / "node", _CONF).install().start()
    yield made
    assert made.terminate() == 0


@pytest.fixture
async def place(node: CniNode, project: Project, testbed: Testbed, tmp_path: Path) -> AsyncIterator[Place]:
    conf = zun_conf.load(files=[str(node.conf_file)])
    db, cloud = await make_database(tmp_path), OpenStack(conf)
    plumber = Plumber(node.handovers.owner, ovs_database=OVS_DATABASE)
    source = NeutronSource(cloud.neutron, plumber, db, conf)
    network = CniNetwork(source, plumber, node.handovers, db, conf, SystemClock())
    made = Place(node, network, project, testbed)
    yield made
    taps: set[str] = set()
    for row in made.rows:
        taps |= await asyncio.to_thread(made.taps, row.uuid)
        await network.release_ports(row.uuid)
    for namespace in made.namespaces:
        namespace.close()
    assert not taps & (devices() | set(ovs_ports("br-int")))
    for row in made.rows:
        assert not await asyncio.to_thread(testbed.ports, device_id=row.uuid)
        assert not await asyncio.to_thread(testbed.security_groups, name=f"zun-{row.uuid}")
    assert node.handovers.capsules() == frozenset()
    assert not await plumber.containers()
    await network.close()
    await cloud.close()
    await db.close()


async def reaches(one: Namespace, other: Namespace, address: str) -> None:
    with other.serving(8000, "hello"):
        await eventually(lambda: asyncio.to_thread(lambda: one.fetch(address, 8000) == "hello"), 20, f"to {address}")


async def test_the_port_is_active_when_add_answers_and_the_sandbox_has_its_address_and_mac(
    place: Place, testbed: Testbed
) -> None:
    row, sandbox, namespace, found = await place.capsule()
    [port] = testbed.ports(device_id=row.uuid)
    assert port["status"] == "ACTIVE"
    assert port["device_owner"] == "compute:zun"
    assert port["binding:host_id"] == MACHINE
    assert found["interfaces"][0] == {"name": "eth0", "mac": port["mac_address"], "sandbox": path_of(namespace)}
    address = port["fixed_ips"][0]["ip_address"]
    assert found["ips"][0]["address"] == f"{address}/24"
    shown = namespace.ip("addr", "show", "eth0")
    assert port["mac_address"] in shown
    assert f"inet {address}/24" in shown
    assert f"tap{port['id'][:11]}" in ovs_ports("br-int")
    assert (await asyncio.to_thread(place.node.check, row.uuid, sandbox, namespace)).ok() is None


async def test_two_capsules_on_one_network_reach_each_other_by_tcp(place: Place) -> None:
    _, _, first, _ = await place.capsule(exposed_ports=None)
    row = place.row(exposed_ports={"8000/tcp": {}})
    groups = await place.network.expose(row)
    assert groups is not None
    await place.network.ensure_ports(replace(row, security_groups=groups), [RequestedNetwork(place.project.network_id)])
    second = await asyncio.to_thread(place.namespace)
    found = (await asyncio.to_thread(place.node.add, row.uuid, sandbox_id(), second)).ok()
    address = found["ips"][0]["address"].partition("/")[0]
    await reaches(first, second, address)


async def test_several_networks_ipv4_and_ipv6_in_the_order_asked(place: Place, testbed: Testbed) -> None:
    project = place.project
    six, _ = project.add_network(cidr="fd96::/64", ip_version=6)
    other, _ = project.add_network(gateway_ip=None)
    row, sandbox, namespace, found = await place.capsule(
        RequestedNetwork(other), RequestedNetwork(project.network_id), RequestedNetwork(six)
    )
    ports = {port["network_id"]: port for port in testbed.ports(device_id=row.uuid)}
    for number, network in enumerate((other, project.network_id, six)):
        assert found["interfaces"][number]["name"] == f"eth{number}"
        assert ports[network]["mac_address"] in namespace.ip("addr", "show", f"eth{number}")
        assert ports[network]["fixed_ips"][0]["ip_address"] in namespace.ip("addr", "show", f"eth{number}")
        assert ports[network]["status"] == "ACTIVE"
    assert "dev eth1" in namespace.ip("route", "show", "default")
    assert (await asyncio.to_thread(place.node.delete, row.uuid, sandbox, namespace)).ok() is None


async def test_a_port_that_does_not_become_active_fails_the_add_naming_port_and_seconds(
    place: Place, testbed: Testbed
) -> None:
    """Switched off by its owner: Neutron binds such a port and leaves it DOWN, and the shared agent runs on."""
    node = place.node
    node.terminate()
    node.option(vif_active_timeout=3).start()
    row = place.row()
    await place.network.ensure_ports(row, [RequestedNetwork(place.project.network_id)])
    [port] = testbed.ports(device_id=row.uuid)
    testbed.admin.call("network", "PUT", f"/v2.0/ports/{port['id']}", json={"port": {"admin_state_up": False}})
    wait_until(lambda: (testbed.port(port["id"]) or {})["status"] == "DOWN", 30, "the port is down")
    namespace = await asyncio.to_thread(place.namespace)
    answer = await asyncio.to_thread(node.add, row.uuid, sandbox_id(), namespace)
    assert answer.failed() == (
        f"Port {port['id']} did not become ACTIVE in Neutron within 3 seconds; see its agent on this host."
    )
    assert answer.body["code"] == 100
    assert "status=504" in node.log()
    assert port["id"] in node.log()
    assert "eth0" not in namespace.ip("link")
    assert f"tap{port['id'][:11]}" not in devices() | set(ovs_ports("br-int"))


async def test_an_add_that_is_called_off_leaves_nothing(place: Place, testbed: Testbed) -> None:
    row = place.row()
    await place.network.ensure_ports(row, [RequestedNetwork(place.project.network_id)])
    [port] = testbed.ports(device_id=row.uuid)
    testbed.admin.call("network", "PUT", f"/v2.0/ports/{port['id']}", json={"port": {"admin_state_up": False}})
    wait_until(lambda: (testbed.port(port["id"]) or {})["status"] == "DOWN", 30, "the port is down")
    tap = f"tap{port['id'][:11]}"
    # its caller is killed
    namespace = await asyncio.to_thread(place.namespace)
    asked = place.node.begin("ADD", row.uuid, sandbox_id(), path_of(namespace))
    await eventually(lambda: asyncio.to_thread(lambda: place.node.waiting() == 1), 20, "it waits for Neutron")
    assert "eth0" in namespace.ip("link")
    asked.kill()
    asked.communicate()
    await eventually(lambda: tap not in devices() | set(ovs_ports("br-int")), 20, "it was unplugged")
    # its sandbox is deleted meanwhile
    sandbox = sandbox_id()
    asked = place.node.begin("ADD", row.uuid, sandbox, path_of(namespace))
    await eventually(lambda: asyncio.to_thread(lambda: place.node.waiting() == 1), 20, "it waits for Neutron")
    assert (await asyncio.to_thread(place.node.delete, row.uuid, sandbox, namespace)).ok() is None
    out, _ = await asyncio.to_thread(asked.communicate)
    assert b"was deleted meanwhile" in out
    assert tap not in devices() | set(ovs_ports("br-int"))
    # the daemon is told to stop
    asked = place.node.begin("ADD", row.uuid, sandbox, path_of(namespace))
    await eventually(lambda: asyncio.to_thread(lambda: place.node.waiting() == 1), 20, "it waits for Neutron")
    assert await asyncio.to_thread(place.node.terminate) == 0
    out, _ = await asyncio.to_thread(asked.communicate)
    assert b"told to stop" in out
    assert asked.returncode == 1
    assert tap not in devices() | set(ovs_ports("br-int"))
    await asyncio.to_thread(place.node.start)


async def test_a_daemon_killed_while_it_waits_is_followed_by_one_that_goes_on(place: Place, testbed: Testbed) -> None:
    row = place.row()
    await place.network.ensure_ports(row, [RequestedNetwork(place.project.network_id)])
    namespace, sandbox = await asyncio.to_thread(place.namespace), sandbox_id()
    asked = place.node.begin("ADD", row.uuid, sandbox, path_of(namespace))
    await eventually(lambda: "eth0" in namespace.ip("link"), 20, "it plugs")
    place.node.kill()
    await asyncio.to_thread(asked.communicate)
    assert asked.returncode == 1
    await asyncio.to_thread(place.node.start)
    (await asyncio.to_thread(place.node.add, row.uuid, sandbox, namespace)).ok()
    [port] = testbed.ports(device_id=row.uuid)
    assert port["status"] == "ACTIVE"
    assert (await asyncio.to_thread(place.node.check, row.uuid, sandbox, namespace)).ok() is None


async def test_a_port_of_the_users_is_used_and_given_back(place: Place, testbed: Testbed) -> None:
    body = {"port": {"network_id": place.project.network_id, "name": "mine"}}
    mine = place.project.neutron("POST", "/ports", json=body)["port"]
    row, _, namespace, _ = await place.capsule(RequestedNetwork(place.project.network_id, port_id=mine["id"]))
    assert mine["mac_address"] in namespace.ip("link", "show", "eth0")
    await place.network.release_ports(row.uuid)
    after = testbed.port(mine["id"])
    assert after is not None
    assert (after["device_id"], after["device_owner"]) == ("", "")


async def test_a_neutron_that_is_not_configured_is_told(place: Place, tmp_path: Path) -> None:
    """The daemon's zun.conf is not the agent's."""
    row = place.row()
    await place.network.ensure_ports(row, [RequestedNetwork(place.project.network_id)])
    handover = place.node.handovers.get(row.uuid)
    assert handover is not None
    assert handover.awaited
    other = CniNode(tmp_path / "other", f"[network]\novsdb_connection = {OVS_DATABASE}\n").install().start()
    try:
        other.handovers.put(handover)
        namespace = await asyncio.to_thread(place.namespace)
        told = (await asyncio.to_thread(other.add, row.uuid, sandbox_id(), namespace)).failed()
        assert "[network]/driver of the daemon's zun.conf is local" in told
    finally:
        assert other.terminate() == 0
