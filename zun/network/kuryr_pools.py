"""Subnet pools that Kuryr knows the engine's networks by. Ours are made for one network on one host: one that Kuryr
makes itself is shared by all hosts, and goes with the first engine network that is removed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from zun.network.kuryr_networks import first_subnets
from zun.network.neutron_api import NeutronApi, Row, failure
from zun.network.neutron_facts import NetworkFacts
from zun.openstack.client import Refused


class KuryrPools:
    """Raises NetworkSetupFailed, ServiceUnavailable."""

    def __init__(self, api: NeutronApi, host: str) -> None:
        self._api = api
        self._host = host

    async def ensure(self, facts: NetworkFacts) -> Mapping[str, str]:
        """Subnet id -> pool id for the first subnet of each version, made or found."""
        try:
            return await self._ensure(facts)
        except Refused as refusal:
            raise failure("a subnet pool", refusal) from refusal

    async def release(self, network_id: str) -> None:
        """Delete those of a network that the engine has no more. None is success."""
        try:
            found = await self._api.find("subnetpools", description=self._mark(network_id))
            await asyncio.gather(*(self._api.delete("subnetpools", row["id"]) for row in found))
        except Refused as refusal:
            raise failure("to delete a subnet pool", refusal) from refusal

    async def _ensure(self, facts: NetworkFacts) -> Mapping[str, str]:
        network, subnets = facts.network, first_subnets(facts).values()
        found = await self._api.find("subnetpools", description=self._mark(network["id"]))
        pools = {prefix: row["id"] for row in found if row["shared"] == network["shared"] for prefix in row["prefixes"]}
        lacking = [subnet for subnet in subnets if subnet["cidr"] not in pools]
        made = await asyncio.gather(*(self._make(network, subnet) for subnet in lacking))
        pools |= {row["prefixes"][0]: row["id"] for row in made}
        for subnet in subnets:
            if not subnet["gateway_ip"]:
                await self._tag(subnet, pools[subnet["cidr"]])
        return {subnet["id"]: pools[subnet["cidr"]] for subnet in subnets}

    async def _tag(self, subnet: Row, pool_id: str) -> None:
        """Kuryr knows the subnet of a pool by this tag, where others have the same addresses. It sets it itself, but
        too late for the answer that there is no gateway."""
        if pool_id not in subnet.get("tags", ()):
            await self._api.tag("subnets", subnet["id"], pool_id)

    async def _make(self, network: Row, subnet: Row) -> Row:
        body = {
            "name": f"kuryrPool-{subnet['cidr']}",
            "description": self._mark(network["id"]),
            "prefixes": [subnet["cidr"]],
            "default_prefixlen": int(subnet["cidr"].partition("/")[2]),
            "shared": network["shared"],
        }
        return await self._api.create_one("subnetpools", body)

    def _mark(self, network_id: str) -> str:
        return f"Docker network {network_id} on host {self._host}"
