"""Rebuild: the same container, made anew, with another image if asked; also how healing works (S5.8)."""

from __future__ import annotations

import dataclasses

from zun.compute.holdings import engine
from zun.compute.holdings import image as image_holding
from zun.compute.operations import common
from zun.compute.work import Outcome, Work
from zun.domain.lifecycle import Status


async def run(work: Work) -> Outcome:
    """The new image is fetched before the old container goes; volumes and ports stay. Started if ``run`` says so."""
    await _forget_old_image_defaults(work)
    holding = image_holding.Image()
    async with work.journal.step("fetch_image") as progress:
        await holding.ensure(work, progress)
    async with work.journal.step("release_engine"):
        await engine.Engine().release(work)
    outcome = await common.bring_up(work, start=bool(work.params.get("run")))
    if work.params.get("image"):
        outcome.values["image"] = work.params["image"]
        outcome.values["image_driver"] = work.params.get("image_driver") or work.row.image_driver
        outcome.values["image_uuid"] = work.params.get("image_uuid")
    return outcome


async def _forget_old_image_defaults(work: Work) -> None:
    """Command and entrypoint that came from the old image must not be forced on the new one."""
    row = work.row
    old = await work.node.runtime.image(row.engine_image) if row.engine_image else None
    if old is None:
        return
    work.container = dataclasses.replace(
        row,
        command=None if list(row.command or ()) == list(old.command) else row.command,
        entrypoint=None if list(row.entrypoint or ()) == list(old.entrypoint) else row.entrypoint,
    )


async def fail(work: Work, error: Exception) -> Outcome:
    """An image that cannot be had leaves the old container as it was; anything later gives everything back."""
    observed = await work.node.runtime.inspect(work.uuid)
    if observed is not None and observed.engine_id == work.row.container_id:
        outcome = await common.read_back(work)
        outcome.values["status"] = Status.ERROR
        outcome.values["status_reason"] = common.reason_of(error)
        outcome.error = common.reason_of(error)
        return outcome
    outcome = await common.undo(work, error)
    outcome.values.pop("host", None)  # rebuild may be asked again on the same node
    return outcome
