"""Queries on ``operations`` and their events: the durable record behind actions, leases and deadlines (rule 1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.operation import HIDDEN, UNFINISHED, Operation, State
from zun.store.tables import operation_events, operations, services

FIELDS = [operations.c[field.name] for field in dataclasses.fields(Operation)]


def _new_id(result: sa.CursorResult[Any]) -> int:
    key = result.inserted_primary_key
    return int(key[0]) if key else 0


def _operation(row: sa.Row[Any]) -> Operation:
    return Operation(**row._mapping)


async def insert(
    connection: AsyncConnection,
    *,
    container_uuid: str,
    kind: str,
    host: str,
    request_id: str,
    user_id: str,
    project_id: str,
    params: Mapping[str, Any],
    now: datetime,
    deadline: datetime,
    state: str = State.QUEUED,
    message: str | None = None,
    not_before: datetime | None = None,
) -> int:
    """Write one operation, in the transaction of the status it announces; its id."""
    finished = state not in UNFINISHED
    result = await connection.execute(
        operations.insert().values(
            container_uuid=container_uuid,
            kind=kind,
            hidden=kind in HIDDEN,
            host=host,
            request_id=request_id,
            user_id=user_id,
            project_id=project_id,
            params=dict(params),
            start_time=now,
            deadline=deadline,
            state=state,
            attempt=0,
            not_before=not_before,
            message=message,
            finish_time=now if finished else None,
        )
    )
    return _new_id(result)


@dataclasses.dataclass(frozen=True, slots=True)
class Next:
    """The oldest unfinished operation of one lane, as much as a worker has to know to take it."""

    id: int
    container_uuid: str
    kind: str
    not_before: datetime | None
    lane: str | None = None

    @property
    def key(self) -> str:
        """Operations of one key follow each other: of the container, or of the lane its operation has left for."""
        return self.container_uuid if self.lane is None else f"{self.container_uuid}/{self.lane}"


async def next_of_host(connection: AsyncConnection, host: str) -> Sequence[Next]:
    """What this host has to do next, one operation a container, oldest first. However many a container has queued,
    the others have their turn."""
    c = operations.c
    oldest = (
        sa.select(sa.func.min(c.id)).where(c.host == host, c.state.in_(UNFINISHED)).group_by(c.container_uuid, c.lane)
    )
    query = sa.select(c.id, c.container_uuid, c.kind, c.not_before, c.lane).where(c.id.in_(oldest)).order_by(c.id)
    return [Next(*row) for row in await connection.execute(query)]


async def unfinished_of_container(connection: AsyncConnection, uuid: str) -> Sequence[Operation]:
    """Operations of one container that have not ended, oldest first; not those that have left it."""
    c = operations.c
    query = (
        sa.select(*FIELDS)
        .where(c.container_uuid == uuid, c.state.in_(UNFINISHED), c.lane.is_(None))
        .order_by(operations.c.id)
    )
    return [_operation(row) for row in await connection.execute(query)]


LONGEST_WAIT = timedelta(seconds=90)
"""No operation is put off for longer: one further ahead was put off before the clock was set back."""


def is_due(not_before: datetime | None, now: datetime) -> bool:
    """May the operation be tried now?"""
    return not_before is None or not_before <= now or not_before > now + LONGEST_WAIT


async def claim(
    connection: AsyncConnection, operation_id: int, *, worker: str, host: str, now: datetime, lease: timedelta
) -> Operation | None:
    """Lease the operation of ``host`` to ``worker``; None when another has it, it is not due, or it has ended."""
    c = operations.c
    free = sa.or_(c.worker.is_(None), c.worker == worker, c.lease_until < now)
    due = sa.or_(c.not_before.is_(None), c.not_before <= now, c.not_before > now + LONGEST_WAIT)
    result = await connection.execute(
        operations.update()
        .where(c.id == operation_id, c.host == host, c.state.in_(UNFINISHED), free, due)
        .values(state=State.RUNNING, worker=worker, lease_until=now + lease, attempt=c.attempt + 1)
    )
    if not result.rowcount:
        return None
    row = (await connection.execute(sa.select(*FIELDS).where(c.id == operation_id))).one()
    return _operation(row)


async def renew(connection: AsyncConnection, worker: str, ids: Sequence[int], until: datetime) -> None:
    """Extend the leases this worker still holds."""
    await connection.execute(
        operations.update()
        .where(operations.c.id.in_(ids), operations.c.worker == worker, operations.c.state == State.RUNNING)
        .values(lease_until=until)
    )


async def disown(connection: AsyncConnection, host: str, worker: str) -> None:
    """At an agent's start: leases of the host's former agent process are void."""
    await connection.execute(
        operations.update()
        .where(operations.c.host == host, operations.c.state == State.RUNNING, operations.c.worker != worker)
        .values(worker=None, lease_until=None)
    )


async def finish(
    connection: AsyncConnection,
    operation_id: int,
    *,
    worker: str | None,
    now: datetime,
    error: bool,
    has_steps: bool = True,
) -> bool:
    """End the operation if ``worker`` still holds it (None: whoever holds it). False: somebody else ended it.
    ``has_steps`` False: no step was left open that the caller does not end itself."""
    conditions = [operations.c.id == operation_id, operations.c.state.in_(UNFINISHED)]
    if worker is not None:
        conditions.append(operations.c.worker == worker)
    result = await connection.execute(
        operations.update()
        .where(*conditions)
        .values(
            state=State.FAILED if error else State.SUCCEEDED,
            finish_time=now,
            worker=None,
            lease_until=None,
            message="Error" if error else None,
        )
    )
    if not result.rowcount:
        return False
    if has_steps:
        await _close_steps(connection, operation_events.c.operation_id == operation_id, now)
    return True


async def _close_steps(connection: AsyncConnection, of: sa.ColumnElement[bool], now: datetime) -> None:
    """Steps whose worker died or was called off end with their operation; the worker's own end overwrites this."""
    await connection.execute(
        operation_events.update()
        .where(of, operation_events.c.finish_time.is_(None))
        .values(finish_time=now, result="Error")
    )


