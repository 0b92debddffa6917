"""A node that returns: what is no longer its own goes before anything else is done (S3.2).

While it was away containers may have been deleted by force or by their owners, moved to other hosts, and rows may have
gone.
"""

from __future__ import annotations

import asyncio
import logging

from zun.compute import moved
from zun.compute.capsules.compare import remove_strays
from zun.compute.node import Node
from zun.compute.worker import Worker
from zun.domain.errors import ZunError
from zun.store import containers, operations

LOG = logging.getLogger(__name__)

LONGEST = 45.0
"""Seconds the node stays out of the scheduler's sight for it; less than the lease of an operation."""


async def tidy(node: Node, worker: Worker) -> None:
    """Deletes and releases that wait for this node, then engine containers of ours that no row of this node knows.
    An engine or a database that does not answer holds the node up no longer than ``LONGEST`` seconds: the worker and
    the sync come back to it."""
    try:
        removed = await worker.removals(LONGEST)
        async with asyncio.timeout(LONGEST):
            strays = await _remove_strays(node) + await remove_strays(node)
            mounts = await moved.forget_mounts(node)
    except (ZunError, TimeoutError) as error:
        LOG.warning("action=homecoming host=%s result=postponed reason=%s", node.host, error or "it takes too long")
    else:
        LOG.info("action=homecoming host=%s removals=%s strays=%s mounts=%s", node.host, removed, strays, mounts)


async def settle(node: Node) -> None:
    """Once the node is heard again, so that no evacuation begins any more: those that had begun and have not got a
    target end, and what was moved since ``tidy`` goes, too."""
    try:
        async with asyncio.timeout(LONGEST):
            kept = await moved.take_back(node)
            strays = await _remove_strays(node)
    except (ZunError, TimeoutError) as error:  # moves wait for a host that is there again to be given up; the sync
        LOG.warning("action=homecoming host=%s result=postponed reason=%s", node.host, error or "it takes too long")
    else:
        LOG.info("action=homecoming host=%s kept=%s strays=%s", node.host, kept, strays)


async def _remove_strays(node: Node) -> int:
    """No grace time: the agent has just begun, so nothing of this node is being made."""
    ours = [item.uuid for item in await node.runtime.list() if item.owner == node.owner]
    if not ours:
        return 0
    async with node.db.read() as connection:
        known = {row.uuid for row in await containers.of_host(connection, node.host)}
        waiting = {operation.container_uuid for operation in await operations.next_of_host(connection, node.host)}
    removed = 0
    for uuid in ours:
        if uuid in known or uuid in waiting:
            continue
        async with node.db.read() as connection:
            row = await containers.get(connection, uuid)
        if row is not None and row.host in (None, node.host):
            continue  # given up by its create: the sync looks at it
        LOG.warning(
            "action=homecoming container=%s result=removed reason=%s", uuid, "on another host" if row else "no row"
        )
        await moved.remove(node, uuid)
        if row is None:
            await node.network.release_ports(uuid)
            await node.placement.release(uuid)
        removed += 1
    return removed
