"""The node's sign of life, which the fence and the inventory give."""

from __future__ import annotations

from zun.compute.node import BINARY, Node
from zun.store import services


async def heartbeat(node: Node) -> bool:
    """One more; False when the host's record is another agent process's by now, or gone. Raises Unavailable."""
    async with node.db.write() as connection:
        return await services.heartbeat(connection, node.host, BINARY, node.instance, node.clock.now())
