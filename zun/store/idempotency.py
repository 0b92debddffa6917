"""Queries on ``idempotency_keys``: which request made what, so that one that is sent again makes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.store.missing import insert_missing
from zun.store.tables import idempotency_keys as table

_c = table.c
_BATCH = 500

UNANSWERED = timedelta(hours=1)
"""A row whose request died stays so long, unless the request is sent again."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A key that another request holds: ``answer`` None while that is at work."""

    fingerprint: str
    answer: str | None


async def claim(
    connection: AsyncConnection, key_hash: str, fingerprint: str, owner: str, *, now: datetime, lease: timedelta
) -> Kept | None:
    """Take the key for the request ``owner``; None when it is its own now. A key is free when it is unknown, has
    expired, or is that of the same request, which died unanswered (its lease ended, or was taken before the clock was
    set back)."""
    mine = {
        "fingerprint": fingerprint,
        "owner": owner,
        "lease_until": now + lease,
        "resource_uuid": None,
        "answer": None,
        "created_at": now,
        "expires_at": now + UNANSWERED,
    }
    await insert_missing(connection, table, {"key_hash": key_hash, **mine})
    dead = sa.and_(_c.answer.is_(None), sa.or_(_c.lease_until < now, _c.lease_until > now + 2 * lease))
    answered = _c.answer.is_not(None)
    free = sa.or_(
        sa.and_(dead, _c.fingerprint == fingerprint),
        sa.and_(_c.expires_at <= now, sa.or_(answered, dead)),
    )
    await connection.execute(table.update().where(_c.key_hash == key_hash, _c.owner != owner, free).values(**mine))
    query = sa.select(_c.owner, _c.fingerprint, _c.answer).where(_c.key_hash == key_hash)
    row = (await connection.execute(query)).one()
    return None if row.owner == owner else Kept(row.fingerprint, row.answer)


async def renew(connection: AsyncConnection, key_hash: str, owner: str, until: datetime) -> None:
    """The request is still at work."""
    mine = (_c.key_hash == key_hash, _c.owner == owner, _c.answer.is_(None))
    await connection.execute(table.update().where(*mine).values(lease_until=until, expires_at=until + UNANSWERED))


async def answer(
    connection: AsyncConnection, key_hash: str, owner: str, resource_uuid: str, text: str, expires: datetime
) -> bool:
    """Keep the answer, in the transaction that makes the resource. False: the key is another request's by now."""
    mine = (_c.key_hash == key_hash, _c.owner == owner, _c.answer.is_(None))
    values = {"resource_uuid": resource_uuid, "answer": text, "expires_at": expires}
    return bool((await connection.execute(table.update().where(*mine).values(**values))).rowcount)


async def release(connection: AsyncConnection, key_hash: str, owner: str) -> None:
    """The request made nothing: sent again, it is tried again."""
    mine = (_c.key_hash == key_hash, _c.owner == owner, _c.answer.is_(None))
    await connection.execute(table.delete().where(*mine))


async def sweep(connection: AsyncConnection, now: datetime) -> int:
    """Remove up to 500 keys that have expired; how many."""
    query = sa.select(_c.id).where(_c.expires_at < now).order_by(_c.expires_at).limit(_BATCH)
    found = list((await connection.execute(query)).scalars())
    if not found:
        return 0
    old = (_c.id.in_(found), _c.expires_at < now)  # one that was taken anew meanwhile stays
    return int((await connection.execute(table.delete().where(*old))).rowcount)
