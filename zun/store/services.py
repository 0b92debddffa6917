"""Queries on services: which agents there are, and when each was last heard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.store.tables import services

_c = services.c


def is_up(row: Mapping[str, Any], now: datetime, down_time: float) -> bool:
    """Not forced down, and heard at most ``down_time`` seconds ago (api §10.4)."""
    heard: datetime = row["last_seen_up"] or row["updated_at"] or row["created_at"]
    return not row["forced_down"] and now - heard <= timedelta(seconds=down_time)


async def register(
    connection: AsyncConnection,
    *,
    host: str,
    binary: str,
    availability_zone: str | None,
    instance: str,
    now: datetime,
    relay: str | None = None,
    fenced_after: int | None = None,
) -> None:
    """The agent process ``instance`` is the one of ``host`` from now on, with its ``relay`` (``host:port``); disabled
    and forced_down are kept (S6.1). ``fenced_after``: see ``zun.domain.moving.promise``."""
    changed = {
        "availability_zone": availability_zone,
        "instance": instance,
        "relay": relay,
        "fenced_after": fenced_after,
        "last_seen_up": now,
        "updated_at": now,
    }
    where = (_c.host == host, _c.binary == binary)
    if (await connection.execute(services.update().where(*where).values(**changed))).rowcount:
        return
    values = {**changed, "host": host, "binary": binary, "disabled": False, "forced_down": False, "report_count": 0}
    try:
        async with connection.begin_nested():
            await connection.execute(services.insert().values(**values | {"created_at": now, "updated_at": None}))
    except sa.exc.IntegrityError:
        await connection.execute(services.update().where(*where).values(**changed))


async def heartbeat(connection: AsyncConnection, host: str, binary: str, instance: str, now: datetime) -> bool:
    """One more sign of life; False when another process took over the host, or the record is gone."""
    result = await connection.execute(
        services.update()
        .where(_c.host == host, _c.binary == binary, _c.instance == instance)
        .values(report_count=_c.report_count + 1, last_seen_up=now, updated_at=now)
    )
    return bool(result.rowcount)


async def withdraw(connection: AsyncConnection, host: str, binary: str, instance: str) -> None:
    """The agent ends in an orderly way: nobody stops the host's containers from now on, and none may be moved."""
    where = (_c.host == host, _c.binary == binary, _c.instance == instance)
    await connection.execute(services.update().where(*where).values(fenced_after=None))


async def get(connection: AsyncConnection, host: str, binary: str) -> Mapping[str, Any] | None:
    """One service."""
    query = sa.select(services).where(_c.host == host, _c.binary == binary)
    row = (await connection.execute(query)).mappings().first()
    return dict(row) if row else None


async def list_all(connection: AsyncConnection, binary: str | None = None) -> Sequence[Mapping[str, Any]]:
    """All services, oldest first; of one ``binary`` when named."""
    query = sa.select(services).order_by(_c.id)
    if binary is not None:
        query = query.where(_c.binary == binary)
    return [dict(row) for row in (await connection.execute(query)).mappings()]


async def zones(connection: AsyncConnection, default: str) -> Sequence[str]:
    """Distinct availability zones in order; ``default`` stands in for an empty one."""
    zone = sa.func.coalesce(sa.func.nullif(_c.availability_zone, ""), default).label("zone")
    return list((await connection.execute(sa.select(zone).distinct().order_by(zone))).scalars())


async def change(connection: AsyncConnection, host: str, binary: str, values: Mapping[str, Any], now: datetime) -> bool:
    """Write what an administrator decided (disabled, disabled_reason, forced_down); False when there is none."""
    where = (_c.host == host, _c.binary == binary)
    result = await connection.execute(services.update().where(*where).values(**values, updated_at=now))
    return bool(result.rowcount)


async def delete(connection: AsyncConnection, host: str, binary: str) -> bool:
    """Remove the record; False when there is none. A living agent registers again at its next start."""
    result = await connection.execute(services.delete().where(_c.host == host, _c.binary == binary))
    return bool(result.rowcount)
