"""The embedded Placement: tables of our own database, with Placement's semantics.

Claims are guarded UPDATEs of ``used``, so claims side by side never hand out more than there is.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.errors import Conflict, PlacementUnavailable
from zun.placement.base import Candidate, Inventory, Provider
from zun.store import local_placement as store
from zun.store.database import Database, DatabaseUnavailable

log = logging.getLogger(__name__)

_ATTEMPTS = 10


class _NoRoom(Exception):
    """Rolls a claim back."""


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except DatabaseUnavailable as error:
        raise PlacementUnavailable(f"Placement does not answer: {error.message}") from error


class LocalPlacement:
    """See ``zun.placement.base.Placement``."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def set_provider(self, provider: Provider) -> bool:
        """Make or change the provider (S6.4). Raises Conflict when another provider has the name."""
        with _translated():
            for _ in range(_ATTEMPTS):
                async with self._db.read() as connection:
                    row = await store.get_provider(connection, provider.uuid)
                    rows = await store.get_inventories(connection, provider.uuid)
                wanted = _with_kept_ratios(provider, rows)
                if row is not None and _same(wanted, row, rows):
                    return False
                try:
                    await self._write(wanted)
                    return True
                except sa.exc.IntegrityError as error:
                    if await self._name_taken(provider):
                        raise Conflict(f"Another resource provider is named {provider.name}.") from error
        raise PlacementUnavailable(f"Provider {provider.name} is written by others all the time.")

    async def _write(self, provider: Provider) -> None:
        values = {
            "name": provider.name,
            "traits": sorted(provider.traits),
            "aggregates": sorted(provider.aggregates),
        }

        async def write(connection: AsyncConnection) -> None:
            if not await store.update_provider(connection, provider.uuid, values):
                await store.insert_provider(connection, {"uuid": provider.uuid, **values})
            present = {entry["resource_class"] for entry in await store.get_inventories(connection, provider.uuid)}
            for name, inventory in sorted(provider.inventories.items()):
                await store.set_inventory(connection, provider.uuid, name, _columns(inventory))
            for name in sorted(present - set(provider.inventories)):
                await store.drop_inventory(connection, provider.uuid, name)

        await self._db.run(write)
        log.info("action=set-provider provider=%s name=%s", provider.uuid, provider.name)

    async def _name_taken(self, provider: Provider) -> bool:
        async with self._db.read() as connection:
            return await store.provider_named(connection, provider.name) not in (None, provider.uuid)

    async def provider_named(self, name: str) -> str | None:
        """The uuid of the provider with that name."""
        with _translated():
            async with self._db.read() as connection:
                return await store.provider_named(connection, name)

    async def providers(self) -> Mapping[str, str]:
        """uuid -> name."""
        with _translated():
            async with self._db.read() as connection:
                return await store.all_providers(connection)

    async def remove_provider(self, uuid: str) -> None:
        """Absent is success; Conflict while allocations are held."""
        with _translated():
            try:
                async with self._db.write() as connection:
                    removed = await store.delete_provider(connection, uuid)
            except sa.exc.IntegrityError:  # a claim came in between
                removed = False
            if not removed:
                raise Conflict(f"Resource provider {uuid} has allocations.")

    async def candidates(
        self, resources: Mapping[str, int], *, forbidden_traits: frozenset[str], limit: int, only: str | None = None
    ) -> Sequence[Candidate]:
        """Providers with room, at most ``limit``, in one query (S1.9)."""
        with _translated():
            async with self._db.read() as connection:
                rows = await store.candidates(connection, resources, forbidden_traits, limit, only)
        return _candidates(rows)

    async def sample(
        self, resources: Mapping[str, int], *, forbidden_traits: frozenset[str], size: int, limit: int
    ) -> Sequence[Candidate]:
        """Those with room of the ``size`` providers that follow a point chosen by chance: uuids are chance, too. Reads
        as many rows however many providers there are."""
        with _translated():
            async with self._db.read() as connection:
                rows = await store.neighbours(connection, str(uuid4()), size, resources, forbidden_traits)
        roomy = Counter(
            row.uuid
            for row in rows
            if Inventory(row.total, row.reserved, row.allocation_ratio, row.max_unit).has_room(
                row.used, resources[row.resource_class]
            )
        )
        return _candidates([row for row in rows if roomy[row.uuid] == len(resources)])

    async def claim(
        self, consumer: str, provider_uuid: str, resources: Mapping[str, int], *, project_id: str, user_id: str
    ) -> bool:
        """Allocate, replacing what the consumer held; False when it does not fit, and then nothing changed (S1.12)."""
        owner = {"project_id": project_id, "user_id": user_id}
        with _translated():
            for _ in range(_ATTEMPTS):
                try:
                    return await self._claim(consumer, provider_uuid, resources, owner)
                except _NoRoom:
                    return False
                except sa.exc.IntegrityError:
                    log.info("action=claim consumer=%s result=raced", consumer)
        raise PlacementUnavailable(f"Allocations of {consumer} are written by others all the time.")

    async def _claim(
        self, consumer: str, provider_uuid: str, resources: Mapping[str, int], owner: Mapping[str, str]
    ) -> bool:
        async def claim(connection: AsyncConnection) -> bool:
            held = await store.held(connection, consumer)
            wanted = {(provider_uuid, name, amount) for name, amount in resources.items()}
            if {(row.provider_uuid, row.resource_class, row.amount) for row in held} == wanted:
                return True  # the same again is no new claim, also where the inventory has shrunk since
            await store.begin_claim(connection, provider_uuid)
            if held:  # again: whoever waited for the provider may have changed them
                await store.give_back(connection, consumer)
            if not await store.take(connection, provider_uuid, consumer, resources, owner):
                raise _NoRoom
            return True

        return await self._db.run(claim)

    async def release(self, consumer: str) -> None:
        """Give everything back (S3.11)."""
        with _translated():
            await self._db.run(lambda connection: store.give_back(connection, consumer))

    async def allocation(self, consumer: str) -> Mapping[str, int] | None:
        """What the consumer holds, None if nothing."""
        with _translated():
            async with self._db.read() as connection:
                rows = await store.held(connection, consumer)
        return {row.resource_class: row.amount for row in rows} or None

    async def consumers(self, provider_uuid: str) -> Mapping[str, Mapping[str, int]]:
        """consumer -> resources, of one provider."""
        with _translated():
            async with self._db.read() as connection:
                rows = await store.held_of_provider(connection, provider_uuid)
        found: dict[str, dict[str, int]] = {}
        for row in rows:
            found.setdefault(row.consumer, {})[row.resource_class] = row.amount
        return found

    async def ours(self, consumer: str) -> bool:
        """Nobody else writes here."""
        return await self.allocation(consumer) is not None


