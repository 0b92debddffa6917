"""From a port as Neutron bound it to the interface that the node plugs."""

from __future__ import annotations

from typing import Any

import pytest

from zun.domain.errors import NetworkSetupFailed
from zun.network.direct_vifs import Binding, binding_of, vifs_of
from zun.network.neutron_facts import NetworkFacts
from zun.network.neutron_ports import BoundPort
from zun.plumbing.vif import Route

PORT = "67c74f4e-8a57-4933-a93f-c8e3b9edcb12"
NETWORK = "803831e3-9de1-4e9b-ad3b-c9ad5749f2ce"


def port(**more: Any) -> dict[str, Any]:
    return {
        "id": PORT,
        "network_id": NETWORK,
        "mac_address": "fa:16:3e:00:00:01",
        "binding:host_id": "node",
        "binding:vnic_type": "normal",
        "binding:vif_type": "ovs",
        "binding:vif_details": {"bridge_name": "br-int", "datapath_type": "system"},
        "fixed_ips": [{"subnet_id": "four", "ip_address": "10.0.0.5"}, {"subnet_id": "six", "ip_address": "fd00::5"}],
    } | more


def subnet(version: int, cidr: str, gateway: str | None, *routes: tuple[str, str]) -> dict[str, Any]:
    rows = [{"destination": destination, "nexthop": hop} for destination, hop in routes]
    return {"ip_version": version, "cidr": cidr, "gateway_ip": gateway, "host_routes": rows}


FOUR = subnet(4, "10.0.0.0/24", "10.0.0.1", ("192.0.2.0/24", "10.0.0.9"))
SIX = subnet(6, "fd00::/64", "fd00::1")


def bound(four: dict[str, Any] = FOUR, six: dict[str, Any] = SIX, **more: Any) -> BoundPort:
    return BoundPort(port(**more), NetworkFacts({"id": NETWORK, "mtu": 1450}, {"four": four, "six": six}), given=False)


OVS = Binding("ovs", "br-int", False)


@pytest.mark.parametrize(
    ("kind", "details", "wanted"),
    [
        ("ovs", {"bridge_name": "br-x", "datapath_type": "netdev"}, Binding("ovs", "br-x", True)),
        ("ovs", {"bridge_name": "br-x", "datapath_type": "system"}, Binding("ovs", "br-x", False)),
        ("ovs", {}, Binding("ovs", "br-int", None)),
        ("bridge", {}, Binding("bridge", f"brq{NETWORK[:11]}", False)),
        ("bridge", {"bridge_name": "br7"}, Binding("bridge", "br7", False)),
    ],
)
def test_neutron_says_how_a_port_is_plugged(kind: str, details: dict[str, Any], wanted: Binding) -> None:
    assert binding_of(port(**{"binding:vif_type": kind, "binding:vif_details": details})) == wanted


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"binding:vif_type": "binding_failed"}, "could not bind"),
        ({"binding:vif_type": "unbound"}, "could not bind"),
        ({"binding:vif_type": "vhostuser"}, "bound as vhostuser"),
        ({"binding:vif_details": {"ovs_hybrid_plug": True}}, "ovs_hybrid_plug"),
        ({"binding:vnic_type": "direct"}, "type direct"),
    ],
)
def test_what_cannot_be_plugged_is_refused_by_the_ports_name(more: dict[str, Any], reason: str) -> None:
    with pytest.raises(NetworkSetupFailed, match=reason) as raised:
        binding_of(port(**more))
    assert PORT in raised.value.message


def test_addresses_routes_and_mtu_are_the_subnets_and_networks() -> None:
    [vif] = vifs_of("container", "owner", [(bound(), OVS)])
    assert vif.addresses == ("10.0.0.5/24", "fd00::5/64")
    assert vif.mtu == 1450
    assert vif.routes == (Route("0.0.0.0/0", "10.0.0.1"), Route("::/0", "fd00::1"), Route("192.0.2.0/24", "10.0.0.9"))
    assert (vif.tap, vif.spare) == ("tap67c74f4e-8a", "zun67c74f4e-8a")
    assert vif.checksum_offload
    assert vif.ipv6


def test_a_subnet_without_gateway_gives_no_default_route() -> None:
    [vif] = vifs_of("c", "o", [(bound(subnet(4, "10.0.0.0/24", None), subnet(6, "fd00::/64", None)), OVS)])
    assert vif.routes == ()


def test_the_first_network_with_a_gateway_has_the_default_routes() -> None:
    none = bound(subnet(4, "10.1.0.0/24", None), subnet(6, "fd01::/64", None))
    first, second, third = vifs_of("c", "o", [(none, OVS), (bound(), OVS), (bound(), OVS)])
    assert first.routes == ()
    assert Route("0.0.0.0/0", "10.0.0.1") in second.routes
    assert third.routes == (Route("192.0.2.0/24", "10.0.0.9"),)


def test_a_switch_in_user_space_needs_checksums_from_the_sender() -> None:
    [vif] = vifs_of("c", "o", [(bound(), Binding("ovs", "br-int", True))])
    assert not vif.checksum_offload
