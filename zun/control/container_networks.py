"""A container's ``addresses`` as ``network_list`` shows them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def by_address(addresses: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """One entry an address (1.13 to 1.17)."""
    return [
        {
            "net_id": network,
            "subnet_id": item["subnet_id"],
            "port_id": item["port"],
            "version": item["version"],
            "ip_address": item["addr"],
        }
        for network, items in (addresses or {}).items()
        for item in items
    ]


def by_port(addresses: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """One entry a port, with its fixed addresses (from 1.18)."""
    ports: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for item in by_address(addresses):
        fixed = {name: item[name] for name in ("subnet_id", "version", "ip_address")}
        ports.setdefault((item["net_id"], item["port_id"]), []).append(fixed)
    return [{"net_id": network, "port_id": port, "fixed_ips": fixed} for (network, port), fixed in ports.items()]
