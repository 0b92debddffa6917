"""The scheduler: Placement's candidates, filtered, weighed, claimed. Runs in the API process (S1.1).

The claim is taken before any operation is written for the node (S1.2).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from zun.domain import numa
from zun.domain.clock import Clock
from zun.domain.errors import ZunError
from zun.domain.pci import requested
from zun.domain.resources import DISABLED_TRAIT
from zun.domain.service import is_up
from zun.placement.base import Candidate, Placement
from zun.scheduler.filters import CONDITIONS, Host, Wanted, enabled, passing
from zun.scheduler.weights import best_first
from zun.store import candidates as store
from zun.store import pinned_cpus
from zun.store.database import Database

LOG = logging.getLogger(__name__)


class Tools(Protocol):
    """The part of ``Control`` the scheduler uses."""

    @property
    def conf(self) -> Any: ...
    @property
    def db(self) -> Database: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def placement(self) -> Placement: ...


class NoValidHost(ZunError):
    """No host can take the container; ``message`` says how far the choice came, for operators (S1.10, S1.25)."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The host chosen; its share of Placement is claimed for the container."""

    host: str
    provider_uuid: str
    disk: int
    """GiB claimed and to be enforced; 0 = no limit."""


async def select(control: Tools, wanted: Wanted) -> Selection:
    """Choose and claim a host (S1.9, S1.12). Raises NoValidHost; PlacementUnavailable passes through, because
    "not reachable" is not "not enough hosts"."""
    conf = control.conf
    resources = wanted.amounts.placement(fractional=conf.compute.fractional_cpu)
    candidates = await control.placement.candidates(
        resources,
        forbidden_traits=frozenset({DISABLED_TRAIT}),
        limit=conf.scheduler.max_placement_results,
        only=await _provider_of(control, wanted.host) if wanted.host else None,
    )
    if not candidates:
        LOG.warning(
            "Got no allocation candidates from the Placement API container=%s resources=%s; the nodes are full, "
            "disabled, or none has reported its inventory",
            wanted.consumer,
            _text(resources),
        )
        raise NoValidHost("Placement has no candidate with enough room.")
    hosts = await _hosts(control, candidates, dedicated=wanted.cpu_policy == "dedicated")
    filters = dict(enabled(conf.scheduler.enabled_filters))
    if wanted.cpu_policy == "dedicated":
        filters |= enabled(["CpuSetFilter"])  # a promise, not an operator's preference
    filters |= enabled(["DiskPressureFilter"])  # a full disk is no preference either
    if wanted.leaves:
        filters |= enabled(["LeavingFilter"])
    if wanted.capsule:
        filters |= enabled(["CapsuleFilter"])
    if requested(wanted.hints):
        filters |= enabled(["PciPassthroughFilter"])
    fitting, rejected = passing(hosts, wanted, filters)
    if not fitting:
        LOG.warning(
            "No host passed the filters container=%s candidates=%d unregistered=%d rejected_by=%s",
            wanted.consumer,
            len(candidates),
            len(candidates) - len(hosts),
            _rejections(rejected) or "none",
        )
        raise NoValidHost(
            f"All {len(candidates)} candidate hosts were rejected: {_rejections(rejected) or 'not registered'}."
        )
    return await _claim_first(control, wanted, best_first(fitting, resources))


async def _claim_first(control: Tools, wanted: Wanted, hosts: Sequence[Host]) -> Selection:
    """The best host that still has room when claimed; another request may have taken it since the look."""
    conf = control.conf
    for host in hosts:
        limits_disk = host.disk_quota_supported and not wanted.capsule
        amounts = wanted.amounts.on_host(default_disk=conf.default_disk, disk_quota_supported=limits_disk)
        claimed = await control.placement.claim(
            wanted.consumer,
            host.provider_uuid,
            amounts.placement(fractional=conf.compute.fractional_cpu),
            project_id=wanted.project_id,
            user_id=wanted.user_id,
        )
        if claimed and await _pin(control, wanted, host):
            LOG.info("host chosen container=%s host=%s", wanted.consumer, host.hostname)
            return Selection(host.hostname, host.provider_uuid, amounts.disk)
        LOG.info("claim lost container=%s host=%s: trying the next", wanted.consumer, host.hostname)
    if wanted.cpu_policy == "dedicated":  # a claim may be held of a host whose CPUs another took first
        await control.placement.release(wanted.consumer)
    LOG.warning("every claim was refused container=%s hosts=%d", wanted.consumer, len(hosts))
    raise NoValidHost(f"None of {len(hosts)} fitting hosts had room left when it was claimed.")


async def _pin(control: Tools, wanted: Wanted, host: Host) -> bool:
    """CPUs of its own, taken while the claim is held; True where none are asked for."""
    if wanted.cpu_policy != "dedicated":
        return True
    count = numa.cpus_needed(wanted.amounts.cpu)
    return await pinned_cpus.pin(control.db, host.hostname, wanted.consumer, count) is not None


async def _provider_of(control: Tools, host: str) -> str:
    """Raises NoValidHost for a host that has not reported."""
    async with control.db.read() as connection:
        found = await store.provider(connection, host)
    if found is None:
        raise NoValidHost(f"Host {host} has not reported its inventory.")
    return found[0]


async def _hosts(control: Tools, candidates: Sequence[Candidate], *, dedicated: bool) -> Sequence[Host]:
    """Candidates joined with their node and service rows: one query, of these hosts only (S6.5, rule 5); and one more
    for the CPUs taken, where they matter."""
    conf, now = control.conf, control.clock.now()
    by_uuid = {found.provider_uuid: found for found in candidates}
    async with control.db.read() as connection:
        rows = await store.of_providers(connection, list(by_uuid))
        taken = await pinned_cpus.of_hosts(connection, [row["hostname"] for row in rows]) if dedicated else {}
    return [
        Host(
            hostname=row["hostname"],
            provider_uuid=row["uuid"],
            zone=row["availability_zone"] or conf.default_availability_zone,
            disabled=row["disabled"],
            up=is_up(row, now, conf.service_down_time),
            cpus=row["cpus"],
            cpu_used=row["cpu_used"],
            mem_total=row["mem_total"],
            mem_used=row["mem_used"],
            disk_total=row["disk_total"],
            disk_used=row["disk_used"],
            disk_quota_supported=row["disk_quota_supported"],
            free_cpus=_most_free(row["numa_topology"] or {}, taken.get(row["hostname"], ())),
            labels=row["labels"] or {},
            runtimes=row["runtimes"] or (),
            capsules=row["capsules"],
            capsule_runtimes=row["capsule_runtimes"],
            disk_pressure=row["disk_pressure"],
            used=by_uuid[row["uuid"]].used,
            capacity=by_uuid[row["uuid"]].capacity,
        )
        for row in rows
    ]


def _most_free(topology: Mapping[str, Sequence[int]], taken: Collection[int]) -> int:
    return max((len(cpus) for cpus in numa.free(topology, taken).values()), default=0)


def _rejections(counts: Mapping[str, int]) -> str:
    """``DiskPressureFilter (DISK_PRESSURE): 1``."""
    return _text({f"{name} ({CONDITIONS[name]})" if name in CONDITIONS else name: n for name, n in counts.items()})


def _text(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {amount}" for name, amount in amounts.items())
