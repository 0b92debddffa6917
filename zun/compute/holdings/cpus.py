"""CPUs of a container's own, a part of its allocation."""

from __future__ import annotations

from zun.compute.work import Work
from zun.domain.errors import ClaimFailed
from zun.domain.numa import cpus_needed
from zun.store import pinned_cpus


async def take(work: Work) -> None:
    """Pinned, or confined to the CPUs that are not. Raises ClaimFailed when no NUMA node has so many free."""
    node, row = work.node, work.row
    if row.cpu_policy != "dedicated":
        work.prepared.cpuset = node.floating_cpus
        return
    count = cpus_needed(row.cpu)
    pinned = await pinned_cpus.pin(node.db, node.host, work.uuid, count)
    if pinned is None:
        raise ClaimFailed(f"no NUMA node of the host has {count} CPUs free for cpu_policy dedicated")
    work.prepared.cpuset, work.prepared.memory_nodes = pinned.cpuset, str(pinned.numa_node)


async def give_back(work: Work) -> None:
    """Nothing pinned is success."""
    if work.elsewhere or (work.container is not None and work.container.cpu_policy != "dedicated"):
        return
    async with work.node.db.write() as connection:
        await pinned_cpus.unpin(connection, work.uuid)
