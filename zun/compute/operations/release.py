"""Give back what a container holds and keep its row: what an ended operation left to be done."""

from __future__ import annotations

from zun.compute.holdings import release_all
from zun.compute.operations import common
from zun.compute.work import Outcome, Work


async def run(work: Work) -> Outcome:
    """Tried until everything is given back."""
    await release_all(work)
    return Outcome({"container_id": None, "addresses": {}} if work.container else {})


async def fail(work: Work, error: Exception) -> Outcome:
    """Not reached by the worker, which gives a release back to be tried again, whatever the fault."""
    return Outcome(error=common.reason_of(error))
