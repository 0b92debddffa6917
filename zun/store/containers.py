"""Queries on ``containers``. Every UPDATE says what it expects of the row (rule 3).

Capsules and their members are rows, too: what finds or lists rows says which types it means; here containers.
Queries for the others are in ``capsules.py``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.awaited import Seen
from zun.domain.clock import SystemClock
from zun.domain.container import HOLDERS, MEMBERS, Container, Type
from zun.store import status_events
from zun.store.tables import Json, containers, registries

_FIELDS = [containers.c[field.name] for field in dataclasses.fields(Container)]

SORTABLE = frozenset(
    {
        "id", "uuid", "name", "project_id", "user_id", "image", "image_driver", "status", "status_reason",
        "status_detail", "task_state", "cpu", "cpu_policy", "memory", "disk", "workdir", "hostname", "host",
        "interactive", "tty", "auto_remove", "auto_heal", "runtime", "image_pull_policy", "created_at", "updated_at",
        "started_at",
    }
)  # fmt: skip
"""Columns a list may be sorted by; nothing secret, nothing unbounded."""


def kind_of(name: str) -> type:
    """The Python type of a column."""
    kind: type = containers.c[name].type.python_type
    return kind


FILTERS = ("name", "image", "project_id", "user_id", "memory", "host", "task_state", "status", "auto_remove")


def _container(row: sa.Row[Any]) -> Container:
    return Container(**row._mapping)


async def insert(connection: AsyncConnection, *given: Container) -> None:
    """Insert the rows as given, in their order (``id`` is the database's)."""
    rows = [dataclasses.asdict(container) | {"name_key": container.name.lower()} for container in given]
    for values in rows:
        values.pop("id")
    await connection.execute(containers.insert(), rows)
    await status_events.note_created(connection, rows, given[0].created_at or SystemClock().now())


async def get(connection: AsyncConnection, uuid: str) -> Container | None:
    """One row by uuid, of any project and any type."""
    row = (await connection.execute(sa.select(*_FIELDS).where(containers.c.uuid == uuid))).first()
    return _container(row) if row else None


async def seen(connection: AsyncConnection, uuids: Sequence[str]) -> Mapping[str, Seen]:
    """Where the rows are going, of those that there are."""
    c = containers.c
    query = sa.select(c.uuid, c.status, c.task_state, c.auto_remove, c.restart_at).where(c.uuid.in_(uuids))
    return {row.uuid: Seen(*row[1:]) for row in await connection.execute(query)}


async def find(
    connection: AsyncConnection, ident: str, scope: Mapping[str, Any], types: Sequence[str] = (Type.CONTAINER,)
) -> Sequence[Container]:
    """By uuid or exact name within ``scope`` (column -> value); at most two, to tell ambiguity. Members of capsules are
    known by their uuid only."""
    if is_uuid(ident):
        named = containers.c.uuid == ident.lower()
    else:
        named, types = containers.c.name == ident, [one for one in types if one not in MEMBERS]
    query = sa.select(*_FIELDS).where(named, containers.c.container_type.in_(types), *_scope(scope)).limit(2)
    return [_container(row) for row in await connection.execute(query)]


def is_uuid(text: str) -> bool:
    """Does ``text`` look like a uuid?"""
    from uuid import UUID

    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _scope(scope: Mapping[str, Any]) -> list[sa.ColumnElement[bool]]:
    return [containers.c[name] == value for name, value in scope.items()]


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """What a list call asks for."""

    limit: int
    marker: str | None = None
    after: tuple[int, Any] | None = None
    """Id and value of ``sort_key`` of the row before the page; the marker is not read then."""
    sort_key: str = "id"
    descending: bool = False
    filters: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    scope: Mapping[str, Any] = dataclasses.field(default_factory=dict)


_UNLISTED = frozenset(
    {
        "hints", "requested_networks", "exposed_ports", "registry_id", "container_type", "capsule_uuid", "annotations",
        "volume_mounts", "restarts", "back_off", "restart_at", "exit_code",
    }
)  # fmt: skip

LIST_COLUMNS = [
    sa.type_coerce(column, sa.Text).label(column.name) if isinstance(column.type, Json | sa.DateTime) else column
    for column in _FIELDS
    if column.name not in _UNLISTED
]

_TIMES = [column.name for column in _FIELDS if isinstance(column.type, sa.DateTime) and column.name not in _UNLISTED]


async def page(connection: AsyncConnection, wanted: Page) -> Sequence[Mapping[str, Any]]:
    """Rows of one page; JSON columns as their text, times as stored, ``registry_uuid`` joined in.

    Keyset paging: reads as many rows as it returns. Raises LookupError when the marker does not exist.
    """
    key = containers.c[wanted.sort_key]
    only = [containers.c.container_type == Type.CONTAINER, *_scope(wanted.scope)]
    conditions = list(only)
    for name, values in wanted.filters.items():
        conditions.append(containers.c[name].in_(values))
    if wanted.after is not None:
        row_id, value = wanted.after
        conditions.append(_after(key, value, row_id, wanted.descending))
    elif wanted.marker:
        found = (
            await connection.execute(
                sa.select(containers.c.id, key.label("key")).where(containers.c.uuid == wanted.marker, *only)
            )
        ).first()
        if found is None:
            raise LookupError(wanted.marker)
        conditions.append(_after(key, found.key, found.id, wanted.descending))
    order: list[sa.ColumnElement[Any]]
    order = [key.desc(), containers.c.id.desc()] if wanted.descending else [key.asc(), containers.c.id.asc()]
    if wanted.sort_key != "id":
        order = [key.is_(None) if not wanted.descending else key.isnot(None), *order]
    query = (
        sa.select(*LIST_COLUMNS, registries.c.uuid.label("registry_uuid"))
        .select_from(containers.outerjoin(registries, containers.c.registry_id == registries.c.id))
        .where(*conditions)
        .order_by(*order)
        .limit(wanted.limit)
    )
    rows = [dict(row) for row in (await connection.execute(query)).mappings()]
    if connection.dialect.name != "sqlite":  # drivers of servers give times as such, whatever they are taken for
        for row in rows:
            for name in _TIMES:
                if row[name] is not None:
                    row[name] = row[name].isoformat(" ", "microseconds")
    return rows


def _after(key: sa.Column[Any], found: Any, row_id: int, descending: bool) -> sa.ColumnElement[bool]:
    """Rows behind (value, id) in the order of ``page``: nulls last when ascending, first when descending."""
    row = containers.c.id
    value = None if found is None else sa.literal(found, key.type)  # booleans compare as bound values only
    if key.name == "id":
        return row < row_id if descending else row > row_id
    if descending:
        if value is None:
            return sa.or_(key.isnot(None), row < row_id)
        return sa.and_(key.isnot(None), sa.or_(key < value, sa.and_(key == value, row < row_id)))
    if value is None:
        return sa.and_(key.is_(None), row > row_id)
    return sa.or_(key > value, sa.and_(key == value, row > row_id), key.is_(None))


async def name_taken(connection: AsyncConnection, name: str, project_id: str | None) -> bool:
    """Is there a container of that name, letter case aside (within the project, or anywhere for None)?"""
    same = (containers.c.name_key == name.lower(), containers.c.container_type == Type.CONTAINER)
    query = sa.select(containers.c.id).where(*same).limit(1)
    if project_id is not None:
        query = query.where(containers.c.project_id == project_id)
    return (await connection.execute(query)).first() is not None


async def lock(connection: AsyncConnection, uuid: str) -> None:
    """Keep others from the row until the transaction ends. Taken before locks on the container's operations: all
    transactions go in that order, so none waits in a circle. SQLite has one writer, which needs no lock."""
    if connection.dialect.name != "sqlite":
        await connection.execute(sa.select(containers.c.id).where(containers.c.uuid == uuid).with_for_update())


async def update(
    connection: AsyncConnection, uuid: str, expect: Mapping[str, Any], values: Mapping[str, Any], now: datetime
) -> bool:
    """Guarded write: change the row if every column of ``expect`` is as named. A tuple means "any of", None "is null".
    Another status is an event for those who listen.

    False when the row moved on (or is gone): the caller reads again and decides anew.
    """
    before = await status_events.before(connection, containers.c.uuid == uuid) if "status" in values else ()
    conditions = [containers.c.uuid == uuid]
    for name, value in expect.items():
        column = containers.c[name]
        if isinstance(value, tuple):
            conditions.append(column.in_(value))
        else:
            conditions.append(column.is_(None) if value is None else column == value)
    changed = dict(values)
    if "name" in changed:
        changed["name_key"] = changed["name"].lower()
    result = await connection.execute(
        containers.update().where(*conditions).values(**changed, updated_at=now, generation=containers.c.generation + 1)
    )
    if result.rowcount and before:
        await status_events.note_changes(connection, before, values, now)
    return bool(result.rowcount)


async def delete(connection: AsyncConnection, uuid: str, expect: Mapping[str, Any]) -> Container | None:
    """Remove the row if it is as expected; the row removed, None when there was none."""
    await lock(connection, uuid)
    found = await get(connection, uuid)
    if found is None:
        return None
    conditions = [containers.c.uuid == uuid] + [
        containers.c[name].in_(value) if isinstance(value, tuple) else containers.c[name] == value
        for name, value in expect.items()
    ]
    result = await connection.execute(containers.delete().where(*conditions))
    if not result.rowcount:
        return None
    await status_events.note_deleted(connection, [found], SystemClock().now())
    return found


async def of_host(connection: AsyncConnection, host: str) -> Sequence[Container]:
    """This host's containers only (rule 5)."""
    mine = (containers.c.host == host, containers.c.container_type == Type.CONTAINER)
    query = sa.select(*_FIELDS).where(*mine).order_by(containers.c.id)
    return [_container(row) for row in await connection.execute(query)]


async def usage_of_host(connection: AsyncConnection, host: str) -> tuple[int, float, int, int]:
    """(containers, cores, MiB, GiB) recorded on a host, summed by the database. Members of capsules are containers;
    their size is their capsule's."""
    c = containers.c
    holds, runs = c.container_type.in_(HOLDERS), c.container_type != Type.CAPSULE

    def held(column: sa.Column[Any], nothing: float) -> sa.ColumnElement[Any]:
        return sa.func.coalesce(sa.func.sum(sa.case((holds, column), else_=nothing)), nothing)

    row = (
        await connection.execute(
            sa.select(
                sa.func.coalesce(sa.func.sum(sa.case((runs, 1), else_=0)), 0),
                held(c.cpu, 0.0),
                held(c.memory, 0),
                held(c.disk, 0),
            ).where(c.host == host)
        )
    ).one()
    return int(row[0]), float(row[1]), int(row[2]), int(row[3])


async def using_registry(connection: AsyncConnection, registry_id: int) -> bool:
    """Does any container use this registry?"""
    query = sa.select(containers.c.id).where(containers.c.registry_id == registry_id).limit(1)
    return (await connection.execute(query)).first() is not None
