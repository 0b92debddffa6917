"""How an operation ends: record, row, events and follow-up in one guarded transaction."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.compute import telling
from zun.compute.operations.common import reason_of
from zun.compute.work import Outcome, Work
from zun.domain.errors import Unavailable
from zun.domain.lifecycle import Status, Task
from zun.domain.moving import Move
from zun.domain.operation import Kind
from zun.store import capsules, containers, follow_ups, moves, operations, volume_mappings

LOG = logging.getLogger(__name__)

_SHOWN = ("status", "status_reason", "status_detail")
"""Columns that a later, still unfinished operation of the same container has announced itself."""


class Superseded(Exception):
    """Somebody else ended the operation meanwhile; nothing of this attempt is written."""


async def write(work: Work, outcome: Outcome) -> None:
    """End the operation, and tell of it. Writes nothing if it was ended elsewhere (reaper, forced delete)."""
    if outcome.hand_over is not None:
        await _hand_over(work, outcome.hand_over)
        return
    node, now = work.node, work.node.clock.now()

    async def end(connection: AsyncConnection) -> None:
        await containers.lock(connection, work.uuid)
        mine = await operations.finish(
            connection,
            work.operation.id,
            worker=node.instance,
            now=now,
            error=outcome.error is not None,
            has_steps=work.journal.has_unknown or work.operation.attempt > 1,
        )
        if not mine:
            raise Superseded
        await work.journal.write(connection)
        if outcome.remove_row:
            await remove_row(connection, work)
        elif work.container is not None and work.operation.kind != Kind.COMMIT:  # announces nothing in the row
            await _update_row(connection, work, outcome)
        if outcome.record is not None:
            await outcome.record(connection)
        if outcome.follow_up:
            await _follow_up(connection, work, outcome)

    if await _written(work, end):
        telling.ended(work, outcome)


async def _hand_over(work: Work, move: Move) -> None:
    """The container is the target's, and so is the operation, in one transaction; or this host was the target and could
    not make it: then both are as they were before it was chosen."""
    target, worker = move.target, work.node.instance

    async def pass_on(connection: AsyncConnection) -> None:
        now = work.node.clock.now()
        await containers.lock(connection, work.uuid)
        if target is None:
            handed = await moves.hand_back(connection, work.operation, worker, move, now)
        else:
            handed = await moves.hand_over(connection, work.operation, worker, target, move)
        if not handed:
            raise Superseded
        await work.journal.write(connection)
        if target is None:
            return
        if not await moves.switch(connection, work.uuid, move, now):
            raise Superseded

    if await _written(work, pass_on) and target is not None:
        await work.node.bus.ring(target)


async def _written(work: Work, transaction: Callable[[AsyncConnection], Awaitable[None]]) -> bool:
    """Carried out, however long the database is away; False when somebody else ended the operation meanwhile."""
    node, wait, done = work.node, 0.5, False
    while True:
        try:
            await node.db.run(transaction)
            done = True
            break
        except Superseded:  # or a commit that was carried out though its answer never came
            break
        except Unavailable as error:  # what was done is done: it is written as soon as the database answers
            LOG.warning(
                "action=%s container=%s result=unwritten reason=%s", work.operation.kind, work.uuid, error.message
            )
            await node.clock.sleep(wait)
            wait = min(wait * 2, 10.0)
    work.journal.written()
    node.usage_changed()
    return done


async def remove_row(connection: AsyncConnection, work: Work) -> None:
    """Remove the container's row and what belongs to it, and give its quota back (S3.12)."""
    if work.elsewhere:
        return
    await volume_mappings.delete_of_container(connection, work.uuid)
    if work.container is None:
        return
    await capsules.remove(connection, work.uuid, {})


async def _update_row(connection: AsyncConnection, work: Work, outcome: Outcome) -> None:
    values: dict[str, Any] = dict(outcome.values)
    later = [
        other for other in await operations.unfinished_of_container(connection, work.uuid) if other.kind != Kind.RELEASE
    ]
    if later:
        for name in _SHOWN:
            values.pop(name, None)
    else:
        values["task_state"] = None
    if outcome.follow_up == Kind.DELETE and not later:
        values["status"], values["task_state"] = Status.DELETED, Task.DELETING
    await containers.update(connection, work.uuid, {"host": (work.node.host,)}, values, work.node.clock.now())


async def _follow_up(connection: AsyncConnection, work: Work, outcome: Outcome) -> None:
    node = work.node
    now = node.clock.now()
    deadline = now + timedelta(seconds=node.conf.compute.operation_deadline)
    kind, params = str(outcome.follow_up), outcome.follow_up_params
    await follow_ups.insert(connection, work.operation, kind, host=node.host, params=params, now=now, deadline=deadline)


async def leave_tombstone(work: Work, error: Exception, back_off: timedelta) -> None:
    """A forced delete the engine refuses: the row goes now, the operation stays and is tried until the engine,
    answering, has nothing of it any more. Ports and allocation are given back only then."""
    node = work.node

    async def leave(connection: AsyncConnection) -> bool:
        await containers.lock(connection, work.uuid)
        await work.journal.write(connection)
        postponed = await operations.postpone(
            connection, work.operation.id, worker=node.instance, until=node.clock.now() + back_off
        )
        if not postponed or work.container is None:
            return False
        return await capsules.remove(connection, work.uuid, {"host": (node.host,)})

    if await node.db.run(leave):
        telling.forsaken(work)
    work.journal.written()
    LOG.warning("action=delete container=%s result=tombstone reason=%s", work.uuid, reason_of(error))
