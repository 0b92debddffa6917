"""Create, delete, release and make anew a capsule on this node (scenario 2); safe to run again from the beginning."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.compute import observe
from zun.compute.capsules import inits, members
from zun.compute.capsules.holdings import STAGES, Sandbox, engine_of
from zun.compute.capsules.plan import decide
from zun.compute.holdings import ensure_all, release_all
from zun.compute.operations import common
from zun.compute.work import Outcome, Work
from zun.domain.container import Type
from zun.domain.errors import EngineNotFound, ZunError
from zun.domain.lifecycle import Status
from zun.store import capsules, containers

NOT_RUN = "The capsule could not be run."
NEVER_STARTED = frozenset({Status.CREATING, Status.REBUILDING})


async def create(work: Work) -> Outcome:
    """Images, volumes and ports side by side, the sandbox, init containers one after the other, then the others."""
    await ensure_all(work, STAGES)
    await inits.run_all(work)
    return await _up(work, await members.start_all(work))


async def _up(work: Work, seen: dict[str, Any]) -> Outcome:
    """What the engine says of the capsule now that all was started (S2.15)."""
    node, prepared = work.node, work.prepared
    plan = decide(work.row, work.members, prepared.sandbox, seen, engine=engine_of(node).name, now=node.clock.now())
    values: dict[str, Any] = {
        "status": work.row.status,
        "status_reason": None,
        **plan.capsule,
        "container_id": prepared.sandbox.sandbox_id if prepared.sandbox else None,
        "addresses": observe.addresses_of(list(prepared.attachments)),
        "started_at": node.clock.now(),
    }
    if prepared.security_groups is not None:
        values["security_groups"] = list(prepared.security_groups)

    async def record(connection: AsyncConnection) -> None:
        for row in work.members:
            changed = plan.members.get(row.uuid, {})
            if row.container_type == Type.MEMBER:
                changed = {**changed, "engine_image": prepared.images[row.uuid].image_id}
            if changed:
                await containers.update(connection, row.uuid, {"host": (node.host,)}, changed, node.clock.now())

    node.unseen.add(work.uuid)  # looked at at once: a member may have ended by now, or wait to be started again
    return Outcome(values, record=record)


async def rebuild(work: Work) -> Outcome:
    """Healing: a new sandbox, and everything in it from the beginning. Ports and volumes stay."""
    fresh = {"restarts": 0, "back_off": 0, "restart_at": None, "exit_code": None, "container_id": None}
    if work.operation.attempt == 1:
        for row in work.members:
            members.updated(work, row.uuid, fresh)
        async with work.node.db.write() as connection:
            await capsules.update_members(connection, work.uuid, fresh, work.node.clock.now())
        async with work.journal.step("release_sandbox"):
            await Sandbox().release(work)
    return await create(work)


async def fail_rebuild(work: Work, error: Exception) -> Outcome:
    """It holds what it held, but for the sandbox: a delete gives that back."""
    reason = common.reason_of(error)
    async with work.journal.step("release_sandbox"):
        await Sandbox().release(work)
    record = partial(_note_members, work=work, reason=NOT_RUN, values={})
    return Outcome({"status": Status.ERROR, "status_reason": reason}, error=reason, record=record)


async def fail_create(work: Work, error: Exception) -> Outcome:
    """Nothing taken stays taken; the members say which of them it was."""
    outcome = await common.undo(work, error, STAGES)
    values: dict[str, Any] = {"container_id": None, "started_at": None, "restart_at": None}
    if "host" in outcome.values:
        values["host"] = None
    outcome.record = partial(_note_members, work=work, reason=NOT_RUN, values=values)
    return outcome


async def _note_members(connection: AsyncConnection, *, work: Work, reason: str, values: dict[str, Any]) -> None:
    """Init containers that ended keep their end; all others did not come to anything."""
    now = work.node.clock.now()
    for row in await capsules.members(connection, work.uuid):
        ended = row.container_type == Type.INIT and row.exit_code is not None
        told = {} if ended else {"status": Status.ERROR, "status_reason": reason, "status_detail": None}
        if ended and row.status not in (Status.STOPPED, Status.ERROR):
            told = {"status": Status.STOPPED}
        if values or told:
            await containers.update(connection, row.uuid, {"host": (work.node.host,)}, {**values, **told}, now)


async def delete(work: Work) -> Outcome:
    """Members that run are stopped with grace, side by side; then everything is given back and the rows go."""
    before = work.params.get("status_before")
    if work.node.pods is not None and before not in NEVER_STARTED and not work.params.get("force"):
        async with work.journal.step("stop"):
            await _stop_members(work)
    await release_all(work, STAGES)
    return Outcome(remove_row=True)


async def _stop_members(work: Work) -> None:
    pods = engine_of(work.node)

    async def stop(uuid: str) -> None:
        with contextlib.suppress(EngineNotFound):  # gone already: nothing to stop
            await pods.stop(uuid, members.GRACE)

    running = [row.uuid for row in work.members if row.status == Status.RUNNING]
    for result in await asyncio.gather(*(stop(uuid) for uuid in running), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


async def fail_delete(work: Work, error: Exception) -> Outcome:
    """Refused: the row stays, ``Error`` with the reason; without its sandbox when that has gone already: nothing makes
    anew what was to go."""
    reason = common.reason_of(error)
    values: dict[str, Any] = {"status": Status.ERROR, "status_reason": reason}
    with contextlib.suppress(ZunError):  # the engine does not tell: as before
        if await engine_of(work.node).sandbox(work.uuid) is None:
            values["container_id"] = None
    return Outcome(values, error=reason)


async def release(work: Work) -> Outcome:
    """Give back what an ended operation left; the rows stay. Tried until it is done."""
    await release_all(work, STAGES)
    if work.container is None:
        return Outcome()

    async def record(connection: AsyncConnection) -> None:
        gone = {"container_id": None, "restart_at": None}
        await capsules.update_members(connection, work.uuid, gone, work.node.clock.now())

    return Outcome({"container_id": None, "addresses": {}}, record=record)


async def fail_release(work: Work, error: Exception) -> Outcome:
    """Not reached by the worker, which gives a release back to be tried again, whatever the fault."""
    return Outcome(error=common.reason_of(error))
