"""Holding: the container in the engine, named ``zun-<uuid>`` (S1.22, S3.7)."""

from __future__ import annotations

import asyncio

from zun.compute import spec
from zun.compute.holdings.base import Progress
from zun.compute.work import Work
from zun.domain.operation import Kind

CALL_ENDS = 15.0
"""Seconds that a create call is given to end once its operation was called off."""


class Engine:
    name = "engine"

    async def ensure(self, work: Work, progress: Progress) -> None:
        """Make it, or find the one made before; not started.

        An operation called off waits for a create call that is with the engine already: what it makes has to be there
        when the delete that follows looks for it. A process told to stop does not wait: the next one finds it.
        """
        call = work.node.runtime.create(spec.engine_spec(work.node, work.row, work.prepared))
        making = asyncio.ensure_future(call)
        try:
            await asyncio.shield(making)
        except asyncio.CancelledError:
            if not work.node.stopping:
                await asyncio.wait({making}, timeout=CALL_ENDS)
            making.cancel()
            await asyncio.gather(making, return_exceptions=True)
            raise

    async def release(self, work: Work) -> None:
        """Remove it; a plain delete leaves the refusal of a running one to the engine (S3.13). Only one of our own:
        the engine may hold others' containers."""
        plain = work.operation.kind == Kind.DELETE and not (work.params.get("force") or work.params.get("stop"))
        observed = await work.node.runtime.inspect(work.uuid)
        if observed is not None and observed.owner == work.node.owner:
            await work.node.runtime.remove(work.uuid, force=not plain)
