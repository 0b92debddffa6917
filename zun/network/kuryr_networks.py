"""A Neutron network as Docker is asked to make it with Kuryr. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from zun.domain.errors import NetworkSetupFailed
from zun.domain.observed import EngineNetwork
from zun.network.neutron_api import Row
from zun.network.neutron_facts import NetworkFacts

_SUBNET = {4: "neutron.subnet.uuid", 6: "neutron.subnet.v6.uuid"}
_POOL = {4: "neutron.pool.uuid", 6: "neutron.pool.v6.uuid"}


def first_subnets(facts: NetworkFacts) -> dict[int, Row]:
    """The oldest subnet of each IP version: the ones that Kuryr is told of by id."""
    found: dict[int, Row] = {}
    for subnet in facts.subnets.values():
        found.setdefault(subnet["ip_version"], subnet)
    return found


def engine_network(
    facts: NetworkFacts, driver: str, needed: Collection[str], *, pools: Mapping[str, str] | None = None
) -> EngineNetwork:
    """With the first subnets and the ``needed`` ones (ids). ``pools``: subnet id -> the pool made for it.

    A gateway is named only where the subnet has one: Kuryr takes no other, and does without.
    Raises NetworkSetupFailed for a network without subnets.
    """
    firsts = first_subnets(facts)
    shared = str(bool(facts.network["shared"]))
    ipam = {"neutron.net.shared": shared}
    options = {"neutron.net.uuid": facts.network["id"], "neutron.net.shared": shared}
    for version, subnet in sorted(firsts.items()):
        ipam[_SUBNET[version]] = options[_SUBNET[version]] = subnet["id"]
        if pools and subnet["id"] in pools:
            ipam[_POOL[version]] = options[_POOL[version]] = pools[subnet["id"]]
    ids = {subnet["id"] for subnet in firsts.values()} | set(needed)
    rows = [(row["cidr"], row["gateway_ip"] or None) for row in facts.subnets.values() if row["id"] in ids]
    if not rows:
        raise NetworkSetupFailed(f"Network {facts.network['id']} has no subnet.")
    return EngineNetwork(
        name=facts.network["id"],
        subnet=rows[0][0],
        gateway=rows[0][1],
        driver=driver,
        options=options,
        more_subnets=tuple(rows[1:]),
        ipam_driver=driver,
        ipam_options=ipam,
    )
