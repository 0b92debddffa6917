"""How full the node's disks are: where its engines keep what containers write, and images."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from prometheus_client import Gauge

from zun.compute.node import Node

LOG = logging.getLogger(__name__)

_RATIO = Gauge("zun_compute_disk_used_ratio", "Use of the fullest disk of this node's engines, 0 to 1.")


async def percent(node: Node, roots: Sequence[str]) -> float:
    """Use of the fullest file system that holds one of ``roots``, as ``df`` counts it; 0 where none can be read (an
    engine elsewhere)."""
    return _fullest(await _usages(node, roots))


async def is_full(node: Node) -> bool:
    """Has one of them so little room that the node takes no new containers? Each is asked once."""
    usages = await _usages(node, node.engine_roots)
    _RATIO.set(_fullest(usages) / 100)
    least = node.conf.compute.disk_free_min_mib
    free = [int(usage.free // 1024**2) for usage in usages]
    full = any(one < least for one in free)
    if full != node.disk_full:
        node.disk_full = full
        LOG.warning("action=inventory free_mib=%s disk_free_min_mib=%d disk_pressure=%s", free, least, full)
    return full


async def _usages(node: Node, roots: Sequence[str]) -> list[Any]:
    """Of those that can be read; of the others the inventory tells."""
    found = [await asyncio.to_thread(_usage, node, root) for root in dict.fromkeys(roots) if root]
    return [usage for usage in found if usage is not None]


def _usage(node: Node, root: str) -> Any | None:
    try:
        return node.disk_usage(root)
    except OSError:
        return None


def _fullest(usages: Sequence[Any]) -> float:
    """Percent."""
    rooms = [(usage.used, usage.used + usage.free) for usage in usages]
    return max((100.0 * used / room for used, room in rooms if room), default=0.0)
