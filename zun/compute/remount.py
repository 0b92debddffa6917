"""After a reboot of the machine: containers that their engine started before their volumes were back
(``[compute]/remount_container_volume``)."""

from __future__ import annotations

import logging
from collections import defaultdict

from zun.compute.node import Node
from zun.compute.refresh import announce
from zun.domain.container import VolumeMapping
from zun.domain.lifecycle import Task
from zun.domain.operation import Kind
from zun.store import containers, volume_mappings

LOG = logging.getLogger(__name__)

RUNS = frozenset({"running", "restarting", "paused"})


async def remount(node: Node) -> int:
    """Queue a reboot, which mounts first, for each container that runs without its volumes; how many.

    What does not run is mounted before its next start.
    """
    async with node.db.read() as connection:
        mapped = await volume_mappings.of_host(connection, node.host)
        rows = await containers.of_host(connection, node.host) if mapped else []
    if not mapped:
        return 0
    mounts: dict[str, list[VolumeMapping]] = defaultdict(list)
    for mapping in mapped:
        mounts[mapping.container_uuid].append(mapping)
    running = {item.uuid for item in await node.runtime.list() if item.owner == node.owner and item.state in RUNS}
    queued = 0
    for row in rows:
        if row.uuid in running and row.task_state is None and not await _stand(node, mounts[row.uuid]):
            queued += bool(await announce(node, row, Kind.REBOOT, {"remount": True}, {}, Task.REBOOTING))
    LOG.info("action=remount host=%s rebooted=%s", node.host, queued)
    return queued


async def _stand(node: Node, mappings: list[VolumeMapping]) -> bool:
    drivers = [node.volumes.get(mapping.driver) for mapping in mappings]
    found = [
        driver is not None and await driver.attached(mapping) for driver, mapping in zip(drivers, mappings, strict=True)
    ]
    return all(found)
