"""The scheduler: Placement's candidates, filtered, weighed, claimed. Runs in the API process (S1.1).

The claim is taken before any operation is written for the node (S1.2).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from zun.domain import numa
from zun.domain.clock import Clock
from zun.domain.errors import ZunError
from zun.domain.pci import requested
from zun.domain.resources import DISABLED_TRAIT
from zun.placement.base import Candidate, Placement
from zun.scheduler.choices import Choices, Look
from zun.scheduler.filters import CONDITIONS, Filter, Host, Wanted, enabled, passing
from zun.scheduler.hosts import hosts_of
from zun.scheduler.weights import best_first, with_unseen
from zun.store import candidates as store
from zun.store import pinned_cpus
from zun.store.database import Database

LOG = logging.getLogger(__name__)

_FORBIDDEN = frozenset({DISABLED_TRAIT})


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
    @property
    def choices(self) -> Choices: ...


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
    """Choose and claim a host (S1.9, S1.12): the best of a few taken by chance, of all when none of these will do.
    Raises NoValidHost; PlacementUnavailable passes through, because "not reachable" is not "not enough hosts"."""
    conf = control.conf
    resources = wanted.amounts.placement(fractional=conf.compute.fractional_cpu)
    if wanted.host is None and conf.scheduler.sample_size:
        with control.choices.look() as look:
            few = await control.placement.sample(
                resources, forbidden_traits=_FORBIDDEN, size=conf.scheduler.sample_size, limit=_limit(conf)
            )
            found = await _choose(control, wanted, few, look)
        if isinstance(found, Selection):
            return found
    with control.choices.look() as look:
        candidates = await control.placement.candidates(
            resources,
            forbidden_traits=_FORBIDDEN,
            limit=_limit(conf),
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
        found = await _choose(control, wanted, candidates, look)
    if isinstance(found, Selection):
        return found
    LOG.warning("no host chosen container=%s candidates=%d %s", wanted.consumer, len(candidates), found.detail)
    raise NoValidHost(found.message)


def _limit(conf: Any) -> int:
    return int(conf.scheduler.max_placement_results)


@dataclass(frozen=True, slots=True)
class _Refused:
    """Why none of the candidates will do: for operators, and for the log."""

    message: str
    detail: str


async def _choose(control: Tools, wanted: Wanted, candidates: Sequence[Candidate], look: Look) -> Selection | _Refused:
    """Filtered, weighed, claimed."""
    hosts = await hosts_of(control.conf, control.db, control.clock.now(), wanted, candidates) if candidates else ()
    fitting, rejected = passing(hosts, wanted, _filters(control.conf, wanted))
    if fitting:
        return await _claim_best(control, wanted, fitting, look)
    rejections = _rejections(rejected)
    return _Refused(
        f"All {len(candidates)} candidate hosts were rejected: {rejections or 'not registered'}.",
        f"unregistered={len(candidates) - len(hosts)} rejected_by={rejections or 'none'}",
    )


def _filters(conf: Any, wanted: Wanted) -> Mapping[str, Filter]:
    names = [*conf.scheduler.enabled_filters, "DiskPressureFilter"]  # a full disk is no preference
    if wanted.cpu_policy == "dedicated":
        names.append("CpuSetFilter")  # a promise, not an operator's preference
    if wanted.leaves:
        names.append("LeavingFilter")
    if wanted.capsule:
        names.append("CapsuleFilter")
    if requested(wanted.hints):
        names.append("PciPassthroughFilter")
    return enabled(names)


async def _claim_best(control: Tools, wanted: Wanted, hosts: Sequence[Host], look: Look) -> Selection | _Refused:
    """The best host that still has room when claimed; another request may have taken it since the look."""
    conf = control.conf
    fractional = conf.compute.fractional_cpu
    asked = wanted.amounts.placement(fractional=fractional)
    left = list(hosts)
    while left:
        # Chosen and noted without a pause in between: whoever chooses at the same time sees it.
        host = best_first([with_unseen(one, look.unseen()) for one in left], asked)[0]
        left = [one for one in left if one.hostname != host.hostname]
        limits_disk = host.disk_quota_supported and not wanted.capsule
        amounts = wanted.amounts.on_host(default_disk=conf.default_disk, disk_quota_supported=limits_disk)
        claims = amounts.placement(fractional=fractional)
        with look.choice(host.provider_uuid, claims):
            claimed = await control.placement.claim(
                wanted.consumer, host.provider_uuid, claims, project_id=wanted.project_id, user_id=wanted.user_id
            )
        if claimed and await _pin(control, wanted, host):
            LOG.info("host chosen container=%s host=%s", wanted.consumer, host.hostname)
            return Selection(host.hostname, host.provider_uuid, amounts.disk)
        LOG.info("claim lost container=%s host=%s: trying the next", wanted.consumer, host.hostname)
    if wanted.cpu_policy == "dedicated":  # a claim may be held of a host whose CPUs another took first
        await control.placement.release(wanted.consumer)
    return _Refused(
        f"None of {len(hosts)} fitting hosts had room left when it was claimed.",
        f"claims_refused={len(hosts)}",
    )


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


def _rejections(counts: Mapping[str, int]) -> str:
    """``DiskPressureFilter (DISK_PRESSURE): 1``."""
    return _text({f"{name} ({CONDITIONS[name]})" if name in CONDITIONS else name: n for name, n in counts.items()})


def _text(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {amount}" for name, amount in amounts.items())
