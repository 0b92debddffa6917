"""Filters: may this host run that container? Pure functions over plain facts; the registry names them.

Part of the API process. Imports the domain only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zun.domain.node_image import DISK_PRESSURE
from zun.domain.numa import cpus_needed
from zun.domain.pci import requested
from zun.domain.resources import Amounts


class UnknownFilter(ValueError):
    """``[scheduler]/enabled_filters`` names a filter that does not exist; the message lists what does."""


@dataclass(frozen=True, slots=True)
class Host:
    """A candidate as recorded. Memory MiB, disk GiB, cpus cores; ``used`` and ``capacity`` are Placement's."""

    hostname: str
    provider_uuid: str
    zone: str
    disabled: bool
    up: bool
    cpus: int = 0
    cpu_used: float = 0.0
    mem_total: int = 0
    mem_used: int = 0
    disk_total: int = 0
    disk_used: int = 0
    disk_quota_supported: bool = False
    free_cpus: int = 0
    """Most CPUs that can be pinned in one NUMA node now; 0 where the host pins none, or nobody asks."""
    pci_devices: Mapping[str, int] = field(default_factory=dict)
    """Free devices by alias. No runtime gives devices to containers yet, so no host offers any."""
    labels: Mapping[str, str] = field(default_factory=dict)
    runtimes: Sequence[str] = ()
    capsules: bool = False
    """Does it take capsules now?"""
    capsule_runtimes: Sequence[str] | None = None
    """What the engine for capsules has; None where it does not tell."""
    disk_pressure: bool = False
    """Is its disk so full that it takes no new containers?"""
    used: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a container asks of a host. ``zone``, ``runtime`` and ``host`` None: any."""

    consumer: str
    """The container's uuid, the consumer in Placement (S1.12)."""
    project_id: str
    user_id: str
    amounts: Amounts
    zone: str | None = None
    runtime: str | None = None
    host: str | None = None
    """The host asked for by name (``host`` of the request)."""
    cpu_policy: str = "shared"
    hints: Mapping[str, Any] = field(default_factory=dict)
    capsule: bool = False
    """Is it a capsule, which needs an engine for capsules?"""
    leaves: str | None = None
    """The host it has to leave: any other one that is up and enabled, whatever filters there are."""
    avoids: frozenset[str] = frozenset()
    """Hosts beside that one that it has failed on."""


Filter = Callable[[Host, Wanted], bool]
"""True: the host may run it."""


def availability_zone(host: Host, wanted: Wanted) -> bool:
    """The zone asked for, or any when none is (S6.7)."""
    return wanted.zone is None or host.zone == wanted.zone


def compute(host: Host, wanted: Wanted) -> bool:
    """Neither disabled nor down: such a node gets no new container at once (S6.5)."""
    return host.up and not host.disabled


def runtime(host: Host, wanted: Wanted) -> bool:
    """The node knows the runtime asked for; of a capsule, the engine for capsules does, as far as it tells: there
    ``runc`` is the default one, whatever it is called."""
    if wanted.runtime is None:
        return True
    if wanted.capsule:
        return wanted.runtime == "runc" or host.capsule_runtimes is None or wanted.runtime in host.capsule_runtimes
    return wanted.runtime in host.runtimes


def capsule(host: Host, wanted: Wanted) -> bool:
    """Capsules need an engine for them that answers (``[DEFAULT]/capsule_driver``)."""
    return host.capsules or not wanted.capsule


def leaving(host: Host, wanted: Wanted) -> bool:
    """Another host than the one that is left, one that works, and that limits the disk where it was limited."""
    limits = host.disk_quota_supported or not wanted.amounts.disk
    other = host.hostname != wanted.leaves and host.hostname not in wanted.avoids
    return wanted.leaves is None or (other and compute(host, wanted) and limits)


def cpu(host: Host, wanted: Wanted) -> bool:
    """Real cores are free: no overcommit, whatever ratio Placement counts with."""
    return host.cpu_used + wanted.amounts.cpu <= host.cpus


def ram(host: Host, wanted: Wanted) -> bool:
    """Real memory is free."""
    return host.mem_used + wanted.amounts.memory <= host.mem_total


def disk(host: Host, wanted: Wanted) -> bool:
    """Room on disk, and a node that can enforce the size."""
    if not wanted.amounts.disk:
        return True
    return host.disk_quota_supported and host.disk_used + wanted.amounts.disk <= host.disk_total


def label(host: Host, wanted: Wanted) -> bool:
    """Each hint ``label:<key>`` equals the node's engine label of that key."""
    prefix = "label:"
    asked = {name[len(prefix) :]: str(value) for name, value in wanted.hints.items() if name.startswith(prefix)}
    return all(host.labels.get(key) == value for key, value in asked.items())


def cpu_set(host: Host, wanted: Wanted) -> bool:
    """CPUs of its own only where one NUMA node of the host has as many free."""
    return wanted.cpu_policy != "dedicated" or host.free_cpus >= cpus_needed(wanted.amounts.cpu)


def pci_passthrough(host: Host, wanted: Wanted) -> bool:
    """As many devices of each alias (hints ``pci:<alias>``) as asked for."""
    return all(host.pci_devices.get(alias, 0) >= count for alias, count in requested(wanted.hints).items())


def disk_pressure(host: Host, wanted: Wanted) -> bool:
    """Room for what a new container writes (``[compute]/disk_free_min_mib``)."""
    return not host.disk_pressure


FILTERS: Mapping[str, Filter] = {
    "AvailabilityZoneFilter": availability_zone,
    "ComputeFilter": compute,
    "RuntimeFilter": runtime,
    "CPUFilter": cpu,
    "RamFilter": ram,
    "DiskFilter": disk,
    "LabelFilter": label,
    "CpuSetFilter": cpu_set,
    "PciPassthroughFilter": pci_passthrough,
    "CapsuleFilter": capsule,
    "DiskPressureFilter": disk_pressure,
    "LeavingFilter": leaving,
}
CONDITIONS: Mapping[str, str] = {"DiskPressureFilter": DISK_PRESSURE}
"""What a host that the filter rejects is said to have."""


def enabled(names: Sequence[str]) -> Mapping[str, Filter]:
    """The filters of ``[scheduler]/enabled_filters``, in order. Raises UnknownFilter."""
    unknown = [name for name in names if name not in FILTERS]
    if unknown:
        raise UnknownFilter(
            f"[scheduler]/enabled_filters: unknown filter {', '.join(unknown)}; known are {', '.join(FILTERS)}."
        )
    return {name: FILTERS[name] for name in names}


def passing(
    hosts: Sequence[Host], wanted: Wanted, filters: Mapping[str, Filter]
) -> tuple[Sequence[Host], Mapping[str, int]]:
    """The hosts every filter lets through, and how many each filter rejected."""
    left, rejected = list(hosts), {}
    for name, fits in filters.items():
        kept = [host for host in left if fits(host, wanted)]
        if len(kept) != len(left):
            rejected[name] = len(left) - len(kept)
        left = kept
    return left, rejected
