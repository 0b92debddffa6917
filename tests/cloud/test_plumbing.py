"""Containers' interfaces on Open vSwitch, in real network namespaces."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.namespaces import OVS_DATABASE, Namespace, devices, ovs_ports, run
from tests.support.testbed import Testbed
from tests.support.wait import eventually
from zun.domain.errors import NetworkSetupFailed, ServiceUnavailable
from zun.plumbing.plumber import Plumber
from zun.plumbing.vif import Vif

OWNER = "test-deployment/ovs-host"


@pytest.fixture
def bridge(testbed: Testbed) -> Iterator[str]:
    """A bridge in user space that switches by MAC, as br-int does once Neutron's agent has set it up."""
    name = f"ovt{uuid.uuid4().hex[:8]}"
    run("ovs-vsctl", "add-br", name, "--", "set", "Bridge", name, "datapath_type=netdev")
    yield name
    run("ovs-vsctl", "--if-exists", "del-br", name)


@pytest.fixture
async def plumber(bridge: str) -> AsyncIterator[Plumber]:
    found = Plumber(OWNER, ovs_database=OVS_DATABASE)
    yield found
    for container in await found.containers():
        await found.remove(container)
    assert not ovs_ports(bridge)
    await found.close()


@pytest.fixture
def namespaces() -> Iterator[list[Namespace]]:
    found = [Namespace(), Namespace()]
    yield found
    for namespace in found:
        namespace.close()


def vif(number: int, bridge: str) -> Vif:
    return Vif(
        port_id=str(uuid.uuid4()),
        container=str(uuid.uuid4()),
        owner=OWNER,
        mac=f"fa:16:3e:00:01:{number:02x}",
        mtu=1400,
        switch="ovs",
        bridge=bridge,
        addresses=(f"10.95.0.{number}/24",),
        checksum_offload=False,
    )


async def test_packets_and_tcp_pass_a_switch_in_user_space(
    plumber: Plumber, bridge: str, namespaces: list[Namespace]
) -> None:
    assert await plumber.userspace(bridge)
    for number, namespace in enumerate(namespaces, 1):
        one = vif(number, bridge)
        await plumber.prepare(one)
        await plumber.connect([one], namespace.fd)
        assert "tx-checksumming: off" in namespace.run("ethtool", "-k", "eth0")
    first, second = namespaces
    assert first.pings("10.95.0.2")
    with second.serving(8000, "hello"):
        await eventually(lambda: first.fetch("10.95.0.2", 8000) == "hello", 20, "TCP passes")


async def test_the_port_carries_the_marks_that_neutrons_agent_looks_for(plumber: Plumber, bridge: str) -> None:
    one = vif(1, bridge)
    await plumber.prepare(one)
    await plumber.prepare(one)
    assert ovs_ports(bridge) == [one.tap]
    marks = run("ovs-vsctl", "get", "Interface", one.tap, "external_ids")
    for mark in (f'iface-id="{one.port_id}"', f'attached-mac="{one.mac}"', f'vm-uuid="{one.container}"'):
        assert mark in marks
    assert "iface-status=active" in marks
    assert run("ovs-vsctl", "get", "Interface", one.tap, "ofport").strip() != "-1"


async def test_the_port_goes_though_its_device_and_namespace_are_gone(
    plumber: Plumber, bridge: str, namespaces: list[Namespace]
) -> None:
    one = vif(1, bridge)
    await plumber.prepare(one)
    await plumber.connect([one], namespaces[0].fd)
    namespaces[0].close()
    await eventually(lambda: one.tap not in devices(), 10, "the pair died with its namespace")
    assert await plumber.containers() == {one.container}
    await plumber.remove(one.container)
    assert not ovs_ports(bridge)
    assert not await plumber.containers()


async def test_a_device_made_anew_is_taken_up_by_the_switch(
    plumber: Plumber, bridge: str, namespaces: list[Namespace]
) -> None:
    one, other = vif(1, bridge), vif(2, bridge)
    for item in (one, other):
        await plumber.prepare(item)
    await plumber.connect([one], namespaces[0].fd)
    namespaces[0].close()
    await eventually(lambda: one.tap not in devices(), 10, "the pair died with its namespace")
    namespaces[0] = Namespace()
    await plumber.connect([one], namespaces[0].fd)
    await plumber.connect([other], namespaces[1].fd)
    assert namespaces[0].pings("10.95.0.2")


async def test_a_bridge_that_is_not_there_and_a_switch_that_is_away_are_told(plumber: Plumber, bridge: str) -> None:
    one = vif(1, "no-such-bridge")
    with pytest.raises(NetworkSetupFailed, match="no-such-bridge"):
        await plumber.prepare(one)
    assert await plumber.containers() == {one.container}
    await plumber.remove(one.container)
    away = Plumber(OWNER, ovs_database="unix:/nonexistent/db.sock")
    with pytest.raises(ServiceUnavailable, match="Open vSwitch is not available"):
        await away.containers()
    await away.close()
