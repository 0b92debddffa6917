"""Which CPUs of this node may be pinned, by NUMA node."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from zun.domain.numa import parse_cpu_list

LOG = logging.getLogger(__name__)

SYSFS = Path("/sys/devices/system/node")


def pinnable(conf: Any, cpus: int, sysfs: Path = SYSFS) -> dict[str, list[int]]:
    """NUMA node -> CPUs, without ``floating_cpu_set``; empty where the node does not pin. ``cpus``: how many the engine
    has; where this machine shows other ones (an engine elsewhere), they are taken for one NUMA node."""
    if not conf.compute.enable_cpu_pinning:
        return {}
    found = _read(sysfs)
    if sum(len(one) for one in found.values()) != cpus:
        LOG.warning("action=inventory numa=unknown cpus=%d: taken for one NUMA node", cpus)
        found = {"0": list(range(cpus))}
    floating = parse_cpu_list(conf.floating_cpu_set)
    left = {node: [cpu for cpu in one if cpu not in floating] for node, one in found.items()}
    left = {node: one for node, one in left.items() if one}
    if not left:
        LOG.error("action=inventory pinning=off reason=[DEFAULT]/floating_cpu_set leaves no CPU to pin")
    return left


def _read(sysfs: Path) -> dict[str, list[int]]:
    found = {}
    try:
        for folder in sysfs.glob("node[0-9]*"):
            cpus = sorted(parse_cpu_list((folder / "cpulist").read_text().strip()))
            if cpus:  # a NUMA node may be memory only
                found[folder.name.removeprefix("node")] = cpus
    except (OSError, ValueError) as error:
        LOG.warning("action=inventory numa=unknown reason=%s", error)
        return {}
    return found
