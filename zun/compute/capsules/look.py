"""One look at one capsule: its engine's facts into its rows, and what follows from them (S5.5–S5.10)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.compute.capsules import facts, members
from zun.compute.capsules.holdings import engine_of
from zun.compute.capsules.plan import Plan, decide
from zun.compute.holdings import first_fault
from zun.compute.node import Node
from zun.compute.refresh import TRIES, announce
from zun.domain.container import Container, Type
from zun.domain.errors import EngineNotFound, EngineUnreachable, ZunError
from zun.domain.lifecycle import Status, Task
from zun.domain.observed import Observed
from zun.domain.operation import CAPSULE, Kind
from zun.runtime.pods import Sandbox
from zun.store import capsules, containers

LOG = logging.getLogger(__name__)

SOON = timedelta(seconds=2)


class _Moved(Exception):
    """A row changed between the look and the write."""


async def look(node: Node, uuid: str) -> datetime | None:
    """Bring the rows in line with the engine, and start what is due; when the next member is (None: none is waiting).

    Leaves capsules alone that an operation works on (``node.unseen`` keeps them for its end), that are not this
    host's, or that were never made. Rows that somebody changed meanwhile are looked at again.
    """
    for _ in range(TRIES):
        node.unseen.add(uuid)  # before the row is read: an operation that ends from now on finds it
        async with node.db.read() as connection:
            capsule = await containers.get(connection, uuid)
            inside = await capsules.members(connection, uuid) if capsule is not None else ()
        if capsule is not None and capsule.host == node.host and capsule.task_state is not None:
            return None
        node.unseen.discard(uuid)
        if not _is_made_here(node, capsule) or capsule is None:
            return None
        try:
            return await _look(node, capsule, inside)
        except _Moved:
            continue
    LOG.warning("action=observe capsule=%s result=postponed reason=the rows never stood still", uuid)
    return None


def _is_made_here(node: Node, capsule: Container | None) -> bool:
    return (
        capsule is not None
        and capsule.container_type == Type.CAPSULE
        and capsule.host == node.host
        and capsule.container_id is not None
    )


async def _look(node: Node, capsule: Container, inside: Sequence[Container]) -> datetime | None:
    sandbox, seen = await _facts(node, capsule, inside)
    if sandbox is not None and sandbox.owner != node.owner:
        LOG.error("action=observe capsule=%s result=foreign owner=%s", capsule.uuid, sandbox.owner)
        return None
    plan = decide(capsule, inside, sandbox, seen, engine=engine_of(node).name, now=node.clock.now())
    if plan.heal:
        await _heal(node, capsule)
        return None
    await _write(node, capsule, inside, plan)
    if plan.adrift:
        await asyncio.gather(*(members.stop_adrift(node, one) for one in plan.adrift))
        return node.clock.now() + SOON
    if plan.due:
        return await _start_due(node, capsule, plan)
    return plan.next_at


async def _facts(
    node: Node, capsule: Container, inside: Sequence[Container]
) -> tuple[Sandbox | None, Mapping[str, Observed | None]]:
    """Asked side by side; any answer that fails is no answer at all. Raises EngineUnreachable."""
    pods = engine_of(node)
    regular = [row.uuid for row in inside if row.container_type == Type.MEMBER]
    try:
        async with asyncio.TaskGroup() as group:
            box = group.create_task(pods.sandbox(capsule.uuid))
            looks = {uuid: group.create_task(pods.inspect(uuid)) for uuid in regular}
    except ExceptionGroup as faults:
        raise first_fault(faults) from faults
    found = {uuid: look.result() for uuid, look in looks.items()}
    return box.result(), {uuid: one if one and one.owner == node.owner else None for uuid, one in found.items()}


async def _write(node: Node, capsule: Container, inside: Sequence[Container], plan: Plan) -> None:
    """All of it, if no row has changed since it was read. Raises _Moved."""
    if not plan.capsule and not plan.members:
        return
    now = node.clock.now()

    async def write(connection: AsyncConnection) -> None:
        await containers.lock(connection, capsule.uuid)
        present = await containers.get(connection, capsule.uuid)
        if present is None or present.generation != capsule.generation or present.task_state is not None:
            raise _Moved
        if plan.capsule:
            await containers.update(connection, capsule.uuid, {"generation": capsule.generation}, plan.capsule, now)
        for row in inside:
            values = plan.members.get(row.uuid)
            expect = {"generation": row.generation}
            if values and not await containers.update(connection, row.uuid, expect, values, now):
                raise _Moved

    await node.db.run(write)
    for uuid, values in plan.members.items():
        LOG.info("action=observe capsule=%s member=%s status=%s", capsule.uuid, uuid, values.get("status", "as before"))


async def _heal(node: Node, capsule: Container) -> None:
    """The sandbox is gone, and its policy is to run always: made anew by an operation like any other (S5.8)."""
    LOG.warning("action=heal capsule=%s sandbox=%s", capsule.uuid, capsule.container_id)
    params = {"healing": True, CAPSULE: True}
    if not await announce(node, capsule, Kind.REBUILD, params, {"status": Status.REBUILDING}, Task.REBUILDING):
        raise _Moved


async def _start_due(node: Node, capsule: Container, plan: Plan) -> datetime | None:
    """Those whose time has come, side by side; when the next one is due."""
    async with node.db.read() as connection:
        inside = {row.uuid: row for row in await capsules.members(connection, capsule.uuid)}
    rows = [inside[uuid] for uuid in plan.due if uuid in inside]
    times = await asyncio.gather(*(_start(node, capsule, row) for row in rows))
    return min((at for at in [*times, plan.next_at] if at is not None), default=None)


async def _start(node: Node, capsule: Container, row: Container) -> datetime | None:
    """One member, and its row; None when it runs, or when what follows is found by the next look."""
    try:
        values = await members.start_again(node, capsule, row)
    except EngineUnreachable:
        raise
    except EngineNotFound:
        return node.clock.now() + SOON  # the sandbox went away just now: look again
    except ZunError as error:
        again = facts.again(row, exit_code=None, ran=0.0, now=node.clock.now()) or {"restart_at": None}
        told = f"{error.message} {again.get('status_reason', '')}".strip()
        values = {"status": Status.STOPPED if again["restart_at"] else Status.ERROR, **again, "status_reason": told}
    LOG.info("action=start capsule=%s member=%s attempt=%s", capsule.uuid, row.uuid, row.restarts)
    async with node.db.write() as connection:
        await containers.update(connection, row.uuid, {"generation": row.generation}, values, node.clock.now())
    restart_at: datetime | None = values.get("restart_at")
    return restart_at
