"""Queries on ``volume_mappings``: what is mounted where in a container."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.container import VolumeMapping
from zun.store import cinder_volumes, local_volumes
from zun.store.tables import containers
from zun.store.tables import volume_mappings as mappings

_FIELDS = [mappings.c[field.name] for field in dataclasses.fields(VolumeMapping)]


async def insert(connection: AsyncConnection, mapping: VolumeMapping) -> None:
    """Insert the row as given."""
    values = {field.name: getattr(mapping, field.name) for field in dataclasses.fields(mapping)}
    values["connection"] = dict(mapping.connection)
    await connection.execute(mappings.insert().values(**values))


async def keep_volume(connection: AsyncConnection, mapping: VolumeMapping, name: str) -> None:
    """The volume that was made for this mapping is its owner's from now on: it stays when no mount names it any more.
    An embedded one is called ``name``."""
    if mapping.volume_id is not None:
        await local_volumes.rename(connection, mapping.volume_id, name)
        await cinder_volumes.gone(connection, mapping.volume_id)


async def of_container(connection: AsyncConnection, container_uuid: str) -> Sequence[VolumeMapping]:
    """The container's mounts, in the order asked."""
    query = sa.select(*_FIELDS).where(mappings.c.container_uuid == container_uuid).order_by(mappings.c.id)
    rows = (await connection.execute(query)).mappings()
    return [VolumeMapping(**dict(row) | {"connection": row["connection"] or {}}) for row in rows]


async def of_host(connection: AsyncConnection, host: str) -> Sequence[VolumeMapping]:
    """The mounts of all containers recorded on a host."""
    query = sa.select(*_FIELDS).join(containers, containers.c.uuid == mappings.c.container_uuid)
    rows = (await connection.execute(query.where(containers.c.host == host))).mappings()
    return [VolumeMapping(**dict(row) | {"connection": row["connection"] or {}}) for row in rows]


async def owners(connection: AsyncConnection, uuids: Sequence[str]) -> Mapping[str, str]:
    """uuid -> container, of those mappings that exist."""
    query = sa.select(mappings.c.uuid, mappings.c.container_uuid).where(mappings.c.uuid.in_(uuids))
    return {row.uuid: row.container_uuid for row in await connection.execute(query)}


async def mounted(connection: AsyncConnection) -> set[tuple[str, str]]:
    """(container, volume) of every mount that has a volume."""
    query = sa.select(mappings.c.container_uuid, mappings.c.volume_id).where(mappings.c.volume_id.is_not(None))
    return {(row.container_uuid, row.volume_id) for row in await connection.execute(query)}


async def hosts(connection: AsyncConnection, uuids: Collection[str]) -> Mapping[str, tuple[str, str | None]]:
    """Mapping -> its container and the host that that is on, of those that there are."""
    query = (
        sa.select(mappings.c.uuid, mappings.c.container_uuid, containers.c.host)
        .select_from(mappings.outerjoin(containers, containers.c.uuid == mappings.c.container_uuid))
        .where(mappings.c.uuid.in_(uuids))
    )
    return {row.uuid: (row.container_uuid, row.host) for row in await connection.execute(query)}


async def set_connection(connection: AsyncConnection, uuid: str, data: Mapping[str, Any]) -> bool:
    """Keep what the adapter stored at attach; False when the mapping is gone."""
    result = await connection.execute(mappings.update().where(mappings.c.uuid == uuid).values(connection=dict(data)))
    return bool(result.rowcount)


async def set_volume(connection: AsyncConnection, uuid: str, volume_id: str) -> bool:
    """Name the volume of a mapping that has none yet; False when it has one, or is gone."""
    result = await connection.execute(
        mappings.update().where(mappings.c.uuid == uuid, mappings.c.volume_id.is_(None)).values(volume_id=volume_id)
    )
    return bool(result.rowcount)


async def delete_of_container(connection: AsyncConnection, container_uuid: str) -> int:
    """Remove the container's mappings; how many there were."""
    result = await connection.execute(mappings.delete().where(mappings.c.container_uuid == container_uuid))
    return int(result.rowcount)


async def lasting_use(connection: AsyncConnection, volume_id: str) -> bool:
    """Does a container use the volume that was not made for it?"""
    query = sa.select(mappings.c.id).where(mappings.c.volume_id == volume_id, mappings.c.auto_remove.is_(False))
    return (await connection.execute(query.limit(1))).first() is not None
