"""Is an interface as it was plugged? Looked up in the kernel, within the namespace and on the host. Blocking."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

from pyroute2 import IPRoute

from zun.plumbing import links
from zun.plumbing.netns import inside
from zun.plumbing.vif import Vif

_ANY = ("0.0.0.0/0", "::/0")


def problems(vif: Vif, namespace: int) -> list[str]:
    """What differs, a few words each; empty when all is well. Raises OSError, NetlinkError."""
    return [*_on_the_host(vif), *_in_the_namespace(vif, namespace)]


def _on_the_host(vif: Vif) -> Iterator[str]:
    with IPRoute() as ip:
        tap = links.find(ip, vif.tap)
        if tap is None:
            yield f"{vif.tap} is not on the host"
            return
        link = ip.link("get", index=tap)[0]
        if link.get("state") != "up":
            yield f"{vif.tap} is down"
        if vif.switch == "bridge" and link.get("master") != links.find(ip, vif.bridge):
            yield f"{vif.tap} is not a port of bridge {vif.bridge}"


def _in_the_namespace(vif: Vif, namespace: int) -> Iterator[str]:
    with inside(namespace), IPRoute() as ip:
        found = links.find_marked(ip, links.mark_of(vif))
        if found is None:
            yield f"the interface of port {vif.port_id} is not in the namespace"
            return
        index, name = found
        link = ip.link("get", index=index)[0]
        if link.get("state") != "up":
            yield f"{name} is down"
        if link.get("address") != vif.mac:
            yield f"{name} has MAC {link.get('address')} instead of {vif.mac}"
        if link.get("mtu") != vif.mtu:
            yield f"{name} has MTU {link.get('mtu')} instead of {vif.mtu}"
        addresses = {ip_interface(f"{row.get('address')}/{row['prefixlen']}") for row in ip.get_addr(index=index)}
        yield from (f"{name} lacks address {text}" for text in vif.addresses if ip_interface(text) not in addresses)
        routes = {_route(row) for row in ip.get_routes() if row.get("oif") == index and row.get("gateway")}
        for route in vif.routes:
            if (ip_network(route.destination), ip_address(route.gateway)) not in routes:
                yield f"{name} lacks the route to {route.destination} by {route.gateway}"


def _route(row: Any) -> tuple[Any, Any]:
    gateway = ip_address(row.get("gateway"))
    destination = row.get("dst")
    text = f"{destination}/{row['dst_len']}" if destination else _ANY[gateway.version == 6]
    return ip_network(text, strict=False), gateway
