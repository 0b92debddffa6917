"""Resource providers in Placement: one a node. Writes are guarded by the provider's generation and begun again
when somebody else wrote in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zun.domain.errors import Conflict, PlacementUnavailable
from zun.openstack.client import Answer
from zun.placement.base import Inventory, Provider
from zun.placement.openstack_calls import ATTEMPTS, Calls, Raced, code, pause, text

LOG = logging.getLogger(__name__)

_OURS = "CUSTOM_ZUN_"
_CLASSES = frozenset({"VCPU", "MEMORY_MB", "DISK_GB"})
_COMPARED = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")


@dataclass(slots=True)
class _Seen:
    """A provider as Placement has it; the generation moves with our own writes."""

    name: str
    generation: int
    inventories: dict[str, dict[str, Any]]
    traits: frozenset[str]
    aggregates: frozenset[str]


class Providers:
    """``deployment_id``: the aggregate that all providers of this deployment are in. ``refresh``: seconds for which
    what was written is taken to be there still; 0 = for ever. All methods raise PlacementUnavailable."""

    def __init__(self, calls: Calls, deployment_id: str, refresh: float, monotonic: Callable[[], float]) -> None:
        self._calls = calls
        self._deployment = deployment_id
        self._refresh = refresh
        self._monotonic = monotonic
        self._confirmed: dict[str, tuple[Provider, float]] = {}

    async def set(self, provider: Provider) -> bool:
        """Make or change; True if anything was written (S6.4). Raises Conflict for a name that another has."""
        known = self._confirmed.get(provider.uuid)
        if known and known[0] == provider and (not self._refresh or self._monotonic() - known[1] < self._refresh):
            return False
        changed = False
        for attempt in range(ATTEMPTS):
            try:
                seen = await self._read(provider.uuid)
                if seen is None:
                    await self._create(provider)
                    seen = _Seen(provider.name, 0, {}, frozenset(), frozenset())
                    changed = True
                for write in (self._rename, self._write_inventories, self._write_traits, self._write_aggregates):
                    changed |= await write(provider, seen)
            except Raced:
                LOG.info("action=set-provider provider=%s result=raced", provider.uuid)
                await pause(attempt)
                continue
            self._confirmed[provider.uuid] = (provider, self._monotonic())
            return changed
        raise PlacementUnavailable(f"Provider {provider.name} is written by others all the time.")

    async def remove(self, uuid: str) -> None:
        """Absent is success; Conflict while allocations are held, and for a provider that carries another service's
        traits or classes: Nova's on a shared host, whose node is no longer ours."""
        self._confirmed.pop(uuid, None)
        seen = await self._read_still(uuid)
        if seen is None:
            return
        foreign = sorted(
            {name for name in seen.traits if not name.startswith(_OURS)}
            | {name for name in seen.inventories if not _is_our_class(name)}
        )
        if foreign:
            raise Conflict(f"Resource provider {uuid} is not ours alone (it has {', '.join(foreign[:3])}).")
        answer = await self._calls.ask("DELETE", f"/resource_providers/{uuid}", expect=(404, 409))
        if answer.status == 409:
            raise Conflict(f"Resource provider {uuid} cannot be removed: {text(answer)}")

    async def named(self, name: str) -> str | None:
        """The uuid of the provider with that name."""
        found = (await self._calls.ask("GET", "/resource_providers", params={"name": name})).body["resource_providers"]
        return str(found[0]["uuid"]) if found else None

    async def of_deployment(self) -> Mapping[str, str]:
        """uuid -> name of every provider of this deployment."""
        answer = await self._calls.ask("GET", "/resource_providers", params={"member_of": self._deployment})
        return {one["uuid"]: one["name"] for one in answer.body["resource_providers"]}

    async def _read_still(self, uuid: str) -> _Seen | None:
        for attempt in range(ATTEMPTS):
            try:
                return await self._read(uuid)
            except Raced:
                await pause(attempt)
        raise PlacementUnavailable(f"Provider {uuid} is written by others all the time.")

    async def _read(self, uuid: str) -> _Seen | None:
        path = f"/resource_providers/{uuid}"
        first, inventories, traits, aggregates = await asyncio.gather(
            self._calls.ask("GET", path, expect=(404,)),
            *(
                self._calls.ask("GET", f"{path}/{what}", expect=(404,))
                for what in ("inventories", "traits", "aggregates")
            ),
        )
        if first.status == 404:
            return None
        parts = (inventories, traits, aggregates)
        generations = {one.body["resource_provider_generation"] for one in parts if one.status < 400}
        if any(one.status == 404 for one in parts) or generations != {first.body["generation"]}:
            raise Raced  # written between our reads
        return _Seen(
            first.body["name"],
            first.body["generation"],
            inventories.body["inventories"],
            frozenset(traits.body["traits"]),
            frozenset(aggregates.body["aggregates"]),
        )

    async def _create(self, provider: Provider) -> None:
        if provider.shared:
            raise PlacementUnavailable(f"Nova's resource provider {provider.name} ({provider.uuid}) is gone.")
        body = {"uuid": provider.uuid, "name": provider.name}
        answer = await self._calls.ask("POST", "/resource_providers", json=body, expect=(409,))
        if answer.status == 409:
            await self._require_name(provider)
        LOG.info("action=set-provider provider=%s name=%s result=created", provider.uuid, provider.name)

    async def _rename(self, provider: Provider, seen: _Seen) -> bool:
        if provider.shared or seen.name == provider.name:
            return False
        path = f"/resource_providers/{provider.uuid}"
        answer = await self._calls.ask("PUT", path, json={"name": provider.name}, expect=(404, 409))
        if answer.status >= 400:
            await self._require_name(provider)
        seen.generation = answer.body["generation"]
        return True

    async def _require_name(self, provider: Provider) -> None:
        """After a refusal: Conflict when the name is another's, else the refusal was a race."""
        other = await self.named(provider.name)
        if other in (None, provider.uuid):
            raise Raced
        raise Conflict(
            f"Another resource provider ({other}) is named {provider.name}. If it is Nova's and this host runs both,"
            " set [compute]/host_shared_with_nova; if it is left from a node that is gone, remove it from Placement;"
            " else give this node another [DEFAULT]/host."
        )

    async def _write_inventories(self, provider: Provider, seen: _Seen) -> bool:
        if provider.shared:
            return False
        wanted = {name: _payload(one, seen.inventories.get(name)) for name, one in provider.inventories.items()}
        for name, one in seen.inventories.items():
            if name not in wanted and not _is_our_class(name):
                wanted[name] = one
        stale = set(seen.inventories) - set(wanted)
        if stale:
            usages = (await self._calls.ask("GET", f"/resource_providers/{provider.uuid}/usages")).body["usages"]
            for name in sorted(stale):
                if usages.get(name):  # containers of before still hold some: it goes with the last of them
                    wanted[name] = {**seen.inventories[name], "reserved": seen.inventories[name]["total"]}
        if _comparable(wanted) == _comparable(seen.inventories):
            return False
        await self._calls.make_classes(wanted)
        await self._put(provider, seen, "inventories", {"inventories": wanted})
        return True

    async def _write_traits(self, provider: Provider, seen: _Seen) -> bool:
        wanted = {name for name in seen.traits if not name.startswith(_OURS)} | provider.traits
        if wanted == seen.traits:
            return False
        await self._calls.make_traits(provider.traits)
        await self._put(provider, seen, "traits", {"traits": sorted(wanted)})
        return True

    async def _write_aggregates(self, provider: Provider, seen: _Seen) -> bool:
        wanted = seen.aggregates | provider.aggregates | {self._deployment}
        if wanted == seen.aggregates:
            return False
        await self._put(provider, seen, "aggregates", {"aggregates": sorted(wanted)})
        return True

    async def _put(self, provider: Provider, seen: _Seen, what: str, body: Mapping[str, Any]) -> None:
        path = f"/resource_providers/{provider.uuid}/{what}"
        guarded = {**body, "resource_provider_generation": seen.generation}
        answer = await self._calls.ask("PUT", path, json=guarded, expect=(400, 404, 409))
        if answer.status == 400:
            self._refused(provider, what, answer)
        if answer.status >= 400:
            LOG.info("action=set-provider provider=%s part=%s result=%s", provider.uuid, what, code(answer))
            raise Raced
        seen.generation = answer.body["resource_provider_generation"]

    def _refused(self, provider: Provider, what: str, answer: Answer) -> None:
        """A trait or class that we had made may have been deleted; it is made again by the next report."""
        self._calls.forget()
        raise PlacementUnavailable(f"Placement refused the {what} of {provider.name}: {text(answer)}")


def _is_our_class(name: str) -> bool:
    return name in _CLASSES or name.startswith(_OURS)


def _payload(inventory: Inventory, present: Mapping[str, Any] | None) -> dict[str, Any]:
    ratio = inventory.allocation_ratio
    if inventory.keep_ratio and present is not None:
        ratio = present["allocation_ratio"]
    return {
        "total": inventory.total,
        "reserved": inventory.reserved,
        "min_unit": 1,
        "max_unit": inventory.max_unit or inventory.total,
        "step_size": 1,
        "allocation_ratio": ratio,
    }


def _comparable(inventories: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Ratios are single-precision numbers in Placement's database."""
    return {name: tuple(round(float(one[key]), 4) for key in _COMPARED) for name, one in inventories.items()}
