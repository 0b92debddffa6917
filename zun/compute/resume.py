"""After a reboot of the machine: start again what was Running (``[compute]/resume_container_state``)."""

from __future__ import annotations

import logging

from zun.compute.node import Node
from zun.compute.refresh import announce
from zun.domain.lifecycle import Status, Task
from zun.domain.operation import Kind
from zun.store import containers

LOG = logging.getLogger(__name__)

ENDED = frozenset({"exited", "created", "dead"})


async def resume(node: Node) -> int:
    """Queue a start for each container recorded Running that the engine has and does not run; how many.

    Runs before the first sync, which would take the engine's word for what is Running.
    """
    async with node.db.read() as connection:
        rows = await containers.of_host(connection, node.host)
    recorded = {row.uuid: row for row in rows if row.status == Status.RUNNING and row.task_state is None}
    queued = 0
    for item in await node.runtime.list() if recorded else ():
        row = recorded.get(item.uuid)
        if row is not None and item.owner == node.owner and item.state in ENDED:
            queued += bool(await announce(node, row, Kind.START, {}, {}, Task.STARTING))
    LOG.info("action=resume host=%s started=%s", node.host, queued)
    return queued
