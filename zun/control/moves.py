"""Moves of containers, the control plane's part: begun, given a target, or given up. The rest is the nodes'
(``zun.compute.operations.evacuate``).

Run by the decider of an API process, and by ``zun-manage node drain``. Whoever dies in between leaves the record, and
the next one goes on with it.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.control.container_placing import place as choose
from zun.domain.container import Container
from zun.domain.errors import Unavailable, ZunError
from zun.domain.lifecycle import Task
from zun.domain.moving import LIVE, NOWHERE, Move, is_surely_lost
from zun.domain.operation import Operation
from zun.domain.resources import Amounts
from zun.domain.service import COMPUTE
from zun.scheduler.scheduler import NoValidHost, Selection, Tools
from zun.store import candidates, containers, operations, services
from zun.store import moves as store

LOG = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)
"""For choosing a target."""
AGAIN = timedelta(seconds=30)
"""Pause before another look for a target."""
BACK = "the host is there again"


@dataclass(frozen=True, slots=True)
class Placed:
    """What came of a look for a target: ``host`` goes on with the move; None: ``reason`` says why not."""

    host: str | None = None
    reason: str = ""


class _Passed(Exception):
    """The move is no longer what was read."""


async def begin(tools: Tools, row: Container, *, drain: bool) -> int | None:
    """Write down that the container moves; the operation. None when the row is no longer as read, or its host, which
    was lost, is there again."""
    source = str(row.host)
    engine_id = None if drain else row.container_id
    move = Move(source, run=row.status in LIVE, status=row.status, drain=drain, engine_id=engine_id)

    async def write(connection: AsyncConnection) -> int | None:
        now = tools.clock.now()
        if not drain and not await _is_still_lost(connection, tools, source, now):
            return None
        deadline = now + timedelta(seconds=tools.conf.compute.create_deadline)
        return await store.begin(connection, row, move, f"req-{uuid4()}", now, deadline)

    begun = await tools.db.run(write)
    if begun is not None:
        LOG.warning("action=evacuate container=%s host=%s drain=%s result=begun", row.uuid, source, drain)
    return begun


async def place(tools: Tools, operation_id: int, owner: str) -> Placed | None:
    """Give a move its target; None when another has it, or it is not due. A move from a living host that finds no
    target is given up; one from a lost host waits."""
    async with tools.db.write() as connection:
        now = tools.clock.now()
        operation = await operations.claim(connection, operation_id, worker=owner, host=NOWHERE, now=now, lease=LEASE)
        row = await containers.get(connection, operation.container_uuid) if operation else None
    if operation is None:
        return None
    move = Move.of(operation.params)
    if row is None or row.host != move.source or row.task_state != Task.EVACUATING:
        return Placed(reason=await give_up(tools, operation, "the container is no longer there to be moved"))
    try:
        selection = await choose(tools, row, leaves=move.source, avoids=move.failed)
    except NoValidHost as error:
        if move.drain:
            return Placed(reason=await give_up(tools, operation, error.message))
        return await _wait(tools, operation, owner, error.message)
    except Unavailable as error:
        return await _wait(tools, operation, owner, error.message)
    return await _hand_over(tools, operation, owner, selection)


async def _hand_over(tools: Tools, operation: Operation, owner: str, selection: Selection) -> Placed:
    """To the host that is left, where it is alive; else the container is the target's at once."""
    move = dataclasses.replace(Move.of(operation.params), target=selection.host)
    next_host = move.source if move.drain else selection.host

    async def write(connection: AsyncConnection) -> None:
        now = tools.clock.now()
        if not move.drain and not await _is_still_lost(connection, tools, move.source, now):
            raise _Passed
        await containers.lock(connection, operation.container_uuid)
        if not await store.hand_over(connection, operation, owner, next_host, move):
            raise _Passed
        await operations.add_event(connection, operation.id, "schedule", started=now, finished=now, error=None)
        if not move.drain and not await store.switch(connection, operation.container_uuid, move, now):
            raise _Passed

    try:
        await tools.db.run(write)
    except _Passed:
        return Placed(reason=await give_up(tools, operation, BACK))
    LOG.warning(
        "action=evacuate container=%s from=%s to=%s result=placed",
        operation.container_uuid,
        move.source,
        selection.host,
    )
    return Placed(next_host)


async def _is_still_lost(connection: AsyncConnection, tools: Tools, host: str, now: datetime) -> bool:
    """The host's agent registers before this transaction, and is seen, or after it, and sees what it did."""
    await store.lock_service(connection, host, COMPUTE)
    service = await services.get(connection, host, COMPUTE)
    return service is not None and is_surely_lost(service, now, tools.conf.compute.evacuate_after)


async def _wait(tools: Tools, operation: Operation, owner: str, reason: str) -> Placed:
    async with tools.db.write() as connection:
        now = tools.clock.now()
        if operation.attempt == 1:
            await operations.add_event(connection, operation.id, "schedule", started=now, finished=now, error=reason)
        await operations.postpone(connection, operation.id, worker=owner, until=now + AGAIN)
    LOG.warning("action=evacuate container=%s result=waiting reason=%s", operation.container_uuid, reason)
    return Placed(reason=reason)


async def take_from(tools: Tools, operation: Operation, row: Container) -> bool:
    """A move on a host that was lost itself waits for another target; False when it does no longer."""
    source = operation.host
    move = dataclasses.replace(
        Move.of(operation.params), source=source, drain=False, target=None, let_go=False, engine_id=None
    )

    async def write(connection: AsyncConnection) -> bool:
        now = tools.clock.now()
        if not await _is_still_lost(connection, tools, source, now):
            return False
        await containers.lock(connection, row.uuid)
        found = await containers.get(connection, row.uuid)
        if found is None or found.host != source:
            return False
        return await store.take_from(connection, operation, move, now)

    return await tools.db.run(write)


async def give_up(tools: Tools, operation: Operation, reason: str) -> str:
    """The container stays where it is, and its claim is there again; ``reason``. Where it has moved on or is gone,
    what was claimed for it follows that."""

    async def write(connection: AsyncConnection) -> bool:
        now = tools.clock.now()
        deadline = now + timedelta(seconds=tools.conf.compute.create_deadline)
        return await store.give_up(connection, operation, reason, now, deadline)

    if await tools.db.run(write):
        LOG.warning("action=evacuate container=%s result=given up reason=%s", operation.container_uuid, reason)
    await restore_claim(tools, operation.container_uuid)
    return reason


async def restore_claim(tools: Tools, uuid: str) -> None:
    """The container's allocation is on the host that it is on; what cannot be done now, the audit finds."""
    async with tools.db.read() as connection:
        row = await containers.get(connection, uuid)
        provider = await candidates.provider(connection, row.host) if row is not None and row.host else None
    try:
        if row is None:
            await tools.placement.release(uuid)
        elif provider is not None:
            wanted = Amounts(row.cpu, row.memory, row.disk).placement(fractional=tools.conf.compute.fractional_cpu)
            await tools.placement.claim(uuid, provider[0], wanted, project_id=row.project_id, user_id=row.user_id)
    except ZunError as error:
        LOG.warning("action=evacuate container=%s result=claim not restored reason=%s", uuid, error.message)
