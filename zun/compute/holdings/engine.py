"""Holding: the container in the engine, named ``zun-<uuid>`` (S1.22, S3.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from zun.compute import spec
from zun.compute.holdings.base import Progress
from zun.compute.node import Node
from zun.compute.work import Work
from zun.domain.operation import FREED, Kind

T = TypeVar("T")

CALL_ENDS = 15.0
"""Seconds that a create call is given to end once its operation was called off."""


async def to_its_end(node: Node, call: Awaitable[T]) -> T:
    """An operation called off waits for a call that makes something and is with the engine already: it has to be there
    when the delete that follows looks for it. A process told to stop does not wait: the next one finds it."""
    making = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        if not node.stopping:
            await asyncio.wait({making}, timeout=CALL_ENDS)
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
        raise


class Engine:
    name = "engine"

    async def ensure(self, work: Work, progress: Progress) -> None:
        """Make it, or find the one made before; not started."""
        wanted = spec.engine_spec(work.node, work.row, work.prepared)
        await to_its_end(work.node, work.node.runtime.create(wanted))

    async def release(self, work: Work) -> None:
        """Remove it; a plain delete leaves the refusal of a running one to the engine (S3.13). Only one of our own:
        the engine may hold others' containers."""
        forced = any(work.params.get(name) for name in ("force", "stop", FREED))
        plain = work.operation.kind == Kind.DELETE and not forced
        observed = await work.node.runtime.inspect(work.uuid)
        if observed is not None and observed.owner == work.node.owner:
            await work.node.runtime.remove(work.uuid, force=not plain)
