"""Queries on images that administrators had pulled to hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.store import paging
from zun.store.tables import containers, images

_c = images.c

SORTABLE = frozenset(
    ["id", "uuid", "project_id", "user_id", "host", "repo", "tag", "image_id", "size", "created_at", "updated_at"]
)


async def insert(connection: AsyncConnection, values: Mapping[str, Any]) -> None:
    """Raises IntegrityError when the host has the name already."""
    await connection.execute(images.insert().values(**values))


async def get(connection: AsyncConnection, uuid: str) -> Mapping[str, Any] | None:
    """One image by uuid."""
    row = (await connection.execute(sa.select(images).where(_c.uuid == uuid.lower()))).mappings().first()
    return dict(row) if row else None


async def page(
    connection: AsyncConnection,
    *,
    limit: int,
    sort_key: str,
    descending: bool,
    marker: str | None,
    scope: Mapping[str, Any],
) -> Sequence[Mapping[str, Any]]:
    """One page; raises LookupError for an unknown marker."""
    conditions = [_c[name] == value for name, value in scope.items()]
    return await paging.page(
        connection, images, limit=limit, sort_key=sort_key, descending=descending, marker=marker, conditions=conditions
    )


async def set_pulled(connection: AsyncConnection, uuid: str, image_id: str, size: int, now: datetime) -> None:
    """The engine has it."""
    await connection.execute(
        images.update().where(_c.uuid == uuid).values(image_id=image_id, size=size, updated_at=now)
    )


async def delete(connection: AsyncConnection, uuid: str) -> bool:
    """Remove the row; False when it is gone."""
    return bool((await connection.execute(images.delete().where(_c.uuid == uuid))).rowcount)


async def is_used(connection: AsyncConnection, host: str, image_id: str) -> bool:
    """Is a container of the host made of it?"""
    c = containers.c
    query = sa.select(c.id).where(c.host == host, c.engine_image == image_id).limit(1)
    return (await connection.execute(query)).first() is not None
