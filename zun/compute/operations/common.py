"""What several operations share: bring a container up, read it back, and undo what was taken."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

from zun.compute import observe
from zun.compute.holdings import STAGES, ensure_all, first_fault, release_all
from zun.compute.holdings.base import Holding
from zun.compute.holdings.volumes import VolumeMounts
from zun.compute.work import Outcome, Work
from zun.domain.container import Type
from zun.domain.errors import (
    DiskQuotaUnsupported,
    EngineError,
    EngineNotFound,
    EngineUnreachable,
    NodeError,
    StartFailed,
    ZunError,
)
from zun.domain.lifecycle import Status
from zun.domain.operation import CAPSULE, Kind

LOG = logging.getLogger(__name__)


def reason_of(error: BaseException) -> str:
    """The text people read in ``status_reason``."""
    if isinstance(error, ZunError) and error.message:
        return error.message
    return f"The node failed unexpectedly: {type(error).__name__}. Its log says more."


async def bring_up(work: Work, *, start: bool) -> Outcome:
    """``ensure`` of all holdings, start if wanted, and what the engine then says (S1.16–S1.23)."""
    if work.row.disk and not work.node.disk_quota_supported:
        raise DiskQuotaUnsupported
    await ensure_all(work)
    if start:
        await start_engine(work)
    outcome = await read_back(work)
    prepared = work.prepared
    outcome.values["addresses"] = observe.addresses_of(list(prepared.attachments))
    if prepared.security_groups is not None:
        outcome.values["security_groups"] = list(prepared.security_groups)
    if prepared.image is not None:
        outcome.values["engine_image"] = prepared.image.image_id
    return outcome


async def mounts_stand(work: Work) -> bool:
    """Does the container find its volumes where its engine looks for them?"""
    return await VolumeMounts().stands(work)


async def ensure_mounts(work: Work) -> None:
    """Before the engine starts what it has: the mounts are there again."""
    async with work.journal.step(VolumeMounts.name) as progress:
        try:
            await VolumeMounts().ensure(work, progress)
        except ExceptionGroup as faults:
            raise first_fault(faults) from faults


async def start_engine(work: Work) -> None:
    """Start; a refusal is told as the engine's own words."""
    async with work.journal.step("start"):
        try:
            await work.node.runtime.start(work.uuid)
        except (EngineUnreachable, StartFailed, EngineNotFound):
            raise
        except EngineError as error:
            raise StartFailed(error.text) from error
        await work.node.connected(work.uuid)


async def read_back(work: Work) -> Outcome:
    """Status from the engine, never from "I sent a command" (rule 4); what was made and not started is Created."""
    observed = await work.node.runtime.inspect(work.uuid)
    if observed is None:
        raise EngineNotFound(f"No such container: {work.row.container_id or work.uuid}")
    values: dict[str, Any] = {"status_reason": None} | observe.values_of(
        observed, dataclasses.replace(work.row, status=Status.CREATING)
    )
    if values["status"] == Status.STOPPED and work.uuid in work.node.fenced and _starts(work):
        values["status"] = Status.RUNNING  # it ran until the node was cut off, and is started when that is over
    outcome = Outcome(values)
    if work.params.get("run", True) and (follow_up := observe.ends_by_itself(work.row, values["status"])):
        outcome.follow_up = follow_up
        outcome.follow_up_params = {"force": True}
    return outcome


def _starts(work: Work) -> bool:
    return work.operation.kind in (Kind.START, Kind.REBOOT) or bool(work.params.get("run"))


async def undo(work: Work, error: Exception, stages: Sequence[Sequence[Holding]] = STAGES) -> Outcome:
    """Give back everything and say why: ``Error`` holds nothing (S1.27–S1.29).

    What cannot be given back now is left to a ``release`` operation, which is tried until it is done; the host is
    kept then, since something of it may still be there.
    """
    values: dict[str, Any] = {
        "status": Status.ERROR,
        "status_reason": reason_of(error),
        "status_detail": None,
        "container_id": None,
        "addresses": {},
        "started_at": None,
    }
    outcome = Outcome(values, error=reason_of(error))
    try:
        await release_all(work, stages)
    except Exception as fault:
        LOG.warning("action=undo container=%s result=postponed reason=%s", work.uuid, reason_of(fault))
        outcome.follow_up = Kind.RELEASE
        outcome.follow_up_params = {CAPSULE: True} if work.row.container_type == Type.CAPSULE else {}
    else:
        if isinstance(error, NodeError) and not error.keeps_host:
            values["host"] = None
    return outcome
