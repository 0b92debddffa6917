"""CNI's result of an ADD: the interface data that the runtime is told (S2.12). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_interface
from typing import Any

from zun.plumbing.handover import Handover
from zun.plumbing.vif import Vif


def result(version: str, handover: Handover, names: Sequence[str], namespace: str) -> dict[str, Any]:
    """``names``: of the interfaces in the namespace, in order."""
    interfaces: list[dict[str, Any]] = []
    ips: list[dict[str, Any]] = []
    routes: list[dict[str, Any]] = []
    for vif, name in zip(handover.vifs, names, strict=True):
        interfaces.append({"name": name, "mac": vif.mac, "sandbox": namespace})
        for address in vif.addresses:
            ips.append(_ip(version, vif, address, len(interfaces) - 1))
        routes += [{"dst": route.destination, "gw": route.gateway} for route in vif.routes]
    interfaces += [{"name": vif.tap} for vif in handover.vifs]
    dns = {"nameservers": list(handover.name_servers)} if handover.name_servers else {}
    return {"cniVersion": version, "interfaces": interfaces, "ips": ips, "routes": routes, "dns": dns}


def _ip(version: str, vif: Vif, address: str, index: int) -> dict[str, Any]:
    interface = ip_interface(address)
    found: dict[str, Any] = {"address": address, "interface": index}
    if version.startswith("0."):  # required then, gone since
        found["version"] = str(interface.version)
    for route in vif.routes:
        if route.destination in ("0.0.0.0/0", "::/0") and ip_address(route.gateway) in interface.network:
            found["gateway"] = route.gateway
    return found
