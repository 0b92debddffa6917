"""Queries on the embedded networks and their ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.store.tables import local_networks as networks
from zun.store.tables import local_ports as ports

_NEAR = 64
"""Numbers among which the lowest is looked for first."""


def _visible(project_id: str) -> sa.ColumnElement[bool]:
    return sa.or_(networks.c.project_id == project_id, networks.c.shared.is_(True))


async def find(connection: AsyncConnection, ident: str, project_id: str) -> Sequence[RowMapping]:
    """Networks with that id or name which the project may use; the id wins, at most two."""
    query = (
        sa.select(networks)
        .where(sa.or_(networks.c.uuid == ident, networks.c.name == ident), _visible(project_id))
        .order_by(sa.case((networks.c.uuid == ident, 0), else_=1))
        .limit(2)
    )
    rows = (await connection.execute(query)).mappings().all()
    return rows[:1] if rows and rows[0]["uuid"] == ident else rows


async def default_of(connection: AsyncConnection, project_id: str) -> RowMapping | None:
    """The project's default network."""
    query = sa.select(networks).where(networks.c.project_id == project_id, networks.c.is_default.is_(True)).limit(1)
    return (await connection.execute(query)).mappings().first()


async def get(connection: AsyncConnection, uuids: Sequence[str]) -> Mapping[str, RowMapping]:
    """uuid -> row, of those that exist."""
    rows = (await connection.execute(sa.select(networks).where(networks.c.uuid.in_(uuids)))).mappings()
    return {row["uuid"]: row for row in rows}


async def cidrs(connection: AsyncConnection) -> Sequence[str]:
    """Subnets given away already; as many as there are networks, read when one more is made."""
    return list((await connection.execute(sa.select(networks.c.cidr))).scalars())


async def insert(connection: AsyncConnection, values: Mapping[str, Any]) -> bool:
    """False when another process was faster with this subnet or this name."""
    try:
        async with connection.begin_nested():
            await connection.execute(networks.insert().values(**values))
    except sa.exc.IntegrityError:
        return False
    return True


async def touch(connection: AsyncConnection, uuids: Sequence[str], now: datetime) -> None:
    """Note the use. Also locks the rows, so that addresses of one network are given one after another."""
    await connection.execute(networks.update().where(networks.c.uuid.in_(sorted(uuids))).values(last_used_at=now))


async def idle(connection: AsyncConnection, uuids: Sequence[str], before: datetime) -> Sequence[str]:
    """Those of ``uuids`` that have no port and were last used before the moment given."""
    used = sa.exists().where(ports.c.network_uuid == networks.c.uuid)
    last = sa.func.coalesce(networks.c.last_used_at, networks.c.created_at)
    query = sa.select(networks.c.uuid).where(networks.c.uuid.in_(uuids), last <= before, ~used)
    return list((await connection.execute(query)).scalars())


# -- ports -----------------------------------------------------------------------------------------


async def ports_of(connection: AsyncConnection, device_id: str) -> Sequence[RowMapping]:
    """The device's ports, in order."""
    query = sa.select(ports).where(ports.c.device_id == device_id).order_by(ports.c.position)
    return (await connection.execute(query)).mappings().all()


async def all_ports(connection: AsyncConnection) -> Sequence[RowMapping]:
    """``uuid, device_id`` of every port."""
    return (await connection.execute(sa.select(ports.c.uuid, ports.c.device_id))).mappings().all()


async def address_taken(connection: AsyncConnection, network_uuid: str, number: int) -> bool:
    """Is the address with that number in use?"""
    query = sa.select(ports.c.uuid).where(ports.c.network_uuid == network_uuid, ports.c.number == number)
    return (await connection.execute(query)).first() is not None


async def free_number(connection: AsyncConnection, network_uuid: str, first: int, end: int) -> int:
    """A number without a port: the lowest of the first few, then the one behind the highest, then the lowest of all.
    So as many rows are read for the ten thousandth port as for the hundredth. ``end`` or more: there is none left."""
    number = await _lowest_free(connection, network_uuid, first, first + _NEAR)
    if number is not None:
        return number
    highest = sa.select(sa.func.max(ports.c.number)).where(ports.c.network_uuid == network_uuid)
    behind = int((await connection.execute(highest)).scalar_one()) + 1
    if behind < end:
        return behind
    number = await _lowest_free(connection, network_uuid, first, end)
    return end if number is None else number


async def _lowest_free(connection: AsyncConnection, network_uuid: str, first: int, end: int) -> int | None:
    """The lowest number from ``first`` on without a port, ``end`` at most; the database looks for the gap along its
    index."""
    following = ports.alias()
    free_after = ~sa.exists().where(following.c.network_uuid == network_uuid, following.c.number == ports.c.number + 1)
    gap = (
        sa.select(ports.c.number + 1)
        .where(ports.c.network_uuid == network_uuid, ports.c.number >= first, ports.c.number < end, free_after)
        .order_by(ports.c.number)
        .limit(1)
        .scalar_subquery()
    )
    first_taken = sa.exists().where(ports.c.network_uuid == network_uuid, ports.c.number == first)
    found = (await connection.execute(sa.select(sa.case((~first_taken, first), else_=gap)))).scalar_one()
    return None if found is None else int(found)


async def in_use(connection: AsyncConnection, network_uuid: str) -> bool:
    """Has the network any port?"""
    query = sa.select(ports.c.uuid).where(ports.c.network_uuid == network_uuid).limit(1)
    return (await connection.execute(query)).first() is not None


async def insert_port(connection: AsyncConnection, values: Mapping[str, Any]) -> None:
    """Raises IntegrityError when the address or the position is taken."""
    await connection.execute(ports.insert().values(**values))


async def delete_ports(connection: AsyncConnection, device_id: str) -> None:
    """Remove the device's ports."""
    await connection.execute(ports.delete().where(ports.c.device_id == device_id))


async def delete_port(connection: AsyncConnection, device_id: str, network_uuid: str) -> None:
    """Remove the device's port on one network."""
    await connection.execute(ports.delete().where(ports.c.device_id == device_id, ports.c.network_uuid == network_uuid))
