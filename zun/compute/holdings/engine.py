"""Holding: the container in the engine, named ``zun-<uuid>`` (S1.22, S3.7)."""

from __future__ import annotations

from zun.compute import spec
from zun.compute.holdings.base import Progress
from zun.compute.work import Work
from zun.domain.operation import Kind


class Engine:
    name = "engine"

    async def ensure(self, work: Work, progress: Progress) -> None:
        """Make it, or find the one made before; not started."""
        await work.node.runtime.create(spec.engine_spec(work.node, work.row, work.prepared))

    async def release(self, work: Work) -> None:
        """Remove it; a plain delete leaves the refusal of a running one to the engine (S3.13). Only one of our own:
        the engine may hold others' containers."""
        plain = work.operation.kind == Kind.DELETE and not (work.params.get("force") or work.params.get("stop"))
        observed = await work.node.runtime.inspect(work.uuid)
        if observed is not None and observed.owner == work.node.owner:
            await work.node.runtime.remove(work.uuid, force=not plain)
