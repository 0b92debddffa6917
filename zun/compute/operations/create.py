"""Create a container on this node, and run it if asked (scenario 1)."""

from __future__ import annotations

from zun.compute.operations import common
from zun.compute.work import Outcome, Work


async def run(work: Work) -> Outcome:
    """Volumes, ports and image side by side, then the engine's container, then start (S1.16–S1.23)."""
    return await common.bring_up(work, start=bool(work.params.get("run")))


async def fail(work: Work, error: Exception) -> Outcome:
    """Nothing taken stays taken (S1.27–S1.29)."""
    return await common.undo(work, error)
