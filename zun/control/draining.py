"""Empty a node that is alive: no new containers, and what can be moved moves (``zun.control.moves``). Run by
``zun-manage node drain``; what it began goes on without it, and a second run goes on with that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from zun.control import moves
from zun.domain.container import Container, VolumeMapping
from zun.domain.errors import Conflict, ZunServiceNotFound
from zun.domain.lifecycle import Task
from zun.domain.moving import NOWHERE, obstacle
from zun.domain.operation import Operation
from zun.domain.service import COMPUTE, is_up
from zun.scheduler.scheduler import Tools
from zun.store import capsules, services
from zun.store import moves as store

REASON = "drain"
"""``disabled_reason`` of a node that is drained."""
LOOK = 1.0
"""Seconds between looks whether something of the node has changed."""
STEP = 10.0
"""Seconds after which it is looked at whole though nothing has."""


@dataclass(frozen=True, slots=True)
class Stay:
    """A container that is still on the node, and why."""

    uuid: str
    name: str
    reason: str
    passes: bool = False
    """Will it go, or can it soon be moved? Else a drain has done what it can."""


@dataclass(slots=True)
class Report:
    """What is on a node. ``moved``: containers that this run saw leave."""

    host: str
    up: bool
    disabled: bool
    disabled_reason: str | None
    stays: Sequence[Stay] = ()
    moved: int = 0

    @property
    def empty(self) -> bool:
        return not self.stays

    @property
    def over(self) -> bool:
        """Is there nothing to wait for?"""
        return not any(one.passes for one in self.stays)


@dataclass(slots=True)
class Drain:
    """One run: each container is tried once in it."""

    tools: Tools
    host: str
    _owner: str = field(default_factory=lambda: str(uuid4()))
    _tried: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)
    _placing: bool = False
    """Did moves wait for their target?"""

    async def run(self, seconds: float) -> Report:
        """Until the node is empty, or nothing more can be moved, or the time is over. Raises ZunServiceNotFound,
        Conflict for a node that is down, Unavailable."""
        clock = self.tools.clock
        end = clock.monotonic() + seconds
        await _disable(self.tools, self.host)
        while True:
            before = await self._pulse()
            report = await self.step()
            if report.over or clock.monotonic() >= end:
                return report
            # A move that waits for its target may be given one as soon as its lease, or its pause, is over.
            await self._wait(before, min(end, clock.monotonic() + (LOOK if self._placing else STEP)))

    async def _wait(self, before: tuple[int, int], until: float) -> None:
        """For something to change, or for the time to be over."""
        clock = self.tools.clock
        while True:
            await clock.sleep(LOOK)
            if clock.monotonic() >= until or await self._pulse() != before:
                return

    async def _pulse(self) -> tuple[int, int]:
        async with self.tools.db.read() as connection:
            return await store.pulse(connection, self.host)

    async def step(self) -> Report:
        """Begin what can be begun, give targets to what waits for one; what is on the node then."""
        async with self.tools.db.read() as connection:
            found, going = await store.of_host(connection, self.host), await store.under_way(connection, self.host)
        self._placing = any(move.host == NOWHERE for move in going.values())
        for row, mappings in found:
            self._seen.add(row.uuid)
            await self._move(row, mappings, going.get(row.uuid))
        report = await look(self.tools, self.host, self._tried)
        report.moved = len(self._seen - {one.uuid for one in report.stays})
        return report

    async def _move(self, row: Container, mappings: Sequence[VolumeMapping], going: Operation | None) -> None:
        operation_id = None
        if row.task_state == Task.EVACUATING:
            if going is not None and going.host == NOWHERE:
                operation_id = going.id
        elif row.task_state is None and row.uuid not in self._tried and obstacle(row, mappings) is None:
            operation_id = await moves.begin(self.tools, row, drain=True)
        if operation_id is not None:
            self._tried.add(row.uuid)
            await moves.place(self.tools, operation_id, self._owner)


async def undrain(tools: Tools, host: str) -> None:
    """The node takes containers again, and moves that have no target yet end. Raises ZunServiceNotFound, Conflict when
    the node was disabled by somebody else."""
    service = await _service(tools, host)
    if service["disabled"] and service["disabled_reason"] != REASON:
        raise Conflict(f"{host} is not drained; it was disabled for another reason: {service['disabled_reason']}.")
    await _change(tools, host, disabled=False, reason=None)
    async with tools.db.read() as connection:
        going = await store.under_way(connection, host)
    for move in going.values():
        if move.host == NOWHERE:
            await moves.give_up(tools, move, f"{host} is no longer drained")


async def look(tools: Tools, host: str, tried: set[str] | frozenset[str] = frozenset()) -> Report:
    """What is on the node, and why; ``tried``: what was begun and, where it is idle, failed. Raises
    ZunServiceNotFound."""
    service = await _service(tools, host)
    async with tools.db.read() as connection:
        found = await store.of_host(connection, host)
        failed = await store.last_errors(connection, host) if tried else {}
        pods = await capsules.of_host(connection, host)
    stays = [_stay(row, mappings, tried, failed.get(row.uuid)) for row, mappings in found]
    stays += [Stay(row.uuid, row.name, str(obstacle(row, ()))) for row in pods]
    up = is_up(service, tools.clock.now(), tools.conf.service_down_time)
    return Report(host, up, service["disabled"], service["disabled_reason"], stays)


def _stay(
    row: Container, mappings: Sequence[VolumeMapping], tried: set[str] | frozenset[str], failed: str | None
) -> Stay:
    if row.task_state == Task.EVACUATING:
        return Stay(row.uuid, row.name, "is moving", passes=True)
    if row.task_state is not None:
        return Stay(row.uuid, row.name, f"is at work ({row.task_state})", passes=True)
    if reason := obstacle(row, mappings):
        return Stay(row.uuid, row.name, reason)
    if row.uuid not in tried:
        return Stay(row.uuid, row.name, "can be moved", passes=True)
    return Stay(row.uuid, row.name, f"could not be moved: {failed or row.status_reason or 'see its actions'}")


async def _service(tools: Tools, host: str) -> Mapping[str, Any]:
    async with tools.db.read() as connection:
        service = await services.get(connection, host, COMPUTE)
    if service is None:
        raise ZunServiceNotFound(host, COMPUTE)
    return service


async def _disable(tools: Tools, host: str) -> None:
    service = await _service(tools, host)
    if not is_up(service, tools.clock.now(), tools.conf.service_down_time):
        raise Conflict(f"{host} is down: only a node that is alive can be drained.")
    if not service["disabled"]:
        await _change(tools, host, disabled=True, reason=REASON)


async def _change(tools: Tools, host: str, *, disabled: bool, reason: str | None) -> None:
    values = {"disabled": disabled, "disabled_reason": reason}
    async with tools.db.write() as connection:
        await services.change(connection, host, COMPUTE, values, tools.clock.now())
