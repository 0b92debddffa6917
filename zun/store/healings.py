"""How often a container was made anew lately because its health check failed."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.observed import UNHEALTHY
from zun.domain.operation import Kind
from zun.store.tables import operations


async def since(connection: AsyncConnection, uuid: str, begin: datetime) -> int:
    """Replacements of the container that began after ``begin``, by its node and for that reason."""
    c = operations.c
    query = sa.select(c.params).where(c.container_uuid == uuid, c.kind == Kind.REBUILD, c.start_time > begin)
    return sum(bool(params.get(UNHEALTHY)) for params in (await connection.execute(query)).scalars())
