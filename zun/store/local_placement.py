"""Queries on the embedded Placement's tables. ``used`` changes only in the transaction of the allocations it sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.store.tables import local_allocations as allocations
from zun.store.tables import local_inventories as inventories
from zun.store.tables import local_providers as providers

_CAPACITY = (inventories.c.total - inventories.c.reserved) * inventories.c.allocation_ratio
_MAX_UNIT = sa.case((inventories.c.max_unit == 0, inventories.c.total), else_=inventories.c.max_unit)


def _fits(amount: int) -> sa.ColumnElement[bool]:
    return sa.and_(inventories.c.used + amount <= _CAPACITY, amount <= _MAX_UNIT)


def _at(provider_uuid: str, resource_class: str) -> sa.ColumnElement[bool]:
    return sa.and_(inventories.c.provider_uuid == provider_uuid, inventories.c.resource_class == resource_class)


# -- providers and inventories ---------------------------------------------------------------------


async def get_provider(connection: AsyncConnection, uuid: str) -> RowMapping | None:
    """The provider's row."""
    return (await connection.execute(sa.select(providers).where(providers.c.uuid == uuid))).mappings().first()


async def get_inventories(connection: AsyncConnection, uuid: str) -> Sequence[RowMapping]:
    """The provider's inventory rows."""
    return (
        (await connection.execute(sa.select(inventories).where(inventories.c.provider_uuid == uuid))).mappings().all()
    )


async def provider_named(connection: AsyncConnection, name: str) -> str | None:
    """The uuid of the provider with that name."""
    return (await connection.execute(sa.select(providers.c.uuid).where(providers.c.name == name))).scalar_one_or_none()


async def all_providers(connection: AsyncConnection) -> dict[str, str]:
    """uuid -> name."""
    rows = await connection.execute(sa.select(providers.c.uuid, providers.c.name).order_by(providers.c.name))
    return {row.uuid: row.name for row in rows}


async def insert_provider(connection: AsyncConnection, values: Mapping[str, Any]) -> None:
    """Raises IntegrityError when the uuid or the name exists."""
    await connection.execute(providers.insert().values(**values, generation=0))


async def update_provider(connection: AsyncConnection, uuid: str, values: Mapping[str, Any]) -> bool:
    """A new generation with these values; False when there is no such provider. Its inventories are the caller's until
    the transaction ends: claims and other writers begin with the same row."""
    result = await connection.execute(
        providers.update().where(providers.c.uuid == uuid).values(**values, generation=providers.c.generation + 1)
    )
    return bool(result.rowcount)


async def set_inventory(
    connection: AsyncConnection, provider_uuid: str, resource_class: str, values: Mapping[str, Any]
) -> None:
    """Make or change one inventory; ``used`` stays."""
    result = await connection.execute(inventories.update().where(_at(provider_uuid, resource_class)).values(**values))
    if not result.rowcount:
        await connection.execute(
            inventories.insert().values(provider_uuid=provider_uuid, resource_class=resource_class, used=0, **values)
        )


async def drop_inventory(connection: AsyncConnection, provider_uuid: str, resource_class: str) -> None:
    """Remove one inventory; while something of it is allocated the row stays, with nothing to give."""
    result = await connection.execute(
        inventories.delete().where(_at(provider_uuid, resource_class), inventories.c.used == 0)
    )
    if not result.rowcount:
        nothing = {"total": 0, "reserved": 0, "allocation_ratio": 1.0, "max_unit": 0}
        await connection.execute(inventories.update().where(_at(provider_uuid, resource_class)).values(**nothing))


async def delete_provider(connection: AsyncConnection, uuid: str) -> bool:
    """Remove provider and inventories; False while allocations are held."""
    held = sa.select(allocations.c.consumer).where(allocations.c.provider_uuid == uuid).limit(1)
    if (await connection.execute(held)).first():
        return False
    await connection.execute(inventories.delete().where(inventories.c.provider_uuid == uuid))
    await connection.execute(providers.delete().where(providers.c.uuid == uuid))
    return True


async def candidates(
    connection: AsyncConnection,
    resources: Mapping[str, int],
    forbidden: frozenset[str],
    limit: int,
    only: str | None = None,
) -> Sequence[Any]:
    """(uuid, resource_class, used, total, reserved, allocation_ratio) of providers with room, in one query."""
    room = sa.select(providers.c.uuid).order_by(providers.c.uuid).limit(limit)
    if only is not None:
        room = room.where(providers.c.uuid == only)
    if resources:
        fitting = (
            sa.select(inventories.c.provider_uuid)
            .where(sa.or_(*_wanted(resources)))
            .group_by(inventories.c.provider_uuid)
            .having(sa.func.count() == len(resources))
        )
        room = room.where(providers.c.uuid.in_(fitting))
    chosen = room.where(*_without(forbidden)).subquery()
    query = (
        sa.select(
            chosen.c.uuid,
            inventories.c.resource_class,
            inventories.c.used,
            inventories.c.total,
            inventories.c.reserved,
            inventories.c.allocation_ratio,
        )
        .join(inventories, inventories.c.provider_uuid == chosen.c.uuid)
        .order_by(chosen.c.uuid)
    )
    return (await connection.execute(query)).all()


