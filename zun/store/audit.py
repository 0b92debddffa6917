"""Queries of the Placement audit: every container and capsule in as few columns as it needs, and what is at work."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.container import HOLDERS
from zun.domain.operation import UNFINISHED
from zun.store.tables import compute_nodes, containers, operations

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Holder:
    """What of a container says what it holds. ``made``: its engine has it."""

    uuid: str
    host: str | None
    cpu: float
    memory: int
    disk: int
    made: bool
    counted: bool
    generation: int
    project_id: str
    user_id: str


_COLUMNS = [
    containers.c[name]
    for name in ("uuid", "host", "cpu", "memory", "disk", "container_id", "counted", "generation", "project_id")
] + [containers.c.user_id]


def _holder(row: sa.Row[tuple[object, ...]]) -> Holder:
    facts = dict(row._mapping)
    return Holder(made=facts.pop("container_id") is not None, **facts)


async def holders(connection: AsyncConnection, uuids: Collection[str] | None = None) -> dict[str, Holder]:
    """Every container and every capsule, by uuid, in one query; or those of ``uuids``."""
    query = sa.select(*_COLUMNS).where(containers.c.container_type.in_(HOLDERS))
    if uuids is None:
        return {row.uuid: _holder(row) for row in await connection.execute(query)}
    found, wanted = dict[str, Holder](), sorted(uuids)
    for start in range(0, len(wanted), _BATCH):
        some = query.where(containers.c.uuid.in_(wanted[start : start + _BATCH]))
        found |= {row.uuid: _holder(row) for row in await connection.execute(some)}
    return found


async def holder(connection: AsyncConnection, uuid: str) -> Holder | None:
    """One container."""
    row = (await connection.execute(sa.select(*_COLUMNS).where(containers.c.uuid == uuid))).first()
    return None if row is None else _holder(row)


async def moving(connection: AsyncConnection, uuid: str | None = None) -> set[str]:
    """Containers with an operation that has not ended; of ``uuid`` only, if given."""
    query = sa.select(operations.c.container_uuid).distinct().where(operations.c.state.in_(UNFINISHED))
    if uuid is not None:
        query = query.where(operations.c.container_uuid == uuid)
    return set((await connection.execute(query)).scalars())


async def known(connection: AsyncConnection, uuids: Collection[str]) -> set[str]:
    """Those that operations tell of: containers of ours that are gone."""
    found: set[str] = set()
    wanted = sorted(uuids)
    for start in range(0, len(wanted), _BATCH):
        query = (
            sa.select(operations.c.container_uuid)
            .distinct()
            .where(operations.c.container_uuid.in_(wanted[start : start + _BATCH]))
        )
        found |= set((await connection.execute(query)).scalars())
    return found


async def nodes(connection: AsyncConnection) -> dict[str, str]:
    """Host name -> uuid of its record, which is its provider's."""
    rows = await connection.execute(sa.select(compute_nodes.c.hostname, compute_nodes.c.uuid))
    return {row.hostname: row.uuid for row in rows}
