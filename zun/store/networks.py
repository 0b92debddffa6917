"""Queries on the networks that administrators made ahead of use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.store.tables import networks


async def insert(connection: AsyncConnection, values: Mapping[str, Any]) -> bool:
    """False when the network is recorded already."""
    try:
        async with connection.begin_nested():
            await connection.execute(networks.insert().values(**values))
    except sa.exc.IntegrityError:
        return False
    return True


async def exists(connection: AsyncConnection, neutron_net_id: str) -> bool:
    query = sa.select(networks.c.id).where(networks.c.neutron_net_id == neutron_net_id)
    return (await connection.execute(query)).first() is not None


async def delete(connection: AsyncConnection, neutron_net_id: str) -> bool:
    """Was there one?"""
    result = await connection.execute(networks.delete().where(networks.c.neutron_net_id == neutron_net_id))
    return bool(result.rowcount)