async def neighbours(
    connection: AsyncConnection, start: str, size: int, resources: Mapping[str, int], forbidden: frozenset[str]
) -> Sequence[Any]:
    """Inventories asked for, as ``candidates`` and with ``max_unit``, of the ``size`` providers that follow ``start``
    in the circle of uuids, whether they have room or not: two pieces of the primary key are read, in one query."""
    values = {"start": start, "size": size, "classes": list(resources)}
    found: Sequence[Any] = (await connection.execute(_neighbours(forbidden), values)).all()
    return found


@lru_cache(maxsize=8)
def _neighbours(forbidden: frozenset[str]) -> sa.Select[Any]:
    """Made once: that takes as long as running it."""
    start, size = sa.bindparam("start", type_=sa.String), sa.bindparam("size", type_=sa.Integer)

    def piece(turn: int, where: sa.ColumnElement[bool]) -> sa.Select[Any]:
        query = sa.select(providers.c.uuid, sa.literal(turn).label("turn")).where(where, *_without(forbidden))
        return sa.select(query.order_by(providers.c.uuid).limit(size).subquery())

    both = piece(0, providers.c.uuid >= start).union_all(piece(1, providers.c.uuid < start)).subquery()
    chosen = sa.select(both.c.uuid).order_by(both.c.turn, both.c.uuid).limit(size).subquery()
    i = inventories.c
    return (
        sa.select(chosen.c.uuid, i.resource_class, i.used, i.total, i.reserved, i.allocation_ratio, i.max_unit)
        .join(inventories, i.provider_uuid == chosen.c.uuid)
        .where(i.resource_class.in_(sa.bindparam("classes", expanding=True)))
    )


def _without(traits: frozenset[str]) -> list[sa.ColumnElement[bool]]:
    """Traits are kept as a JSON list of strings: the quotes make the match exact."""
    text = sa.type_coerce(providers.c.traits, sa.Text)
    return [~text.contains(f'"{trait}"', autoescape=True) for trait in sorted(traits)]


def _wanted(resources: Mapping[str, int]) -> list[sa.ColumnElement[bool]]:
    return [sa.and_(inventories.c.resource_class == name, _fits(amount)) for name, amount in resources.items()]


# -- allocations -----------------------------------------------------------------------------------


async def held(connection: AsyncConnection, consumer: str) -> Sequence[Any]:
    """(resource_class, provider_uuid, amount) of one consumer."""
    query = sa.select(allocations.c.resource_class, allocations.c.provider_uuid, allocations.c.amount).where(
        allocations.c.consumer == consumer
    )
    return (await connection.execute(query.order_by(allocations.c.resource_class))).all()


async def held_of_provider(connection: AsyncConnection, provider_uuid: str) -> Sequence[Any]:
    """(consumer, resource_class, amount) of one provider."""
    query = sa.select(allocations.c.consumer, allocations.c.resource_class, allocations.c.amount).where(
        allocations.c.provider_uuid == provider_uuid
    )
    return (await connection.execute(query.order_by(allocations.c.consumer))).all()


async def give_back(connection: AsyncConnection, consumer: str) -> None:
    """Delete the consumer's allocations and take them off ``used``."""
    for row in await held(connection, consumer):
        # Whoever deletes the row gives its amount back: once, also when two release at the same time.
        deleted = await connection.execute(
            allocations.delete().where(
                allocations.c.consumer == consumer,
                allocations.c.resource_class == row.resource_class,
                allocations.c.provider_uuid == row.provider_uuid,
                allocations.c.amount == row.amount,
            )
        )
        if deleted.rowcount:
            await connection.execute(
                inventories.update()
                .where(_at(row.provider_uuid, row.resource_class))
                .values(used=inventories.c.used - row.amount)
            )


async def begin_claim(connection: AsyncConnection, provider_uuid: str) -> None:
    """A new generation of the provider. Comes first: providers are locked before inventories, by all writers."""
    await connection.execute(
        providers.update().where(providers.c.uuid == provider_uuid).values(generation=providers.c.generation + 1)
    )


async def take(
    connection: AsyncConnection,
    provider_uuid: str,
    consumer: str,
    resources: Mapping[str, int],
    owner: Mapping[str, str],
) -> bool:
    """Allocate by guarded writes; False at the first class without room: the caller rolls back."""
    for name, amount in sorted(resources.items()):
        taken = await connection.execute(
            inventories.update().where(_at(provider_uuid, name), _fits(amount)).values(used=inventories.c.used + amount)
        )
        if not taken.rowcount:
            return False
    rows = [
        {"consumer": consumer, "resource_class": name, "provider_uuid": provider_uuid, "amount": amount, **owner}
        for name, amount in resources.items()
    ]
    if rows:
        await connection.execute(allocations.insert(), rows)
    return True
