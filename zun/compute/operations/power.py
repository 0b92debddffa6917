"""Start, stop, reboot, pause, unpause, kill: each asks the engine, then reads what became of it."""

from __future__ import annotations

from zun.compute.operations import common
from zun.compute.work import Outcome, Work
from zun.domain.errors import EngineNotFound, NodeError, Unavailable, VolumeAttachFailed
from zun.domain.lifecycle import Status
from zun.domain.operation import Kind

KILL_SETTLES = 2.0
"""Seconds to wait for a signalled process to end before its state is read."""


NO_VOLUMES = "Internal error on recovering container volume"
"""Clients and operators know this text; the action has the reason."""
NOT_REMOUNTED = (VolumeAttachFailed, Unavailable)


async def start(work: Work) -> Outcome:
    """Start; a container whose create had failed is made first, with all it holds."""
    if work.row.container_id is None or await work.node.runtime.inspect(work.uuid) is None:
        return await common.bring_up(work, start=True)
    if not await common.mounts_stand(work):
        return await _remounted(work)
    await common.start_engine(work)
    return await common.read_back(work)


async def _remounted(work: Work) -> Outcome:
    """Stopped where its engine started it without its volumes, and started with them."""
    async with work.journal.step("stop"):
        await work.node.runtime.stop(work.uuid, work.params.get("timeout"))
    await common.ensure_mounts(work)
    await common.start_engine(work)
    return await common.read_back(work)


async def stop(work: Work) -> Outcome:
    async with work.journal.step("stop"):
        await work.node.runtime.stop(work.uuid, work.params.get("timeout"))
    return await common.read_back(work)


async def reboot(work: Work) -> Outcome:
    if work.row.container_id is None or await work.node.runtime.inspect(work.uuid) is None:
        return await common.bring_up(work, start=True)
    if not await common.mounts_stand(work):
        return await _remounted(work)
    async with work.journal.step("reboot"):
        await work.node.runtime.reboot(work.uuid, work.params.get("timeout"))
        await work.node.connected(work.uuid)
    return await common.read_back(work)


async def pause(work: Work) -> Outcome:
    async with work.journal.step("pause"):
        await work.node.runtime.pause(work.uuid)
    return await common.read_back(work)


async def unpause(work: Work) -> Outcome:
    async with work.journal.step("unpause"):
        await work.node.runtime.unpause(work.uuid)
    return await common.read_back(work)


async def kill(work: Work) -> Outcome:
    """Send the signal; a process that ends on it is given a moment to do so before its state is read."""
    clock = work.node.clock
    async with work.journal.step("kill"):
        if work.operation.attempt <= 1:
            await work.node.runtime.kill(work.uuid, work.params.get("signal"))
        end, pause_seconds = clock.monotonic() + KILL_SETTLES, 0.02
        while clock.monotonic() < end:
            observed = await work.node.runtime.inspect(work.uuid)
            if observed is None or observed.state != "running":
                break
            await clock.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, 0.3)
    return await common.read_back(work)


async def fail(work: Work, error: Exception) -> Outcome:
    """The status is what the engine says; the action is noted as failed. A vanished container is ``Error``; what had
    been made only for this operation is given back."""
    if work.row.container_id is None:
        return await _undone(work, error)
    if work.params.get("remount") and isinstance(error, NOT_REMOUNTED):
        return Outcome({"status": Status.ERROR, "status_reason": NO_VOLUMES}, error=common.reason_of(error))
    if isinstance(error, EngineNotFound):
        return _lost(work, error)
    observed = await work.node.runtime.inspect(work.uuid)
    if observed is None:
        return _lost(work, error)
    outcome = await common.read_back(work)
    outcome.values["status_reason"] = common.reason_of(error)
    outcome.error = common.reason_of(error)
    return outcome


async def fail_start(work: Work, error: Exception) -> Outcome:
    """A refused start is ``Error`` with the engine's words; what had been made only for it is given back."""
    if work.row.container_id is None:
        return await _undone(work, error)
    if isinstance(error, NodeError) and await work.node.runtime.inspect(work.uuid) is not None:
        outcome = await common.read_back(work)
        outcome.values |= {"status": Status.ERROR, "status_reason": common.reason_of(error)}
        outcome.follow_up = None
        outcome.error = common.reason_of(error)
        return outcome
    return _lost(work, error)


async def _undone(work: Work, error: Exception) -> Outcome:
    outcome = await common.undo(work, error)
    outcome.values.pop("host", None)
    return outcome


def _lost(work: Work, error: Exception) -> Outcome:
    gone = f"No such container: {work.row.container_id} in {work.node.runtime.name}"
    reason = gone if isinstance(error, EngineNotFound) and work.row.container_id else common.reason_of(error)
    status = Status.ERROR
    if isinstance(error, EngineNotFound) and work.row.auto_heal:  # healed at once, into the state that was asked for
        status = Status.STOPPED if work.operation.kind in (Kind.STOP, Kind.KILL) else Status.UNKNOWN
        work.node.unseen.add(work.uuid)
    return Outcome({"status": status, "status_reason": reason, "status_detail": None}, error=reason)
