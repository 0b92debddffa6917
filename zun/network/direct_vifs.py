"""From a port as Neutron bound it to the interface that this node plugs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from zun.domain.errors import NetworkSetupFailed
from zun.network.neutron_ports import BoundPort
from zun.plumbing.vif import Route, Vif

_PREFIX = 11
_MTU = 1500


@dataclass(frozen=True, slots=True)
class Binding:
    """How Neutron wants the port plugged. ``userspace`` None: it does not say what the switch is."""

    switch: str
    bridge: str
    userspace: bool | None


def binding_of(port: Any) -> Binding:
    """Raises NetworkSetupFailed when the port is not bound, or to what this node cannot plug."""
    kind, details = port.get("binding:vif_type"), port.get("binding:vif_details") or {}
    host = port.get("binding:host_id")
    if kind in ("binding_failed", "unbound", None):
        raise NetworkSetupFailed(f"Neutron could not bind port {port['id']} on host {host}; does its agent run there?")
    if port.get("binding:vnic_type", "normal") != "normal":
        raise NetworkSetupFailed(
            f"Port {port['id']} is of type {port['binding:vnic_type']}; only normal can be plugged."
        )
    if kind == "ovs" and not details.get("ovs_hybrid_plug"):
        datapath = details.get("datapath_type")
        return Binding("ovs", details.get("bridge_name") or "br-int", datapath == "netdev" if datapath else None)
    if kind == "bridge":
        return Binding("bridge", details.get("bridge_name") or f"brq{port['network_id'][:_PREFIX]}", False)
    how = "ovs with a Linux bridge between (ovs_hybrid_plug)" if kind == "ovs" else kind
    raise NetworkSetupFailed(f"Port {port['id']} is bound as {how}, which this node cannot plug.")


def vif_of(container: str, owner: str, bound: BoundPort, binding: Binding, *, gateway: bool) -> Vif:
    """The interface. ``gateway``: the default routes are this port's, the first that has any."""
    port, subnets = bound.port, bound.facts.subnets
    held = [(ip["ip_address"], subnets[ip["subnet_id"]]) for ip in port["fixed_ips"] if ip["subnet_id"] in subnets]
    return Vif(
        port_id=bound.id,
        container=container,
        owner=owner,
        mac=port["mac_address"],
        mtu=int(bound.facts.network.get("mtu") or _MTU),
        switch=binding.switch,
        bridge=binding.bridge,
        addresses=tuple(f"{address}/{ip_network(subnet['cidr']).prefixlen}" for address, subnet in held),
        routes=tuple(dict.fromkeys(_routes([subnet for _, subnet in held], gateway=gateway))),
        checksum_offload=not binding.userspace,
    )


def _routes(subnets: Sequence[Any], *, gateway: bool) -> Iterator[Route]:
    for version, everything in ((4, "0.0.0.0/0"), (6, "::/0")):
        gateways = [row["gateway_ip"] for row in subnets if row["ip_version"] == version and row.get("gateway_ip")]
        if gateway and gateways:
            yield Route(everything, gateways[0])
    for subnet in subnets:
        for route in subnet.get("host_routes") or ():
            if gateway or route["destination"] not in ("0.0.0.0/0", "::/0"):
                yield Route(route["destination"], route["nexthop"])


def vifs_of(container: str, owner: str, ports: Sequence[tuple[BoundPort, Binding]]) -> list[Vif]:
    """All of a container, in order; the first with a gateway has the default route of each IP version."""
    vifs: list[Vif] = []
    routed = False
    for bound, binding in ports:
        vif = vif_of(container, owner, bound, binding, gateway=not routed)
        routed = routed or any(route.destination in ("0.0.0.0/0", "::/0") for route in vif.routes)
        vifs.append(vif)
    return vifs
