"""Queries on moves: operations ``evacuate``, which pass from host to host, and the rows they carry.

Whoever has a move holds its lease; each hand-over names the holder it expects, so that a move is in one place only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.container import Container, VolumeMapping
from zun.domain.lifecycle import Status, Task
from zun.domain.moving import NOWHERE, Move
from zun.domain.operation import UNFINISHED, Kind, Operation, State
from zun.store import containers, follow_ups, operations, volume_mappings
from zun.store.tables import containers as rows
from zun.store.tables import operation_events, services
from zun.store.tables import operations as table

_c = table.c


async def of_host(connection: AsyncConnection, host: str) -> Sequence[tuple[Container, Sequence[VolumeMapping]]]:
    """The containers recorded on a host, with their mounts."""
    mounts: dict[str, list[VolumeMapping]] = defaultdict(list)
    for mapping in await volume_mappings.of_host(connection, host):
        mounts[mapping.container_uuid].append(mapping)
    return [(row, mounts[row.uuid]) for row in await containers.of_host(connection, host)]


async def lock_service(connection: AsyncConnection, host: str, binary: str) -> None:
    """Keep the host's agent from registering or reporting until the transaction ends: who decides that it is lost, and
    it itself when it returns, come one after the other."""
    if connection.dialect.name != "sqlite":
        where = (services.c.host == host, services.c.binary == binary)
        await connection.execute(sa.select(services.c.id).where(*where).with_for_update())


async def begin(
    connection: AsyncConnection, row: Container, move: Move, request_id: str, now: datetime, deadline: datetime
) -> int | None:
    """The row says that it moves, and the operation is written; its id. None when the row is no longer as read."""
    expect = {"generation": row.generation, "host": move.source, "task_state": None}
    values = {"status": Status.REBUILDING, "task_state": Task.EVACUATING}
    if not await containers.update(connection, row.uuid, expect, values, now):
        return None
    return await operations.insert(
        connection,
        container_uuid=row.uuid,
        kind=Kind.EVACUATE,
        host=NOWHERE,
        request_id=request_id,
        user_id=row.user_id,
        project_id=row.project_id,
        params=move.params(),
        now=now,
        deadline=deadline,
    )


async def of_container(connection: AsyncConnection, uuid: str) -> Operation | None:
    """The container's move, if one is under way."""
    found = await operations.unfinished_of_container(connection, uuid)
    return next((operation for operation in found if operation.kind == Kind.EVACUATE), None)


async def under_way(connection: AsyncConnection, host: str) -> Mapping[str, Operation]:
    """Container -> its move, of the containers recorded on a host."""
    query = (
        sa.select(*operations.FIELDS)
        .join(rows, rows.c.uuid == _c.container_uuid)
        .where(rows.c.host == host, _c.kind == Kind.EVACUATE, _c.state.in_(UNFINISHED), _c.lane.is_(None))
        .order_by(_c.id.desc())
    )
    return {row.container_uuid: Operation(**row._mapping) for row in await connection.execute(query)}


async def pulse(connection: AsyncConnection, host: str) -> tuple[int, int]:
    """How many containers and capsules the host has, and their generations together: other figures tell that one came,
    went or changed."""
    query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(rows.c.generation), 0)).where(rows.c.host == host)
    count, generations = (await connection.execute(query)).one()
    return int(count), int(generations)


async def waiting(connection: AsyncConnection) -> Sequence[Operation]:
    """Moves that wait for their target, oldest first."""
    return await operations.of_kind(connection, NOWHERE, Kind.EVACUATE)


async def hand_over(connection: AsyncConnection, operation: Operation, worker: str, host: str, move: Move) -> bool:
    """``host`` goes on with the move; False when ``worker`` no longer holds it."""
    result = await connection.execute(
        table.update()
        .where(_c.id == operation.id, _c.worker == worker, _c.state == State.RUNNING)
        .values(_passed_on(host, move))
    )
    return bool(result.rowcount)


