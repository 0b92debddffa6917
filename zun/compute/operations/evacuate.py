"""Move a container to another host: what the host does that is left, where it is alive, and what the target does.

Of a lost host nothing is asked: what it still has goes when it returns (``zun.compute.homecoming``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging

from zun.compute.holdings import engine, volumes
from zun.compute.holdings.allocation import claim_here
from zun.compute.operations import common
from zun.compute.work import Outcome, Work
from zun.domain.errors import EngineNotFound, ZunError
from zun.domain.moving import TARGETS, Move, elsewhere
from zun.domain.operation import Kind
from zun.domain.service import COMPUTE, is_up
from zun.store import operations, services

LOG = logging.getLogger(__name__)

STOP_SECONDS = 10
"""Grace of the stop on a host that is left alive."""


async def run(work: Work) -> Outcome:
    """This host's part; safe to run again from its beginning."""
    move = Move.of(work.params)
    if work.node.host == move.source:
        return await _leave(work, move)
    return await _arrive(work, move)


async def _leave(work: Work, move: Move) -> Outcome:
    """Stopped, and nothing of it is here any more but its record, which goes with it."""
    async with work.journal.step("stop"):
        with contextlib.suppress(EngineNotFound):
            await work.node.runtime.stop(work.uuid, STOP_SECONDS)
    await _clear(work)
    return Outcome(hand_over=move)


async def _clear(work: Work) -> None:
    async with work.journal.step("release_engine"), work.node.network.leaving(work.uuid):
        await engine.Engine().release(work)
    async with work.journal.step("release_volumes"):
        await volumes.VolumeMounts().release(work)


async def _arrive(work: Work, move: Move) -> Outcome:
    """Volumes taken from a host that is lost; then all holdings, as in a create: ports are found and bound to this
    host."""
    if not move.drain and not move.let_go:
        async with work.journal.step("detach"):
            await _let_go(work)
            await _note(work, dataclasses.replace(move, let_go=True))
    return await common.bring_up(work, start=move.run)


async def _let_go(work: Work) -> None:
    """Once only: from now on what is attached is attached here."""
    for mapping in work.mappings:
        if mapping.kind == "volume":
            await volumes.driver_of(work.node, mapping).let_go(mapping)


async def _note(work: Work, move: Move) -> None:
    async with work.node.db.write() as connection:
        await operations.set_params(connection, work.operation.id, move.params())


async def fail(work: Work, error: Exception) -> Outcome:
    """What could not leave stays and is started again. What could not be made on the target goes to another one, if
    there is any and not too many were tried; else it is ``Error``, and may be rebuilt there."""
    move = Move.of(work.params)
    if work.node.host == move.source:
        return await _stay(work, move, error)
    if len(move.failed) + 1 < TARGETS and await _others(work, move) and await _given_back(work):
        LOG.warning("action=evacuate container=%s result=elsewhere reason=%s", work.uuid, common.reason_of(error))
        return Outcome(hand_over=elsewhere(move, work.node.host))
    outcome = await common.undo(work, error)
    outcome.values.pop("host", None)
    if move.failed:
        outcome.values["status_reason"] = f"Tried on {len(move.failed) + 1} hosts: {outcome.error}"
    return outcome


async def _others(work: Work, move: Move) -> bool:
    """Is there a host that could be asked, and was not yet?"""
    node = work.node
    async with node.db.read() as connection:
        agents = await services.list_all(connection, COMPUTE)
    asked = {move.source, node.host, *move.failed}
    return any(
        agent["host"] not in asked
        and not agent["disabled"]
        and is_up(agent, node.clock.now(), node.conf.service_down_time)
        for agent in agents
    )


async def _given_back(work: Work) -> bool:
    """Nothing of it is on this host any more; ports, and the claim until another is made, stay the container's. False
    when it cannot be told."""
    try:
        await _clear(work)
    except ZunError as fault:
        LOG.warning("action=evacuate container=%s result=not given back reason=%s", work.uuid, fault.message)
        return False
    return True


async def _stay(work: Work, move: Move, error: Exception) -> Outcome:
    reason = common.reason_of(error)
    if not await claim_here(work.node, work.row):
        LOG.warning("action=evacuate container=%s result=claim not restored", work.uuid)
    observed = await work.node.runtime.inspect(work.uuid)
    values = {"status": move.status, "status_reason": f"It could not leave the host: {reason}"}
    outcome = Outcome(values, error=reason)
    if move.run:
        outcome.follow_up = Kind.START
    elif observed is None:
        outcome.follow_up, outcome.follow_up_params = Kind.REBUILD, {"run": False}
    return outcome
