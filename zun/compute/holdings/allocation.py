"""Holding: the allocation in Placement, with CPUs of its own (``cpu_policy: dedicated``). Taken by the API before the
node hears of it (S1.2); taken again here by a later start or rebuild of a container whose create had failed."""

from __future__ import annotations

from zun.compute.holdings import cpus
from zun.compute.holdings.base import Progress
from zun.compute.node import Node
from zun.compute.work import Work
from zun.domain.container import Container
from zun.domain.errors import ClaimFailed, PlacementUnavailable
from zun.domain.resources import Amounts


async def claim_here(node: Node, row: Container) -> bool:
    """What the container needs, of this node, whatever it held elsewhere; False when there is no room. Raises
    PlacementUnavailable."""
    if node.provider_uuid is None:
        raise PlacementUnavailable("The node is not yet known to Placement.")
    wanted = Amounts(row.cpu, row.memory, row.disk).placement(fractional=node.conf.compute.fractional_cpu)
    return await node.placement.claim(
        row.uuid, node.provider_uuid, wanted, project_id=row.project_id, user_id=row.user_id
    )


class Allocation:
    name = "allocation"

    async def ensure(self, work: Work, progress: Progress) -> None:
        """Keep what is there, else claim. Raises ClaimFailed when there is no room."""
        await cpus.take(work)
        await self._claim(work)

    async def _claim(self, work: Work) -> None:
        if work.is_first:
            return  # the API took it before it wrote this operation
        node, row = work.node, work.row
        wanted = Amounts(row.cpu, row.memory, row.disk).placement(fractional=node.conf.compute.fractional_cpu)
        held = await node.placement.allocation(work.uuid)
        if held != wanted and not await claim_here(node, row):
            asked = ", ".join(f"{amount} {name}" for name, amount in wanted.items())
            raise ClaimFailed(f"the host has no room for {asked}")

    async def release(self, work: Work) -> None:
        """Empty the consumer's allocation (S3.11)."""
        await cpus.give_back(work)
        if not work.elsewhere:
            await work.node.placement.release(work.uuid)
