"""Who holds what in Placement, compared with what the records say; and, when asked, made right.

Only what is ours is touched: a consumer that the records or operations know, or one claimed as a container's. Nova's
instances on a shared provider are neither. Containers with an operation at work are left to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from zun.domain.errors import Conflict
from zun.domain.resources import Amounts
from zun.placement.base import Placement
from zun.scheduler.scheduler import Tools
from zun.store import audit as store
from zun.store.audit import Holder

_TRIES = 5
_AT_ONCE = 8
"""Calls of Placement side by side."""

Holding = Mapping[str, int]


class Kind(StrEnum):
    """What can be wrong."""

    LEAKED = "leaked"
    """Held for a container that does not exist, or that holds nothing."""
    MISSING = "missing"
    """The container is on its host and holds nothing there."""
    WRONG = "wrong"
    """It holds other amounts, or holds them of another provider."""
    PROVIDER = "provider_without_node"
    """A provider of ours, and no node with its uuid."""


@dataclass(slots=True)
class Finding:
    """One thing that is wrong. ``held`` and ``wanted``: provider -> class -> amount."""

    kind: Kind
    consumer: str | None
    provider: str | None
    host: str | None
    held: Mapping[str, Holding] = field(default_factory=dict)
    wanted: Mapping[str, Holding] = field(default_factory=dict)
    healed: bool = False
    note: str = ""


@dataclass(slots=True)
class Report:
    """``others``: consumers on our providers that another service's are; never touched."""

    findings: list[Finding] = field(default_factory=list)
    providers: int = 0
    consumers: int = 0
    containers: int = 0
    others: int = 0

    @property
    def clean(self) -> bool:
        """Nothing is wrong, or nothing is any more."""
        return all(finding.healed for finding in self.findings)


async def audit(tools: Tools, *, heal: bool, wait: float) -> Report:
    """Look; what seems wrong is looked at again after ``wait`` seconds, because a claim is made just before its record
    is written. Raises Unavailable."""
    report = await look(tools)
    if report.findings and wait > 0:
        suspects = {_key(finding) for finding in report.findings}
        await tools.clock.sleep(wait)
        report = await look(tools)
        report.findings = [finding for finding in report.findings if _key(finding) in suspects]
    if heal:
        for finding in report.findings:
            finding.note = await make_right(tools, finding)
            finding.healed = not finding.note
    return report


def _key(finding: Finding) -> tuple[str, str | None]:
    return finding.kind, finding.consumer or finding.provider


async def look(tools: Tools) -> Report:
    """Placement first and the records after it: what was claimed before is recorded by then, or nearly."""
    placement = tools.placement
    providers = await placement.providers()
    held = await _held(placement, list(providers))
    async with tools.db.read() as connection:
        nodes = await store.nodes(connection)
        holders = await store.holders(connection)
        moving = await store.moving(connection)
        strangers = set(held) - set(holders)
        known = await store.known(connection, strangers)
    ours = known | await _claimed_as_ours(placement, strangers - known - moving)
    report = Report([], len(providers), len(held), len(holders), len(strangers - ours - moving))
    hosts = {uuid: name for name, uuid in nodes.items()}
    for uuid in sorted((set(held) | set(holders)) - moving):
        if uuid not in holders and uuid not in ours:
            continue
        finding = _compare(tools.conf, uuid, held.get(uuid, {}), holders.get(uuid), nodes)
        if finding is not None:
            report.findings.append(finding)
    for uuid, name in providers.items():
        if uuid not in hosts:
            report.findings.append(Finding(Kind.PROVIDER, None, uuid, name))
    return report


async def _held(placement: Placement, providers: Sequence[str]) -> dict[str, dict[str, Holding]]:
    """consumer -> provider -> resources."""
    gate, held = asyncio.Semaphore(_AT_ONCE), dict[str, dict[str, Holding]]()

    async def read(provider: str) -> None:
        async with gate:
            for consumer, resources in (await placement.consumers(provider)).items():
                held.setdefault(consumer, {})[provider] = resources

    await _all(read(provider) for provider in providers)
    return held


async def _claimed_as_ours(placement: Placement, consumers: set[str]) -> set[str]:
    gate, ours = asyncio.Semaphore(_AT_ONCE), set[str]()

    async def read(consumer: str) -> None:
        async with gate:
            if await placement.ours(consumer):
                ours.add(consumer)

    await _all(read(consumer) for consumer in consumers)
    return ours


async def _all(work: Any) -> None:
    """Side by side; the first fault as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from faults


def _compare(
    conf: Any, uuid: str, held: Mapping[str, Holding], holder: Holder | None, nodes: Mapping[str, str]
) -> Finding | None:
    if _homeless(holder, nodes):
        return None
    wanted = _wanted(conf, holder, nodes)
    host = holder.host if holder else None
    provider = next(iter(wanted or held), None)
    if not wanted:
        return Finding(Kind.LEAKED, uuid, provider, host, held) if held else None
    if not held:
        return Finding(Kind.MISSING, uuid, provider, host, {}, wanted)
    if any(held == form for form in _forms(conf, holder, nodes)):
        return None
    return Finding(Kind.WRONG, uuid, provider, host, held, wanted)


def _homeless(holder: Holder | None, nodes: Mapping[str, str]) -> bool:
    """On a host without a record: whose provider it should hold of cannot be told, so nothing is concluded."""
    return holder is not None and holder.made and holder.host not in nodes


def _wanted(conf: Any, holder: Holder | None, nodes: Mapping[str, str]) -> dict[str, Holding]:
    """provider -> resources; nothing for what was never made, or was given up."""
    forms = _forms(conf, holder, nodes)
    return forms[0] if forms else {}


def _forms(conf: Any, holder: Holder | None, nodes: Mapping[str, str]) -> list[dict[str, Holding]]:
    """As a claim of now would be, and as one made before fractional CPU was switched on or off."""
    if holder is None or not holder.made or not holder.counted or holder.host is None:
        return []
    amounts = Amounts(holder.cpu, holder.memory, holder.disk)
    now: bool = conf.compute.fractional_cpu
    return [{nodes[holder.host]: amounts.placement(fractional=fractional)} for fractional in (now, not now)]


async def make_right(tools: Tools, finding: Finding) -> str:
    """What stands in the way; empty when it is right now."""
    if finding.consumer is None:
        try:
            await tools.placement.remove_provider(finding.provider or "")
        except Conflict as reason:
            return reason.message
        return ""
    for _ in range(_TRIES):
        before = await _facts(tools, finding.consumer)
        if before[1]:
            return "an operation works on the container; look again later"
        if _homeless(before[0], before[2]):
            return "its host has no record"
        wanted = _wanted(tools.conf, before[0], before[2])
        if not wanted:
            await tools.placement.release(finding.consumer)
        elif not await _claim(tools, before[0], wanted):
            return "its host has no room for it"
        if await _facts(tools, finding.consumer) == before:
            return ""
    return "the container changes all the time"


async def _facts(tools: Tools, uuid: str) -> tuple[Holder | None, bool, dict[str, str]]:
    async with tools.db.read() as connection:
        holder = await store.holder(connection, uuid)
        return holder, bool(await store.moving(connection, uuid)), await store.nodes(connection)


async def _claim(tools: Tools, holder: Holder | None, wanted: Mapping[str, Holding]) -> bool:
    if holder is None:
        return False
    ((provider, resources),) = wanted.items()
    return await tools.placement.claim(
        holder.uuid, provider, resources, project_id=holder.project_id, user_id=holder.user_id
    )