async def postpone(connection: AsyncConnection, operation_id: int, *, worker: str, until: datetime) -> bool:
    """Give the operation back, to be tried again at ``until``."""
    result = await connection.execute(
        operations.update()
        .where(operations.c.id == operation_id, operations.c.worker == worker, operations.c.state == State.RUNNING)
        .values(state=State.QUEUED, worker=None, lease_until=None, not_before=until)
    )
    return bool(result.rowcount)


async def set_lane(connection: AsyncConnection, operation_id: int, worker: str) -> str | None:
    """Let the operation leave its container; its lane, None when ``worker`` no longer holds it."""
    c, lane = operations.c, str(operation_id)
    held = (c.id == operation_id, c.worker == worker, c.state == State.RUNNING)
    result = await connection.execute(operations.update().where(*held).values(lane=lane))
    return lane if result.rowcount else None


async def let_go(connection: AsyncConnection, operation_id: int, params: Mapping[str, Any] | None = None) -> None:
    """An operation that was queued ahead of time may be carried out now, perhaps with other parameters."""
    values: dict[str, Any] = {"not_before": None} | ({} if params is None else {"params": dict(params)})
    await connection.execute(operations.update().where(operations.c.id == operation_id).values(**values))


async def of_kind(connection: AsyncConnection, host: str, kind: str) -> Sequence[Operation]:
    """A host's unfinished operations of one kind."""
    c = operations.c
    query = sa.select(*FIELDS).where(c.host == host, c.kind == kind, c.state.in_(UNFINISHED)).order_by(c.id)
    return [_operation(row) for row in await connection.execute(query)]


async def cancel_unfinished(connection: AsyncConnection, uuid: str, now: datetime, *, before: int) -> None:
    """End older operations of a container that a later one makes pointless."""
    c = operations.c
    older = (c.container_uuid == uuid, c.state.in_(UNFINISHED), c.lane.is_(None), c.id < before)
    ids = list((await connection.execute(sa.select(operations.c.id).where(*older))).scalars())
    await connection.execute(
        operations.update()
        .where(*older)
        .values(state=State.FAILED, finish_time=now, worker=None, lease_until=None, message="Error")
    )
    if ids:
        await _close_steps(connection, operation_events.c.operation_id.in_(ids), now)


async def overdue(connection: AsyncConnection, now: datetime, limit: int = 100) -> Sequence[Operation]:
    """Operations that outlived their deadline."""
    query = (
        sa.select(*FIELDS)
        .where(operations.c.state.in_(UNFINISHED), operations.c.deadline < now)
        .order_by(operations.c.deadline)
        .limit(limit)
    )
    return [_operation(row) for row in await connection.execute(query)]


async def set_params(connection: AsyncConnection, operation_id: int, params: Mapping[str, Any]) -> None:
    """Change what an unfinished operation was asked with; seen by its next attempt."""
    await connection.execute(
        operations.update()
        .where(operations.c.id == operation_id, operations.c.state.in_(UNFINISHED))
        .values(params=dict(params))
    )


async def extend(connection: AsyncConnection, operation_id: int, deadline: datetime) -> bool:
    """Give an unfinished operation more time."""
    result = await connection.execute(
        operations.update()
        .where(operations.c.id == operation_id, operations.c.state.in_(UNFINISHED))
        .values(deadline=deadline)
    )
    return bool(result.rowcount)


