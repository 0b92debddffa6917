"""Named leases: one process at a time does a thing (the reaper), whoever dies loses it by time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.store.tables import leases


async def acquire(connection: AsyncConnection, name: str, owner: str, now: datetime, length: timedelta) -> bool:
    """Take or keep the lease; False while another owner's is valid. One that ends further ahead than any could was
    taken before the clock was set back, and is void."""
    free = sa.or_(leases.c.owner == owner, leases.c.until < now, leases.c.until > now + 2 * length)
    result = await connection.execute(
        leases.update().where(leases.c.name == name, free).values(owner=owner, until=now + length)
    )
    if result.rowcount:
        return True
    if (await connection.execute(sa.select(leases.c.name).where(leases.c.name == name))).first():
        return False
    try:
        async with connection.begin_nested():
            await connection.execute(leases.insert().values(name=name, owner=owner, until=now + length))
    except sa.exc.IntegrityError:
        return False
    return True


async def release(connection: AsyncConnection, name: str, owner: str) -> None:
    """Give the lease up early."""
    await connection.execute(leases.delete().where(leases.c.name == name, leases.c.owner == owner))


async def end(connection: AsyncConnection, name: str, owner: str, now: datetime) -> None:
    """Others may take it from now on; the row stays, as of one who died."""
    held = sa.and_(leases.c.name == name, leases.c.owner == owner)
    await connection.execute(leases.update().where(held).values(until=now - timedelta(seconds=1)))


async def ended(connection: AsyncConnection, prefix: str, now: datetime, most: int) -> Sequence[str]:
    """Names with this beginning that their owners did not give up, and that nobody holds any more."""
    over = sa.and_(leases.c.name.startswith(prefix, autoescape=True), leases.c.until < now)
    found = await connection.execute(sa.select(leases.c.name).where(over).order_by(leases.c.until).limit(most))
    return [str(row.name) for row in found]
