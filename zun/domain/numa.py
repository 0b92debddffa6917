"""CPUs of a node by memory (NUMA) node, and which of them a container gets for itself. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

_MOST_CPUS = 8192


@dataclass(frozen=True, slots=True)
class Pinned:
    """CPUs of one NUMA node, for one container."""

    numa_node: int
    cpus: tuple[int, ...]

    @property
    def cpuset(self) -> str:
        """As engines take it: ``2,3``."""
        return ",".join(str(cpu) for cpu in self.cpus)


def parse_cpu_list(text: str) -> frozenset[int]:
    """``1-4,6`` as numbers; empty text is none. Raises ValueError."""
    found: set[int] = set()
    for part in text.replace(" ", "").split(","):
        if not part and not text.strip():
            continue
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"'{part}' is no CPU number and no range such as 1-4")
        low, high = int(first), int(last if dash else first)
        if low > high or high >= _MOST_CPUS:
            raise ValueError(f"'{part}' is no range of CPU numbers")
        found |= set(range(low, high + 1))
    return frozenset(found)


def cpus_needed(cores: float) -> int:
    """Whole CPUs that a container of so many cores has for itself; one at least."""
    return max(1, math.ceil(round(cores, 6)))


def free(topology: Mapping[str, Sequence[int]], taken: Collection[int]) -> dict[int, list[int]]:
    """NUMA node -> CPUs nobody has. ``topology`` as stored: the node's number as text."""
    return {int(node): sorted(set(cpus) - set(taken)) for node, cpus in topology.items()}


def choose(topology: Mapping[str, Sequence[int]], taken: Collection[int], count: int) -> Pinned | None:
    """CPUs of one NUMA node, the one that is fullest and still has room: large rooms stay for large containers.
    None when no NUMA node has so many left."""
    rooms = [(len(cpus), node, cpus) for node, cpus in free(topology, taken).items() if len(cpus) >= count]
    if not rooms:
        return None
    _, node, cpus = min(rooms)
    return Pinned(node, tuple(cpus[:count]))
