"""Queries on ``sessions``: who may open which interactive session, once (scenario 4)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.session import Session, SessionKind
from zun.store.tables import sessions

_c = sessions.c
_FIELDS = [_c[field.name] for field in dataclasses.fields(Session)]
_BATCH = 500

KEPT = timedelta(hours=1)
"""Rows of tokens that were used or expired stay so long: who uses one again is told which it was."""

LONGEST = timedelta(days=30)
"""Rows of sessions whose end nobody wrote down, as their proxy was killed, stay so long."""


def _session(row: sa.Row[tuple[object, ...]]) -> Session:
    values = dict(row._mapping)
    return Session(**values | {"kind": SessionKind(values["kind"])})


async def insert(connection: AsyncConnection, session: Session) -> None:
    """Write a session that was asked for."""
    await connection.execute(sessions.insert().values(**dataclasses.asdict(session)))


async def by_hash(connection: AsyncConnection, token_hash: str) -> Session | None:
    """The session of a token, whatever became of it."""
    row = (await connection.execute(sa.select(*_FIELDS).where(_c.token_hash == token_hash))).first()
    return _session(row) if row else None


async def get(connection: AsyncConnection, uuid: str) -> Session | None:
    """One session."""
    row = (await connection.execute(sa.select(*_FIELDS).where(_c.uuid == uuid))).first()
    return _session(row) if row else None


async def by_exec_id(connection: AsyncConnection, container_uuid: str, exec_id: str) -> Session | None:
    """The container's session of that exec."""
    mine = (_c.container_uuid == container_uuid, _c.exec_id == exec_id)
    row = (await connection.execute(sa.select(*_FIELDS).where(*mine))).first()
    return _session(row) if row else None


async def open_once(connection: AsyncConnection, uuid: str, now: datetime) -> bool:
    """Use the token; False when it was used, or has expired, since it was read."""
    unused = (_c.uuid == uuid, _c.opened_at.is_(None), _c.expires_at > now)
    result = await connection.execute(sessions.update().where(*unused).values(opened_at=now))
    return bool(result.rowcount)


async def connect_once(
    connection: AsyncConnection, uuid: str, host: str, now: datetime, within: timedelta
) -> Session | None:
    """The session, for the relay of ``host``, if a proxy opened it at most ``within`` ago and it was not connected
    yet; None otherwise, and every later time."""
    fresh = (
        _c.uuid == uuid,
        _c.host == host,
        _c.opened_at >= now - within,
        _c.connected_at.is_(None),
        _c.ended_at.is_(None),
    )
    result = await connection.execute(sessions.update().where(*fresh).values(connected_at=now))
    return await get(connection, uuid) if result.rowcount else None


async def unfinished(connection: AsyncConnection, host: str, before: datetime) -> Sequence[Session]:
    """Sessions that a relay of the host connected before, and of which nobody wrote down the end."""
    left = (_c.host == host, _c.connected_at < before, _c.ended_at.is_(None))
    return [_session(row) for row in await connection.execute(sa.select(*_FIELDS).where(*left).order_by(_c.id))]


async def end(connection: AsyncConnection, uuid: str, now: datetime) -> None:
    """The session is over; again, or of one that is gone, is success."""
    await connection.execute(sessions.update().where(_c.uuid == uuid, _c.ended_at.is_(None)).values(ended_at=now))


async def forget(connection: AsyncConnection, container_uuid: str) -> None:
    """All sessions of a container that is gone, or of a capsule's members."""
    mine = sa.or_(_c.container_uuid == container_uuid, _c.capsule_uuid == container_uuid)
    await connection.execute(sessions.delete().where(mine))


async def sweep(connection: AsyncConnection, now: datetime) -> int:
    """Remove up to 500 rows that are no use any more; how many."""
    over = sa.or_(_c.opened_at.is_(None), _c.ended_at.is_not(None), _c.expires_at < now - LONGEST)
    query = sa.select(_c.id).where(_c.expires_at < now - KEPT, over).order_by(_c.expires_at).limit(_BATCH)
    found = list((await connection.execute(query)).scalars())
    if not found:
        return 0
    return int((await connection.execute(sessions.delete().where(_c.id.in_(found)))).rowcount)
