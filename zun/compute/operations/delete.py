"""Delete a container: the holdings' way up, then the row (scenario 3)."""

from __future__ import annotations

import contextlib
from typing import Any

from zun.compute.holdings import release_all
from zun.compute.operations import common
from zun.compute.work import Outcome, Work
from zun.domain.errors import EngineNotFound, ZunError
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
    """Refused without force: the row stays, ``Error`` with the reason (S3.13); without the engine's container when that
    has gone already: nothing makes anew what was to go."""
    reason = common.reason_of(error)
    values: dict[str, Any] = {"status": Status.ERROR, "status_reason": reason}
    with contextlib.suppress(ZunError):  # the engine does not tell: as before
        if await work.node.runtime.inspect(work.uuid) is None:
            values["container_id"] = None
    return Outcome(values, error=reason)