async def get(connection: AsyncConnection, operation_id: int) -> Operation | None:
    """One operation by id."""
    row = (await connection.execute(sa.select(*FIELDS).where(operations.c.id == operation_id))).first()
    return _operation(row) if row else None


# -- events ---------------------------------------------------------------------------------------


async def start_event(connection: AsyncConnection, operation_id: int, event: str, now: datetime) -> int:
    """Record that a step began; its id."""
    result = await connection.execute(
        operation_events.insert().values(operation_id=operation_id, event=event, start_time=now)
    )
    return _new_id(result)


async def finish_event(
    connection: AsyncConnection,
    event_id: int,
    now: datetime,
    error: str | None,
    progress: Mapping[str, Any] | None = None,
    code: str | None = None,
) -> None:
    """Record how the step ended; ``error`` is the text admins see as ``traceback``, ``code`` its kind."""
    await connection.execute(
        operation_events.update()
        .where(operation_events.c.id == event_id)
        .values(finish_time=now, result="Error" if error else "Success", traceback=error, progress=progress, code=code)
    )


async def set_progress(connection: AsyncConnection, event_id: int, progress: Mapping[str, Any]) -> None:
    """Note how far a running step is."""
    await connection.execute(
        operation_events.update()
        .where(operation_events.c.id == event_id, operation_events.c.finish_time.is_(None))
        .values(progress=dict(progress))
    )


async def add_event(
    connection: AsyncConnection,
    operation_id: int,
    event: str,
    *,
    started: datetime,
    finished: datetime,
    error: str | None,
    progress: Mapping[str, Any] | None = None,
    code: str | None = None,
) -> None:
    """Record a step that is over."""
    await add_events(connection, operation_id, [ended_event(event, started, finished, error, progress, code)])


def ended_event(
    event: str,
    started: datetime,
    finished: datetime,
    error: str | None,
    progress: Mapping[str, Any] | None,
    code: str | None = None,
) -> dict[str, Any]:
    """Columns of a step that is over."""
    return {
        "event": event,
        "start_time": started,
        "finish_time": finished,
        "result": "Error" if error else "Success",
        "traceback": error,
        "progress": progress,
        "code": code,
    }


async def add_events(connection: AsyncConnection, operation_id: int, ended: Sequence[Mapping[str, Any]]) -> None:
    """Record steps that are over, in their order and in one statement."""
    if ended:
        rows = [{"operation_id": operation_id, **event} for event in ended]
        await connection.execute(operation_events.insert(), rows)


# -- what the API shows as container actions -------------------------------------------------------


async def actions(connection: AsyncConnection, uuid: str) -> Sequence[sa.RowMapping]:
    """A container's actions, newest first."""
    c = operations.c
    query = sa.select(operations).where(c.container_uuid == uuid, c.hidden.is_(False)).order_by(c.id.desc())
    return (await connection.execute(query)).mappings().all()


async def action(connection: AsyncConnection, uuid: str, request_id: str) -> sa.RowMapping | None:
    """The first action of one request."""
    c = operations.c
    query = (
        sa.select(operations)
        .where(c.container_uuid == uuid, c.request_id == request_id, c.hidden.is_(False))
        .order_by(c.id)
        .limit(1)
    )
    return (await connection.execute(query)).mappings().first()


async def events(connection: AsyncConnection, operation_id: int) -> Sequence[sa.RowMapping]:
    """Steps of one operation, newest first. By their begin: one that takes long is written before shorter ones."""
    c = operation_events.c
    query = sa.select(operation_events).where(c.operation_id == operation_id)
    return (await connection.execute(query.order_by(c.start_time.desc(), c.id.desc()))).mappings().all()


async def prune(connection: AsyncConnection, before: datetime) -> int:
    """Remove ended operations of containers that are gone, older than ``before``; how many."""
    from zun.store.tables import containers

    gone = ~sa.exists().where(containers.c.uuid == operations.c.container_uuid)
    old = (
        sa.select(operations.c.id)
        .where(operations.c.finish_time < before, ~operations.c.state.in_(UNFINISHED), gone)
        .limit(1000)
    )
    ids = [row[0] for row in await connection.execute(old)]
    if ids:
        await connection.execute(operation_events.delete().where(operation_events.c.operation_id.in_(ids)))
        await connection.execute(operations.delete().where(operations.c.id.in_(ids)))
    return len(ids)


async def agent_instance(connection: AsyncConnection, host: str, binary: str) -> str | None:
    """Which agent process owns the host's operations now."""
    query = sa.select(services.c.instance).where(services.c.host == host, services.c.binary == binary)
    return (await connection.execute(query)).scalar_one_or_none()
