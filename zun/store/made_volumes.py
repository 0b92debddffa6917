"""Volumes that are made for a request, between their making and the row whose mount names them: the row takes them, or
the sweep does. Both look at the volume's record first, which only one of them has at a time."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.container import VolumeMapping
from zun.store.tables import cinder_volumes, local_volumes, volume_mappings

GIVEN_UP = datetime(1970, 1, 1)
"""``created_at`` of a volume that the sweep has taken: it is deleted, now or in a later look."""

_IDS: dict[str, tuple[sa.Table, sa.Column[str]]] = {
    "local": (local_volumes, local_volumes.c.uuid),
    "cinder": (cinder_volumes, cinder_volumes.c.volume_id),
}


async def take(connection: AsyncConnection, mapping: VolumeMapping) -> bool:
    """The volume made for the mapping is its own from this transaction on; False when the sweep was first."""
    table, ident = _IDS[mapping.driver]
    here = (ident == mapping.volume_id, table.c.created_at > GIVEN_UP)
    result = await connection.execute(table.update().where(*here).values(created_at=table.c.created_at))
    return bool(result.rowcount)


async def give_up(connection: AsyncConnection, driver: str, volume_id: str) -> bool:
    """No row may take the volume from now on; False when a mount names it. One without a record is nobody's."""
    table, ident = _IDS[driver]
    if connection.dialect.name != "sqlite":  # who takes it now has committed when the next statement looks
        await connection.execute(sa.select(ident).where(ident == volume_id).with_for_update())
    named = sa.select(volume_mappings.c.id).where(volume_mappings.c.volume_id == volume_id).limit(1)
    if (await connection.execute(named)).first() is not None:
        return False
    await connection.execute(table.update().where(ident == volume_id).values(created_at=GIVEN_UP))
    return True
