"""How full the node's disks are: where its engines keep what containers write, and images."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prometheus_client import Gauge

if TYPE_CHECKING:
    from zun.compute.node import Node

LOG = logging.getLogger(__name__)

_RATIO = Gauge("zun_compute_disk_used_ratio", "Use of the fullest disk of this node's engines, 0 to 1.")


async def percent(node: Node, roots: Sequence[str]) -> float:
    """Use of the fullest file system that holds one of ``roots``, as ``df`` counts it; 0 where none can be read (an
    engine elsewhere)."""
    return max([await asyncio.to_thread(_percent, node, root) for root in dict.fromkeys(roots) if root], default=0.0)


async def is_full(node: Node) -> bool:
    """Is it so full that the node takes no new containers?"""
    use = await percent(node, node.engine_roots)
    _RATIO.set(use / 100)
    limit = node.conf.compute.disk_full_percent
    full = bool(limit < 100 and use >= limit)
    if full != node.disk_full:
        node.disk_full = full
        LOG.warning("action=inventory disk=%.1f%% disk_full_percent=%d disk_pressure=%s", use, limit, full)
    return full


def _percent(node: Node, root: str) -> float:
    try:
        usage = node.disk_usage(root)
    except OSError:
        return 0.0  # the inventory tells of it
    room = usage.used + usage.free
    return 100.0 * usage.used / room if room else 0.0
