"""Queries on registries. Passwords come and go encrypted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.store import paging
from zun.store.containers import is_uuid
from zun.store.tables import registries

_c = registries.c

SORTABLE = frozenset(["id", "uuid", "name", "project_id", "user_id", "domain", "username", "created_at", "updated_at"])
"""Not the password."""
FILTERS = ("name", "domain", "username", "project_id", "user_id")


async def insert(connection: AsyncConnection, values: Mapping[str, Any]) -> None:
    """Insert the row as given."""
    await connection.execute(registries.insert().values(**values))


async def find(connection: AsyncConnection, ident: str, scope: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """By uuid or exact name within ``scope`` (column -> value); at most two, to tell ambiguity."""
    named = _c.uuid == ident.lower() if is_uuid(ident) else _c.name == ident
    query = sa.select(registries).where(named, *_scope(scope)).order_by(_c.id).limit(2)
    return [dict(row) for row in (await connection.execute(query)).mappings()]


async def get(connection: AsyncConnection, registry_id: int) -> Mapping[str, Any] | None:
    """By ``containers.registry_id``."""
    row = (await connection.execute(sa.select(registries).where(_c.id == registry_id))).mappings().first()
    return dict(row) if row else None


async def page(
    connection: AsyncConnection,
    *,
    limit: int,
    sort_key: str,
    descending: bool,
    marker: str | None,
    scope: Mapping[str, Any],
    filters: Mapping[str, Sequence[str]],
) -> Sequence[Mapping[str, Any]]:
    """One page; raises LookupError for an unknown marker."""
    conditions = _scope(scope) + [_c[name].in_(values) for name, values in filters.items()]
    return await paging.page(
        connection,
        registries,
        limit=limit,
        sort_key=sort_key,
        descending=descending,
        marker=marker,
        conditions=conditions,
    )


async def update(connection: AsyncConnection, uuid: str, values: Mapping[str, Any], now: datetime) -> bool:
    """Change the row; False when it is gone."""
    result = await connection.execute(registries.update().where(_c.uuid == uuid).values(**values, updated_at=now))
    return bool(result.rowcount)


async def delete(connection: AsyncConnection, uuid: str) -> bool:
    """Remove the row; False when it is gone, IntegrityError while a container refers to it."""
    return bool((await connection.execute(registries.delete().where(_c.uuid == uuid))).rowcount)


def _scope(scope: Mapping[str, Any]) -> list[sa.ColumnElement[bool]]:
    return [_c[name] == value for name, value in scope.items()]
