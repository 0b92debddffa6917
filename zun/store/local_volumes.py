"""Queries on the embedded volumes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.store.tables import local_volumes as volumes
from zun.store.tables import volume_mappings


async def get(connection: AsyncConnection, uuid: str) -> RowMapping | None:
    """The volume's row, of any project."""
    return (await connection.execute(sa.select(volumes).where(volumes.c.uuid == uuid))).mappings().first()


async def named(connection: AsyncConnection, project_id: str, name: str) -> Sequence[RowMapping]:
    """The project's volumes of that name; at most two, to tell ambiguity."""
    query = sa.select(volumes).where(volumes.c.project_id == project_id, volumes.c.name == name).limit(2)
    return (await connection.execute(query)).mappings().all()


async def insert(
    connection: AsyncConnection, uuid: str, name: str, project_id: str, size: int | None, now: datetime
) -> None:
    """``size`` in GiB; None = a plain folder."""
    await connection.execute(
        volumes.insert().values(uuid=uuid, name=name, project_id=project_id, size=size, created_at=now)
    )


async def rename(connection: AsyncConnection, uuid: str, name: str) -> None:
    """Absent is success."""
    await connection.execute(volumes.update().where(volumes.c.uuid == uuid).values(name=name))


async def abandoned(connection: AsyncConnection, before: datetime) -> Sequence[str]:
    """Made for a container (by name) before that moment, and no mount names them; at most 100."""
    uuid = "_" * 8 + "-" + "-".join(["_" * 4] * 3) + "-" + "_" * 12
    mounted = sa.exists().where(volume_mappings.c.volume_id == volumes.c.uuid)
    query = sa.select(volumes.c.uuid).where(
        volumes.c.name.like(f"zun-{uuid}-{'_' * 8}"), volumes.c.created_at < before, ~mounted
    )
    return list((await connection.execute(query.limit(100))).scalars())


async def delete(connection: AsyncConnection, uuid: str) -> None:
    """Absent is success."""
    await connection.execute(volumes.delete().where(volumes.c.uuid == uuid))