async def take_from(connection: AsyncConnection, operation: Operation, move: Move, now: datetime) -> bool:
    """A move that its host did not live to end waits for another target; False when it is no longer there."""
    result = await connection.execute(
        table.update()
        .where(_c.id == operation.id, _c.host == operation.host, _c.state.in_(UNFINISHED))
        .values(_passed_on(NOWHERE, move))
    )
    if not result.rowcount:
        return False
    events = operation_events
    await connection.execute(
        events.update()
        .where(events.c.operation_id == operation.id, events.c.finish_time.is_(None))
        .values(finish_time=now, result="Error")
    )
    return True


def _passed_on(host: str, move: Move) -> Mapping[str, Any]:
    return {
        "host": host,
        "params": move.params(),
        "state": State.QUEUED,
        "worker": None,
        "lease_until": None,
        "not_before": None,
        "attempt": 0,
    }


async def switch(connection: AsyncConnection, uuid: str, move: Move, now: datetime) -> bool:
    """The container is the target's from now on, and nothing of it is there yet."""
    expect = {"host": move.source, "task_state": Task.EVACUATING}
    values = {"host": move.target, "container_id": None, "started_at": None, "status_detail": None}
    return await containers.update(connection, uuid, expect, values, now)


async def hand_back(connection: AsyncConnection, operation: Operation, worker: str, move: Move, now: datetime) -> bool:
    """The target could not make the container and has nothing of it: it is the source's again, as at the beginning, and
    the move waits for another target. False when ``worker`` no longer holds it."""
    if not await hand_over(connection, operation, worker, NOWHERE, move):
        return False
    expect = {"host": operation.host, "task_state": Task.EVACUATING}
    values = {"host": move.source, "container_id": move.engine_id, "started_at": None, "status_detail": None}
    return await containers.update(connection, operation.container_uuid, expect, values, now)


async def give_up(
    connection: AsyncConnection, operation: Operation, reason: str, now: datetime, deadline: datetime
) -> bool:
    """A move whose container is still its source's ends, and the row is as it was; False when it is so no longer. One
    that has been passed on since it was read is left alone. A source that is alive and has let the container go already
    makes it anew, until ``deadline``."""
    move = Move.of(operation.params)
    await containers.lock(connection, operation.container_uuid)
    same = table.update().where(_c.id == operation.id, _c.host == operation.host).values(host=operation.host)
    if not (await connection.execute(same)).rowcount:
        return False
    if not await operations.finish(connection, operation.id, worker=None, now=now, error=True):
        return False
    await operations.add_event(connection, operation.id, "give_up", started=now, finished=now, error=reason)
    expect = {"host": move.source, "task_state": Task.EVACUATING}
    if not (move.drain and move.failed):
        values: dict[str, Any] = {"status": move.status, "task_state": None}
        return await containers.update(connection, operation.container_uuid, expect, values, now)
    values = {"status": Status.REBUILDING, "task_state": Task.REBUILDING}
    if not await containers.update(connection, operation.container_uuid, expect, values, now):
        return False
    params = {"run": move.run, "healing": True}
    await follow_ups.insert(
        connection, operation, Kind.REBUILD, host=move.source, params=params, now=now, deadline=deadline
    )
    return True


async def last_errors(connection: AsyncConnection, host: str) -> Mapping[str, str]:
    """Container -> why its last move failed, in the words of its last step that did; of those recorded on a host."""
    events = operation_events.c
    last = (
        sa.select(sa.func.max(events.id))
        .join(table, _c.id == events.operation_id)
        .join(rows, rows.c.uuid == _c.container_uuid)
        .where(rows.c.host == host, _c.kind == Kind.EVACUATE, events.traceback.is_not(None))
        .group_by(_c.container_uuid)
    )
    query = sa.select(_c.container_uuid, events.traceback).join(table, _c.id == events.operation_id)
    found = await connection.execute(query.where(events.id.in_(last)))
    return {row.container_uuid: row.traceback for row in found}
