"""Delete a container: the holdings' way up, then the row (scenario 3)."""

from __future__ import annotations

import contextlib

from zun.compute.holdings import release_all
from zun.compute.operations import common
from zun.compute.work import Outcome, Work
from zun.domain.errors import EngineNotFound
from zun.domain.lifecycle import Status


async def run(work: Work) -> Outcome:
    """Stop first if asked (10 s of grace), release everything, remove the row (S3.4–S3.12)."""
    if work.params.get("stop"):
        async with work.journal.step("stop"):
            with contextlib.suppress(EngineNotFound):  # gone already: nothing to stop
                await work.node.runtime.stop(work.uuid, work.params.get("timeout", 10))
    await release_all(work)
    return Outcome(remove_row=True)


async def fail(work: Work, error: Exception) -> Outcome:
    """Refused without force: the row stays, ``Error`` with the engine's words (S3.13)."""
    reason = common.reason_of(error)
    return Outcome({"status": Status.ERROR, "status_reason": reason}, error=reason)
