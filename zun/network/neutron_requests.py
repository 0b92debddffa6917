"""What a request names in Neutron, read with the caller's token: networks, ports, addresses, security groups (S1.4)."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from zun.domain.caller import Caller
from zun.domain.container import RequestedNetwork
from zun.domain.errors import (
    Conflict,
    ExternalNetworkAttachForbidden,
    InvalidValue,
    NetworkNotFound,
    PortBindingFailed,
    PortInUse,
    PortNotFound,
    PortNotUsable,
    Unauthorized,
)
from zun.network.neutron_api import NeutronApi, Row
from zun.openstack.client import Refused
from zun.openstack.together import Together

NONE_AVAILABLE = "There is no neutron network available"
"""Clients know this text."""
_BUSY = frozenset({"ACTIVE", "BUILD", "ERROR"})


class NeutronRequests:
    """Names and ids to checked ids. Raises ServiceUnavailable, and Unauthorized when Neutron takes not the token."""

    def __init__(self, api: NeutronApi) -> None:
        self._api = api
        self._together: Together[list[Row]] = Together()

    async def networks(
        self, caller: Caller, nets: Sequence[Mapping[str, Any]], *, external: bool
    ) -> Sequence[RequestedNetwork]:
        """See ``Network.resolve``."""
        try:
            if not nets:
                return [RequestedNetwork((await self._default(caller, external=external))["id"])]
            return await self._named(caller, nets, external=external)
        except Refused as refusal:
            raise _translated(refusal) from refusal

    async def security_groups(self, caller: Caller, names: Sequence[str]) -> Sequence[str]:
        """See ``Network.security_groups``."""
        try:
            found = await self._lookup(caller, "security-groups", names)
        except Refused as refusal:
            raise _translated(refusal) from refusal
        ids = []
        for name in names:
            rows = found[name]
            if not rows:
                raise InvalidValue(f"Security group {name} not found.")
            ids.append(_only(rows, "security groups", name)["id"])
        return ids

    async def port_id(self, caller: Caller, ident: str) -> str:
        """See ``Network.port_id``."""
        try:
            rows = (await self._lookup(caller, "ports", [ident]))[ident]
        except Refused as refusal:
            raise _translated(refusal) from refusal
        if not rows:
            raise PortNotFound(ident)
        return str(_only(rows, "ports", ident)["id"])

    # -- networks and ports --------------------------------------------------------------------------

    async def _default(self, caller: Caller, *, external: bool) -> Row:
        """The project's oldest network of its own, else the oldest shared one. Raises Conflict."""
        project = caller.project_id or ""
        for filters in ({"project_id": project, "shared": False}, {"shared": True}):
            rows = await self._find("networks", caller, **filters)
            usable = [row for row in rows if row["subnets"] and (external or not _is_external(row))]
            if usable:
                return min(usable, key=lambda row: (row.get("created_at") or "", row["id"]))
        raise Conflict(NONE_AVAILABLE)

    async def _named(
        self, caller: Caller, nets: Sequence[Mapping[str, Any]], *, external: bool
    ) -> list[RequestedNetwork]:
        names = [str(net["network"]) for net in nets if net.get("network")]
        port_names = [str(net["port"]) for net in nets if net.get("port")]
        networks, ports = await asyncio.gather(
            self._lookup(caller, "networks", names), self._lookup(caller, "ports", port_names)
        )
        asked = [
            _port(caller, net, ports) if net.get("port") else _network(net, networks, external=external) for net in nets
        ]
        if len({one.network_id for one in asked}) < len(asked):
            raise InvalidValue("A network is named more than once; a container joins a network once.")
        await self._check_addresses(caller, [one for one in asked if not one.port_id])
        return asked

    async def _lookup(self, caller: Caller, kind: str, idents: Sequence[str]) -> dict[str, list[Row]]:
        """Each ident's candidates: the one with that id, else those with that name. Two calls at most, side by side."""
        wanted = list(dict.fromkeys(idents))
        if not wanted:
            return {}
        ids = [ident for ident in wanted if _is_uuid(ident)]
        names = [ident for ident in wanted if not _is_uuid(ident)]
        by_id, by_name = await asyncio.gather(
            self._find(kind, caller, id=ids) if ids else _nothing(),
            self._find(kind, caller, name=names) if names else _nothing(),
        )
        found: dict[str, list[Row]] = {}
        for ident in wanted:
            same = [row for row in by_id if row["id"] == ident]
            found[ident] = same or _in_scope(caller, [row for row in by_name if row["name"] == ident])
        return found

    async def _find(self, kind: str, caller: Caller, **filters: Any) -> list[Row]:
        """With the caller's token. Twenty creates of one project at once are not twenty questions."""
        key = (kind, caller.token, repr(sorted(filters.items())))
        return await self._together.ask(key, lambda: self._api.find(kind, token=caller.token, **filters))

    # -- addresses -----------------------------------------------------------------------------------

    async def _check_addresses(self, caller: Caller, asked: Sequence[RequestedNetwork]) -> None:
        """Each address asked for lies in a subnet of its network and is free, as far as the caller can see."""
        fixed = [one for one in asked if one.v4_fixed_ip or one.v6_fixed_ip]
        if not fixed:
            return
        ids = [one.network_id for one in fixed]
        wanted = [f"ip_address={address}" for one in fixed for address in _addresses(one)]
        subnets, holders = await asyncio.gather(
            self._find("subnets", caller, network_id=ids),
            self._find("ports", caller, network_id=ids, fixed_ips=wanted),
        )
        taken = {(port["network_id"], ip["ip_address"]) for port in holders for ip in port["fixed_ips"]}
        for one in fixed:
            cidrs = [ipaddress.ip_network(row["cidr"]) for row in subnets if row["network_id"] == one.network_id]
            for address in _addresses(one):
                if not any(ipaddress.ip_address(address) in cidr for cidr in cidrs):
                    raise InvalidValue(f"Address {address} is in no subnet of network {one.network_id}.")
                if (one.network_id, address) in taken:
                    raise InvalidValue(f"Address {address} is in use on network {one.network_id}.")


