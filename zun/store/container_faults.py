"""What went wrong with containers in ``Error``: three queries for however many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.fault import Failure, Step
from zun.domain.operation import UNFINISHED, State
from zun.store.tables import operation_events, operations

_c, _e = operations.c, operation_events.c


async def failures(connection: AsyncConnection, uuids: Sequence[str]) -> Mapping[str, Failure]:
    """By uuid: the last operation that ended, where that failed. Commits say nothing of their container."""
    last = (
        sa.select(sa.func.max(_c.id))
        .where(
            _c.container_uuid.in_(uuids),
            _c.hidden.is_(False),
            _c.kind != "commit",
            _c.state.in_((State.FAILED, State.SUCCEEDED)),
        )
        .group_by(_c.container_uuid)
    )
    query = sa.select(_c.id, _c.container_uuid, _c.kind, _c.finish_time, _c.deadline).where(
        _c.id.in_(last), _c.state == State.FAILED
    )
    found = (await connection.execute(query)).all()
    if not found:
        return {}
    steps = await _errors(connection, [row.id for row in found])
    return {
        row.container_uuid: Failure(row.kind, row.finish_time, row.deadline, steps.get(row.id, ())) for row in found
    }


async def _errors(connection: AsyncConnection, operation_ids: Sequence[int]) -> Mapping[int, Sequence[Step]]:
    """Steps that ended in error, by operation."""
    wanted = sa.select(_e.operation_id, _e.event, _e.code, _e.traceback).where(
        _e.operation_id.in_(operation_ids), _e.result == "Error"
    )
    found: dict[int, list[Step]] = defaultdict(list)
    for row in (await connection.execute(wanted.order_by(_e.finish_time, _e.id))).all():
        found[row.operation_id].append(Step(row.event, row.code, row.traceback))
    return found


async def unfinished(connection: AsyncConnection, uuids: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Kinds of what is still to be carried out, by uuid, oldest first."""
    query = sa.select(_c.container_uuid, _c.kind).where(
        _c.container_uuid.in_(uuids), _c.state.in_(UNFINISHED), _c.lane.is_(None)
    )
    found: dict[str, list[str]] = defaultdict(list)
    for row in (await connection.execute(query.order_by(_c.id))).all():
        found[row.container_uuid].append(row.kind)
    return found
