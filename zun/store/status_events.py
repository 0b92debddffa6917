"""Queries on ``status_events`` (decision 0082).

An event is written in the transaction of the change it tells, without a number: transactions end in another order than
their ids are given in, and a reader that went by ids would pass over what ends late. Numbers are given afterwards, to
what is committed, by whoever looks first and under a lock that is held until they are written: who sees a number has
seen, or can see, all below it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.container import Container
from zun.domain.status_event import Change, StatusEvent
from zun.store import settings
from zun.store.missing import insert_missing
from zun.store.tables import containers, status_events
from zun.store.tables import settings as settings_table

LAST = "events_last"
"""Setting: the last number given."""
FORGOTTEN = "events_forgotten"
"""Setting: the highest number that was removed."""

_BATCH = 1000
_c = status_events.c
_FIELDS = [_c[field.name] for field in dataclasses.fields(StatusEvent)]
_ROW = containers.c
_TOLD = (
    _ROW.uuid, _ROW.container_type, _ROW.capsule_uuid, _ROW.name, _ROW.project_id, _ROW.user_id, _ROW.status,
    _ROW.status_reason,
)  # fmt: skip


async def before(connection: AsyncConnection, *which: sa.ColumnElement[bool]) -> Sequence[Mapping[str, Any]]:
    """What events tell of these rows of ``containers``; locked, so that nobody changes them before this transaction
    has. SQLite has one writer, which needs no lock."""
    query = sa.select(*_TOLD).where(*which).order_by(_ROW.id)
    if connection.dialect.name != "sqlite":
        query = query.with_for_update()
    return [dict(row) for row in (await connection.execute(query)).mappings()]


async def note_changes(
    connection: AsyncConnection, rows: Sequence[Mapping[str, Any]], values: Mapping[str, Any], now: datetime
) -> None:
    """Rows that ``before`` gave have become what ``values`` says: an event for each whose status is another."""
    status = str(values["status"])
    moved = [_event(Change.STATUS, {**row, **values}, now, row["status"]) for row in rows if row["status"] != status]
    await _write(connection, moved)


async def note_created(connection: AsyncConnection, rows: Sequence[Mapping[str, Any]], now: datetime) -> None:
    """These rows were inserted."""
    await _write(connection, [_event(Change.CREATED, row, now, None) for row in rows])


async def note_deleted(connection: AsyncConnection, rows: Sequence[Container], now: datetime) -> None:
    """These rows are removed."""
    told = [({column.name: getattr(row, column.name) for column in _TOLD}, row.status) for row in rows]
    gone = [_event(Change.DELETED, {**row, "status": None}, now, status) for row, status in told]
    await _write(connection, gone)


def _event(change: Change, row: Mapping[str, Any], now: datetime, previous: str | None) -> dict[str, Any]:
    status = row["status"]
    return {
        "kind": str(change),
        "container_uuid": row["uuid"],
        "container_type": str(row["container_type"]),
        "capsule_uuid": row["capsule_uuid"],
        "name": row["name"],
        "project_id": row["project_id"],
        "user_id": row["user_id"],
        "status": None if status is None else str(status),
        "previous_status": previous,
        "status_reason": row.get("status_reason"),
        "created_at": now,
    }


async def _write(connection: AsyncConnection, events: Sequence[Mapping[str, Any]]) -> None:
    if events:
        await connection.execute(status_events.insert(), events)


async def has_new(connection: AsyncConnection) -> bool:
    """Are there events without a number?"""
    return (await connection.execute(sa.select(_c.id).where(_c.number.is_(None)).limit(1))).first() is not None


async def number(connection: AsyncConnection) -> int:
    """Give numbers to events that have none, in the order of their ids; how many. Needs a transaction of its own.

    Numbers grow, and may leave some out where a transaction has not ended yet, or never will.
    """
    last = await _locked(connection)
    query = sa.select(_c.id).where(_c.number.is_(None)).order_by(_c.id).limit(_BATCH)
    found = list((await connection.execute(query)).scalars())
    if not found:
        return 0
    shift = last + 1 - found[0]
    # Named one by one: a range would wait for transactions whose events are in between.
    await connection.execute(status_events.update().where(_c.id.in_(found)).values(number=_c.id + shift))
    await settings.put(connection, LAST, str(found[-1] + shift))
    return len(found)


async def _locked(connection: AsyncConnection) -> int:
    """The last number given; nobody else gives one until the transaction ends."""
    query = sa.select(settings_table.c.value).where(settings_table.c.name == LAST)
    if connection.dialect.name != "sqlite":
        query = query.with_for_update()
    found = (await connection.execute(query)).scalar_one_or_none()
    if found is None:
        await insert_missing(connection, settings_table, {"name": LAST, "value": "0"})
        found = (await connection.execute(query)).scalar_one()
    return int(found)


async def bounds(connection: AsyncConnection) -> tuple[int, int]:
    """(highest number that was removed, last number given)."""
    forgotten = await settings.get(connection, FORGOTTEN)
    last = await settings.get(connection, LAST)
    return int(forgotten or 0), int(last or 0)


async def after(
    connection: AsyncConnection, position: int, limit: int, scope: Mapping[str, Any] | None = None
) -> Sequence[StatusEvent]:
    """Events with a number above ``position``, in their order; ``scope``: of one project or user."""
    only = [_c[name] == value for name, value in (scope or {}).items()]
    query = sa.select(*_FIELDS).where(_c.number > position, *only).order_by(_c.number).limit(limit)
    return [StatusEvent(**row) for row in (await connection.execute(query)).mappings()]


async def prune(connection: AsyncConnection, older_than: datetime) -> int:
    """Remove events, the first in the order, while they are older; how many were looked after, 0 when all is done.
    Those that nobody listened to are numbered first, so that who resumes is told what is gone."""
    first = sa.select(_c.created_at).order_by(_c.id).limit(1)
    oldest = (await connection.execute(first)).scalar_one_or_none()
    if oldest is None or oldest >= older_than:
        return 0
    numbered = await number(connection)
    query = sa.select(_c.number, _c.created_at).where(_c.number.is_not(None)).order_by(_c.number).limit(_BATCH)
    last = 0
    for given, created_at in await connection.execute(query):
        if given is None or created_at >= older_than:
            break
        last = given
    if not last:
        return numbered
    await settings.put(connection, FORGOTTEN, str(last))
    return numbered + int((await connection.execute(status_events.delete().where(_c.number <= last))).rowcount)
