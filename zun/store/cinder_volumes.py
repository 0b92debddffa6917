"""Queries on the volumes made in Cinder for containers: noted before Cinder is asked, forgotten once they are gone,
or are to stay."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.store.tables import cinder_volumes as volumes
from zun.store.tables import volume_mappings


async def insert(connection: AsyncConnection, uuid: str, name: str, now: datetime) -> None:
    """A volume of that name is about to be made; ``uuid`` is in its metadata."""
    await connection.execute(volumes.insert().values(uuid=uuid, name=name, created_at=now))


async def made(connection: AsyncConnection, uuid: str, volume_id: str) -> None:
    """Cinder gave it this id."""
    await connection.execute(volumes.update().where(volumes.c.uuid == uuid).values(volume_id=volume_id))


async def never_made(connection: AsyncConnection, uuid: str) -> None:
    """Cinder has none of it."""
    await connection.execute(volumes.delete().where(volumes.c.uuid == uuid))


async def gone(connection: AsyncConnection, volume_id: str) -> None:
    """It does not exist any more, or is its owner's; not noted is success."""
    await connection.execute(volumes.delete().where(volumes.c.volume_id == volume_id))


async def abandoned(connection: AsyncConnection, before: datetime) -> Sequence[RowMapping]:
    """``uuid, name, volume_id`` of those noted before that moment that no mount names; at most 100."""
    mounted = sa.exists().where(volume_mappings.c.volume_id == volumes.c.volume_id)
    query = sa.select(volumes.c.uuid, volumes.c.name, volumes.c.volume_id)
    query = query.where(volumes.c.created_at < before, ~mounted).order_by(volumes.c.created_at).limit(100)
    return (await connection.execute(query)).mappings().all()
