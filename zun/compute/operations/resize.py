"""Change cpu and memory of a living container."""

from __future__ import annotations

from zun.compute.operations import common
from zun.compute.work import Outcome, Work
from zun.domain.errors import ClaimFailed
from zun.domain.resources import Amounts


async def run(work: Work) -> Outcome:
    """Claim the new amounts, then tell the engine, then the row. ``cpu`` in cores, ``memory`` in MiB."""
    row, node = work.row, work.node
    cpu = row.cpu if work.params.get("cpu") is None else float(work.params["cpu"])
    memory = row.memory if work.params.get("memory") is None else int(work.params["memory"])
    fractional = node.conf.compute.fractional_cpu
    wanted = Amounts(cpu, memory, row.disk).placement(fractional=fractional)
    async with work.journal.step("allocation"):
        claimed = node.provider_uuid is not None and await node.placement.claim(
            row.uuid, node.provider_uuid, wanted, project_id=row.project_id, user_id=row.user_id
        )
        if not claimed:
            raise ClaimFailed("the host has no room for the new size")
    async with work.journal.step("engine"):
        try:
            await node.runtime.update(
                row.uuid, cpu_millicores=round(cpu * 1000), memory_mib=memory, swap_mib=node.conf.default_memory_swap
            )
        except Exception:
            await _claim_old(work)
            raise
    return Outcome({"cpu": cpu, "memory": memory})


async def _claim_old(work: Work) -> None:
    row, node = work.row, work.node
    old = Amounts(row.cpu, row.memory, row.disk).placement(fractional=node.conf.compute.fractional_cpu)
    if node.provider_uuid is not None:
        await node.placement.claim(row.uuid, node.provider_uuid, old, project_id=row.project_id, user_id=row.user_id)


async def fail(work: Work, error: Exception) -> Outcome:
    """The container keeps its size; the reason is shown."""
    return Outcome({"status_reason": common.reason_of(error)}, error=common.reason_of(error))
