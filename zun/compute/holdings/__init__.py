"""What a container holds in the world: one way up, one way down (rule 2).

Stages follow each other on the way down; the holdings of one stage run side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from zun.compute.holdings import allocation, engine, image, ports, volumes
from zun.compute.holdings.base import Holding
from zun.compute.work import Work
from zun.domain.errors import ZunError

STAGES: Sequence[Sequence[Holding]] = (
    (allocation.Allocation(),),
    (image.Image(), volumes.VolumeMounts(), ports.Ports()),
    (engine.Engine(),),
)


async def ensure_all(work: Work, stages: Sequence[Sequence[Holding]] = STAGES) -> None:
    """Walk down: after it the engine has the container. Raises the first fault; the caller releases."""
    for stage in stages:
        try:
            async with asyncio.TaskGroup() as group:
                for holding in stage:
                    group.create_task(_ensure(holding, work), name=f"ensure-{holding.name}-{work.uuid}")
        except ExceptionGroup as faults:
            raise first_fault(faults) from faults


async def release_all(work: Work, stages: Sequence[Sequence[Holding]] = STAGES) -> None:
    """Walk up, safe though the way down never ran. The last stage, the engine's, goes first, and one that fails stops
    the walk: what the engine still runs keeps its ports and its allocation. All the others need nothing of each other,
    and go side by side. Raises the first fault after the other holdings had their turn."""
    *others, last = stages
    for stage in (last, [holding for other in reversed(others) for holding in other]):
        results = await asyncio.gather(*(_release(holding, work) for holding in stage), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result


async def _ensure(holding: Holding, work: Work) -> None:
    async with work.journal.step(holding.name) as progress:
        await holding.ensure(work, progress)


async def _release(holding: Holding, work: Work) -> None:
    async with work.journal.step(f"release_{holding.name}"):
        await holding.release(work)


def first_fault(faults: BaseExceptionGroup[BaseException]) -> BaseException:
    """The fault to report: one of ours if there is one, else the first."""
    leaves: list[BaseException] = []
    for fault in faults.exceptions:
        leaves.append(first_fault(fault) if isinstance(fault, BaseExceptionGroup) else fault)
    return next((leaf for leaf in leaves if isinstance(leaf, ZunError)), leaves[0])