async def _nothing() -> list[Row]:
    return []


def _network(net: Mapping[str, Any], found: Mapping[str, list[Row]], *, external: bool) -> RequestedNetwork:
    ident = str(net["network"])
    if not found[ident]:
        raise NetworkNotFound(ident)
    row = _only(found[ident], "networks", ident)
    if _is_external(row) and not external:
        raise ExternalNetworkAttachForbidden(f"Network {row['id']} is external; it is open to administrators only.")
    if not row["subnets"]:
        raise InvalidValue(f"Network {row['id']} has no subnet, so a container can have no address on it.")
    return RequestedNetwork(
        row["id"], v4_fixed_ip=_address(net, "v4-fixed-ip"), v6_fixed_ip=_address(net, "v6-fixed-ip")
    )


def _port(caller: Caller, net: Mapping[str, Any], found: Mapping[str, list[Row]]) -> RequestedNetwork:
    ident = str(net["port"])
    if not found[ident]:
        raise PortNotFound(ident)
    row = _only(found[ident], "ports", ident)
    if row.get("project_id") != caller.project_id:
        raise PortNotUsable(f"Port {row['id']} does not belong to your project.")
    if row.get("device_id"):
        raise PortInUse(f"Port {row['id']} is in use.")
    if row.get("binding:vif_type") == "binding_failed":
        raise PortBindingFailed(f"The binding of port {row['id']} has failed.")
    if row.get("status") in _BUSY:
        raise PortNotUsable(f"Port {row['id']} is {row['status']}, so it cannot be given to a container.")
    held = {str(ipaddress.ip_address(ip["ip_address"])) for ip in row["fixed_ips"]}
    if not held:
        raise PortNotUsable(f"Port {row['id']} has no address.")
    for name in ("v4-fixed-ip", "v6-fixed-ip"):
        if (address := _address(net, name)) and address not in held:
            raise InvalidValue(f"Port {row['id']} does not have the address {address}.")
    return RequestedNetwork(row["network_id"], port_id=row["id"], preserve_on_delete=True)


def _address(net: Mapping[str, Any], name: str) -> str | None:
    """In normal form: Neutron's own for IPv6."""
    return str(ipaddress.ip_address(str(net[name]))) if net.get(name) else None


def _addresses(one: RequestedNetwork) -> list[str]:
    return [address for address in (one.v4_fixed_ip, one.v6_fixed_ip) if address]


def _in_scope(caller: Caller, rows: Sequence[Row]) -> list[Row]:
    """A name means the project's own and what is shared: an administrator's token sees everybody's, and the owner of a
    network the ports of others on it."""
    own = [row for row in rows if row.get("project_id") == caller.project_id]
    common = [row for row in rows if row not in own and (row.get("shared") or row.get("router:external"))]
    return own + common or list(rows)


def _only(rows: Sequence[Row], kind: str, ident: str) -> Row:
    if len(rows) > 1:
        raise Conflict(f"Multiple {kind} are named {ident}; use the id.")
    return rows[0]


def _is_external(row: Row) -> bool:
    return bool(row.get("router:external")) and not row.get("shared")


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _translated(refusal: Refused) -> Exception:
    if refusal.status == 401:
        return Unauthorized("The token is no longer valid.")
    return InvalidValue(f"Neutron refuses the request: {refusal.message}")
