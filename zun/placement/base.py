"""The placement port: inventories of nodes, and who holds how much of them.

All methods raise PlacementUnavailable when the service does not answer (never "no candidates").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Inventory:
    """Total, kept back, and overcommit of one resource class."""

    total: int
    reserved: int = 0
    allocation_ratio: float = 1.0
    max_unit: int = 0
    """0 = total."""
    keep_ratio: bool = False
    """``allocation_ratio`` is for a new inventory only: an administrator may set another one in Placement."""

    @property
    def capacity(self) -> int:
        return int((self.total - self.reserved) * self.allocation_ratio)

    def has_room(self, used: int, amount: int) -> bool:
        """May ``amount`` more be taken at once?"""
        return used + amount <= self.capacity and amount <= (self.max_unit or self.total)


@dataclass(frozen=True, slots=True)
class Provider:
    """One node. What others gave it - traits, aggregates, resource classes that are not ours - stays."""

    uuid: str
    name: str
    inventories: Mapping[str, Inventory]
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    shared: bool = False
    """Another service (Nova) made it and writes its inventories; ours are not written."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A provider with room for a request; ``used`` and ``capacity`` per class, for weighing."""

    provider_uuid: str
    used: Mapping[str, int]
    capacity: Mapping[str, int]


class Placement(Protocol):
    """See the module's docstring."""

    async def set_provider(self, provider: Provider) -> bool:
        """Make or change the provider; True if anything was written (S6.4). Idempotent; generation conflicts are
        retried inside. Inventory below what is allocated is accepted, and a class that is gone while something of it is
        allocated has nothing more to give. Raises Conflict when another provider has the name."""
        ...

    async def provider_named(self, name: str) -> str | None:
        """The uuid of the provider with that name, whoever made it."""
        ...

    async def providers(self) -> Mapping[str, str]:
        """uuid -> name of every provider of this deployment."""
        ...

    async def remove_provider(self, uuid: str) -> None:
        """Absent is success; Conflict while allocations are held."""
        ...

    async def candidates(
        self, resources: Mapping[str, int], *, forbidden_traits: frozenset[str], limit: int, only: str | None = None
    ) -> Sequence[Candidate]:
        """Providers of this deployment with room, at most ``limit``, or only the one named by uuid (S1.9).
        ``resources`` names at least one class."""
        ...

    async def sample(
        self, resources: Mapping[str, int], *, forbidden_traits: frozenset[str], size: int, limit: int
    ) -> Sequence[Candidate]:
        """Candidates among at most ``size`` providers taken by chance: all, where there are no more. Nobody may be
        among them while others have room. ``limit``: most that an outside service is asked for."""
        ...

    async def claim(
        self, consumer: str, provider_uuid: str, resources: Mapping[str, int], *, project_id: str, user_id: str
    ) -> bool:
        """Allocate, replacing what the consumer held; False when it no longer fits (S1.12). Atomic."""
        ...

    async def release(self, consumer: str) -> None:
        """Give everything back (S3.11). Nothing held is success."""
        ...

    async def allocation(self, consumer: str) -> Mapping[str, int] | None:
        """What the consumer holds, None if nothing."""
        ...

    async def consumers(self, provider_uuid: str) -> Mapping[str, Mapping[str, int]]:
        """consumer -> resources, of one provider; consumers of other services too."""
        ...

    async def ours(self, consumer: str) -> bool:
        """Is what the consumer holds a claim of a container service? False also when it holds nothing."""
        ...
