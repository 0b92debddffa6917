"""How full the node's disks are: where its engines keep what containers write, and images."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from prometheus_client import Gauge

from zun.compute.node import Node

LOG = logging.getLogger(__name__)

_RATIO = Gauge("zun_compute_disk_used_ratio", "Use of the fullest disk of this node's engines, 0 to 1.")


async def percent(node: Node, roots: Sequence[str]) -> float:
    """Use of the fullest file system that holds one of ``roots``, as ``df`` counts it; 0 where none can be read (an
    engine elsewhere)."""
    return max([await asyncio.to_thread(_percent, node, root) for root in dict.fromkeys(roots) if root], default=0.0)


async def is_full(node: Node) -> bool:
    """Has one of them so little room that the node takes no new containers?"""
    _RATIO.set(await percent(node, node.engine_roots) / 100)
    least = node.conf.compute.disk_free_min_mib
    free = [await asyncio.to_thread(_free_mib, node, root) for root in dict.fromkeys(node.engine_roots) if root]
    full = any(one is not None and one < least for one in free)
    if full != node.disk_full:
        node.disk_full = full
        LOG.warning("action=inventory free_mib=%s disk_free_min_mib=%d disk_pressure=%s", free, least, full)
    return full


def _free_mib(node: Node, root: str) -> int | None:
    try:
        return int(node.disk_usage(root).free // 1024**2)
    except OSError:
        return None


def _percent(node: Node, root: str) -> float:
    try:
        usage = node.disk_usage(root)
    except OSError:
        return 0.0  # the inventory tells of it
    room = usage.used + usage.free
    return 100.0 * usage.used / room if room else 0.0
