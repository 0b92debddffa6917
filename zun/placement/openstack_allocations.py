"""Allocations in Placement: what a container holds of its node. Written with the consumer's generation."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zun.domain.errors import PlacementUnavailable
from zun.openstack.client import Answer
from zun.placement.openstack_calls import ATTEMPTS, CONCURRENT, Calls, code, pause, text

LOG = logging.getLogger(__name__)

CONSUMER_TYPE = "CONTAINER"
"""Tells our consumers from Nova's (INSTANCE, MIGRATION) on a provider that both use."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a consumer holds: provider -> class -> amount. ``generation`` None: Placement does not know it."""

    resources: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    generation: int | None = None
    consumer_type: str | None = None


class Allocations:
    """All methods raise PlacementUnavailable."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def claim(
        self, consumer: str, provider_uuid: str, resources: Mapping[str, int], *, project_id: str, user_id: str
    ) -> bool:
        """One call for a new consumer: its generation is expected to be none. Only when that is wrong, what it holds
        is read and replaced (S1.12)."""
        wanted = {provider_uuid: dict(resources)}
        body: dict[str, Any] = {
            "allocations": {provider_uuid: {"resources": dict(resources)}},
            "project_id": project_id,
            "user_id": user_id,
            "consumer_type": CONSUMER_TYPE,
            "consumer_generation": None,
        }
        for attempt in range(ATTEMPTS):
            answer = await self._calls.ask("PUT", f"/allocations/{consumer}", json=body, expect=(400, 409))
            if answer.status < 400:
                return True
            if answer.status == 400:
                return await self._no_room(answer, provider_uuid, resources)
            held = await self.held(consumer)
            if held.resources == wanted:
                return True  # the same again is no new claim; also a claim whose answer was lost
            expected = body["consumer_generation"]
            if code(answer) != CONCURRENT and (held.generation == expected or not held.resources):
                LOG.info("action=claim consumer=%s result=no room reason=%s", consumer, text(answer))
                return False  # while claims of one consumer race, Placement counts both
            # Known and holding nothing is 0: left by a claim that Placement refused.
            body["consumer_generation"] = held.generation if held.resources or expected is not None else 0
            if attempt:
                await pause(attempt)
        raise PlacementUnavailable(f"Allocations of {consumer} are written by others all the time.")

    async def _no_room(self, answer: Answer, provider_uuid: str, resources: Mapping[str, int]) -> bool:
        """400 says either that the provider, or a class of it, is not there (no room), or that we asked wrongly."""
        found = await self._calls.ask("GET", f"/resource_providers/{provider_uuid}/inventories", expect=(404,))
        if found.status == 404 or set(resources) - set(found.body["inventories"]):
            return False
        raise PlacementUnavailable(f"Placement refused a claim: {text(answer)}")

    async def release(self, consumer: str) -> None:
        """Give everything back; nothing held is success (S3.11)."""
        for attempt in range(ATTEMPTS):
            answer = await self._calls.ask("DELETE", f"/allocations/{consumer}", expect=(404, 409))
            if answer.status != 409:
                return
            await pause(attempt)
        raise PlacementUnavailable(f"Allocations of {consumer} are written by others all the time.")

    async def held(self, consumer: str) -> Held:
        """What the consumer holds, of every provider."""
        body = (await self._calls.ask("GET", f"/allocations/{consumer}")).body
        resources = {uuid: dict(of["resources"]) for uuid, of in body["allocations"].items()}
        return Held(resources, body.get("consumer_generation"), body.get("consumer_type"))

    async def of_provider(self, uuid: str) -> Mapping[str, Mapping[str, int]]:
        """consumer -> resources; empty when there is no such provider."""
        answer = await self._calls.ask("GET", f"/resource_providers/{uuid}/allocations", expect=(404,))
        if answer.status == 404:
            return {}
        return {consumer: dict(of["resources"]) for consumer, of in answer.body["allocations"].items()}