def _candidates(rows: Sequence[Any]) -> list[Candidate]:
    found: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
    for row in rows:
        used, capacity = found.setdefault(row.uuid, ({}, {}))
        used[row.resource_class] = row.used
        capacity[row.resource_class] = Inventory(row.total, row.reserved, row.allocation_ratio).capacity
    return [Candidate(uuid, used, capacity) for uuid, (used, capacity) in found.items()]


def _columns(inventory: Inventory) -> dict[str, Any]:
    return {
        "total": inventory.total,
        "reserved": inventory.reserved,
        "allocation_ratio": inventory.allocation_ratio,
        "max_unit": inventory.max_unit,
    }


def _with_kept_ratios(provider: Provider, rows: Sequence[sa.RowMapping]) -> Provider:
    ratios = {entry["resource_class"]: entry["allocation_ratio"] for entry in rows if entry["total"]}
    inventories = {
        name: dataclasses.replace(
            one,
            allocation_ratio=ratios.get(name, one.allocation_ratio) if one.keep_ratio else one.allocation_ratio,
            keep_ratio=False,
        )
        for name, one in provider.inventories.items()
    }
    return dataclasses.replace(provider, inventories=inventories)


def _same(provider: Provider, row: sa.RowMapping, rows: Sequence[sa.RowMapping]) -> bool:
    """Is the provider recorded as it is? An emptied inventory still allocated from counts as absent."""
    recorded = {
        entry["resource_class"]: Inventory(
            entry["total"], entry["reserved"], entry["allocation_ratio"], entry["max_unit"]
        )
        for entry in rows
        if entry["total"] or entry["resource_class"] in provider.inventories
    }
    return (
        row["name"] == provider.name
        and frozenset(row["traits"]) == provider.traits
        and frozenset(row["aggregates"]) == provider.aggregates
        and recorded == dict(provider.inventories)
    )
