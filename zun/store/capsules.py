"""Queries on capsules and their members, which are rows of ``containers`` (``container_type``)."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.clock import SystemClock
from zun.domain.container import Container, Type
from zun.store import containers as rows
from zun.store import paging, quotas, sessions, status_events
from zun.store.tables import containers

_c = containers.c
_FIELDS = [_c[field.name] for field in dataclasses.fields(Container)]


async def members(connection: AsyncConnection, capsule_uuid: str) -> Sequence[Container]:
    """The capsule's members in the order of its template, init containers first."""
    return (await members_of(connection, [capsule_uuid]))[capsule_uuid]


async def members_of(connection: AsyncConnection, capsule_uuids: Sequence[str]) -> Mapping[str, Sequence[Container]]:
    """The same for several capsules, in one query."""
    query = sa.select(*_FIELDS).where(_c.capsule_uuid.in_(capsule_uuids)).order_by(_c.id)
    found: dict[str, list[Container]] = defaultdict(list)
    for row in await connection.execute(query):
        found[str(row.capsule_uuid)].append(Container(**row._mapping))
    return found


async def of_host(connection: AsyncConnection, host: str) -> Sequence[Container]:
    """This host's capsules, without their members (rule 5)."""
    mine = (_c.host == host, _c.container_type == Type.CAPSULE)
    return [Container(**row._mapping) for row in await connection.execute(sa.select(*_FIELDS).where(*mine))]


async def capsule_of(connection: AsyncConnection, uuid: str) -> str | None:
    """The capsule that this uuid is of: itself, or the member's; None for others."""
    row = (await connection.execute(sa.select(_c.container_type, _c.capsule_uuid).where(_c.uuid == uuid))).first()
    if row is None:
        return None
    return uuid if row.container_type == Type.CAPSULE else row.capsule_uuid


async def page(
    connection: AsyncConnection,
    *,
    limit: int,
    sort_key: str,
    descending: bool,
    marker: str | None,
    scope: Mapping[str, Any],
) -> Sequence[tuple[Container, Sequence[Container]]]:
    """One page of capsules, each with its members: two queries. Raises LookupError for an unknown marker."""
    only = [_c.container_type == Type.CAPSULE, *(_c[name] == value for name, value in scope.items())]
    found = await paging.page(
        connection,
        containers,
        limit=limit,
        sort_key=sort_key,
        descending=descending,
        marker=marker,
        conditions=only,
    )
    names = [field.name for field in dataclasses.fields(Container)]
    capsules = [Container(**{name: row[name] for name in names}) for row in found]
    inside = await members_of(connection, [capsule.uuid for capsule in capsules])
    return [(capsule, inside.get(capsule.uuid, ())) for capsule in capsules]


async def update_members(
    connection: AsyncConnection, capsule_uuid: str, values: Mapping[str, Any], now: datetime, **expect: Any
) -> int:
    """Change all members of a capsule, or those whose columns are as ``expect`` says; how many."""
    found = [_c[name] == value for name, value in expect.items()]
    mine = [_c.capsule_uuid == capsule_uuid, *found]
    before = await status_events.before(connection, *mine) if "status" in values else ()
    changed = {**values, "updated_at": now, "generation": _c.generation + 1}
    result = await connection.execute(containers.update().where(*mine).values(**changed))
    if before:
        await status_events.note_changes(connection, before, values, now)
    return int(result.rowcount)


async def remove(connection: AsyncConnection, uuid: str, expect: Mapping[str, Any]) -> bool:
    """Remove a container or a capsule with its members, if its row is as expected, with their sessions, and give back
    what they counted (S3.12)."""
    removed = await rows.delete(connection, uuid, expect)
    if removed is None:
        return False
    inside = await members(connection, uuid) if removed.container_type == Type.CAPSULE else ()
    await quotas.give_back(connection, removed.project_id, sum_of([removed, *inside]))
    if inside:
        await connection.execute(containers.delete().where(_c.capsule_uuid == uuid))
        await status_events.note_deleted(connection, inside, SystemClock().now())
    await sessions.forget(connection, uuid)
    return True


async def stop_counting(connection: AsyncConnection, row: Container, now: datetime) -> None:
    """Give back what a row, whose ``counted`` the caller has just switched off, counted with its members."""
    await quotas.give_back(connection, row.project_id, await _counted(connection, row))
    if row.container_type == Type.CAPSULE:
        await update_members(connection, row.uuid, {"counted": False}, now)


async def _counted(connection: AsyncConnection, row: Container) -> Mapping[str, int]:
    inside = await members(connection, row.uuid) if row.container_type == Type.CAPSULE else ()
    return sum_of([row, *inside])


def sum_of(held: Sequence[Container]) -> dict[str, int]:
    """What these rows count together."""
    counted: dict[str, int] = defaultdict(int)
    for one in held:
        for name, amount in one.quota.items():
            counted[name] += amount
    return dict(counted)
