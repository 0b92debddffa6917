"""Amounts: what a container asks, in the units Placement counts. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

VCPU = "VCPU"
MILLICPU = "CUSTOM_ZUN_MILLICPU"
MEMORY_MB = "MEMORY_MB"
DISK_GB = "DISK_GB"

DISABLED_TRAIT = "CUSTOM_ZUN_COMPUTE_STATUS_DISABLED"
"""Carried by providers of disabled nodes; forbidden in every request."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """``cpu`` in cores, ``memory`` in MiB, ``disk`` in GiB."""

    cpu: float
    memory: int
    disk: int

    def placement(self, *, fractional: bool) -> dict[str, int]:
        """Integers for Placement: at least 1 VCPU (or 1 millicore) and 1 MiB; disk only when set (S6.8, S6.10)."""
        if fractional:
            wanted = {MILLICPU: max(1, math.ceil(round(self.cpu * 1000, 6)))}
        else:
            wanted = {VCPU: max(1, math.ceil(self.cpu))}
        wanted[MEMORY_MB] = max(1, self.memory)
        if self.disk:
            wanted[DISK_GB] = self.disk
        return wanted

    def on_host(self, *, default_disk: int, disk_quota_supported: bool) -> Amounts:
        """What the node will enforce: without ``disk`` a node with quotas limits to ``default_disk`` GiB, and what
        is limited is claimed (S6.10)."""
        if self.disk or not disk_quota_supported:
            return self
        return Amounts(self.cpu, self.memory, default_disk)
