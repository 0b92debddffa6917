"""The Placement service of the cloud. Used by zun-api (candidates, claims) and by the nodes (their own inventory)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zun.domain.errors import PlacementUnavailable
from zun.openstack.client import ServiceClient
from zun.placement.base import Candidate, Provider
from zun.placement.openstack_allocations import CONSUMER_TYPE, Allocations
from zun.placement.openstack_calls import Calls, text
from zun.placement.openstack_providers import Providers


class OpenStackPlacement:
    """See ``zun.placement.base.Placement``."""

    def __init__(
        self,
        client: ServiceClient,
        *,
        deployment_id: str,
        refresh: float = 300.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``deployment_id`` (a uuid) is the aggregate that tells our providers from Nova's and from other
        deployments'. ``refresh``: seconds after which a provider is compared with Placement again; 0 = never."""
        self._calls = Calls(client)
        self._deployment = deployment_id
        self._providers = Providers(self._calls, deployment_id, refresh, monotonic)
        self._allocations = Allocations(self._calls)

    async def set_provider(self, provider: Provider) -> bool:
        """Make or change the provider; True if anything was written (S6.4). Raises Conflict for a taken name."""
        return await self._providers.set(provider)

    async def provider_named(self, name: str) -> str | None:
        """The uuid of the provider with that name, whoever made it."""
        return await self._providers.named(name)

    async def providers(self) -> Mapping[str, str]:
        """uuid -> name of every provider of this deployment."""
        return await self._providers.of_deployment()

    async def remove_provider(self, uuid: str) -> None:
        """Absent is success; Conflict while allocations are held."""
        await self._providers.remove(uuid)

    async def candidates(
        self, resources: Mapping[str, int], *, forbidden_traits: frozenset[str], limit: int, only: str | None = None
    ) -> Sequence[Candidate]:
        """One call (S1.9). A provider that has room only together with another one is no candidate: a container
        runs on one node."""
        params = {
            "resources": ",".join(f"{name}:{amount}" for name, amount in sorted(resources.items())),
            "member_of": self._deployment,
            "limit": str(limit),
        }
        if forbidden_traits:
            params["required"] = ",".join(f"!{name}" for name in sorted(forbidden_traits))
        if only is not None:
            params["in_tree"] = only
        for again in (True, False):
            await self._calls.make_traits(forbidden_traits)
            await self._calls.make_classes(resources)
            answer = await self._calls.ask("GET", "/allocation_candidates", params=params, expect=(400,))
            if answer.status < 400:
                return _candidates(answer.body)
            if again:
                self._calls.forget()  # a name that we had made was deleted from Placement
        raise PlacementUnavailable(f"Placement refused to look for candidates: {text(answer)}")

    async def sample(
        self, resources: Mapping[str, int], *, forbidden_traits: frozenset[str], size: int, limit: int
    ) -> Sequence[Candidate]:
        """``size`` of the candidates. Placement chooses none by chance: asked for few, it always names the same."""
        found = await self.candidates(resources, forbidden_traits=forbidden_traits, limit=limit)
        return random.sample(found, size) if len(found) > size else found

    async def claim(
        self, consumer: str, provider_uuid: str, resources: Mapping[str, int], *, project_id: str, user_id: str
    ) -> bool:
        """Allocate, replacing what the consumer held; False when it no longer fits (S1.12)."""
        return await self._allocations.claim(consumer, provider_uuid, resources, project_id=project_id, user_id=user_id)

    async def release(self, consumer: str) -> None:
        """Give everything back (S3.11)."""
        await self._allocations.release(consumer)

    async def allocation(self, consumer: str) -> Mapping[str, int] | None:
        """What the consumer holds, None if nothing."""
        total: dict[str, int] = {}
        for resources in (await self._allocations.held(consumer)).resources.values():
            for name, amount in resources.items():
                total[name] = total.get(name, 0) + amount
        return total or None

    async def consumers(self, provider_uuid: str) -> Mapping[str, Mapping[str, int]]:
        """consumer -> resources, of one provider; Nova's instances too where it is shared."""
        return await self._allocations.of_provider(provider_uuid)

    async def ours(self, consumer: str) -> bool:
        """Was the claim made as a container's?"""
        return (await self._allocations.held(consumer)).consumer_type == CONSUMER_TYPE


def _candidates(body: Mapping[str, Any]) -> list[Candidate]:
    summaries = body["provider_summaries"]
    found: dict[str, Candidate] = {}
    for request in body["allocation_requests"]:
        uuids = list(request["allocations"])
        if len(uuids) != 1 or uuids[0] in found:
            continue
        facts = summaries[uuids[0]]["resources"]
        used = {name: one["used"] for name, one in facts.items()}
        capacity = {name: one["capacity"] for name, one in facts.items()}
        found[uuids[0]] = Candidate(uuids[0], used, capacity)
    return list(found.values())
