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
from zun.domain.service import COMPUTE, is_up
from zun.scheduler.scheduler import Tools
from zun.store import capsules, services
from zun.store import moves as store

REASON = "drain"
"""``disabled_reason`` of a node that is drained."""
LOOK = 1.0
"""Seconds between looks at how the moves go."""


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

    async def run(self, seconds: float) -> Report:
        """Until the node is empty, or nothing more can be moved, or the time is over. Raises ZunServiceNotFound,
        Conflict for a node that is down, Unavailable."""
        clock = self.tools.clock
        end = clock.monotonic() + seconds
        await _disable(self.tools, self.host)
        while True:
            report = await self.step()
            if report.over or clock.monotonic() >= end:
                return report
            await clock.sleep(LOOK)

    async def step(self) -> Report:
        """Begin what can be begun, give targets to what waits for one; what is on the node then."""
        for row, mappings in await _on_host(self.tools, self.host):
            self._seen.add(row.uuid)
            await self._move(row, mappings)
        report = await look(self.tools, self.host, self._tried)
        report.moved = len(self._seen - {one.uuid for one in report.stays})
        return report

    async def _move(self, row: Container, mappings: Sequence[VolumeMapping]) -> None:
        operation_id = None
        if row.task_state == Task.EVACUATING:
            async with self.tools.db.read() as connection:
                waiting = await store.of_container(connection, row.uuid)
            if waiting is not None and waiting.host == NOWHERE:
                operation_id = waiting.id
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
    for row, _ in await _on_host(tools, host):
        async with tools.db.read() as connection:
            move = await store.of_container(connection, row.uuid)
        if move is not None and move.host == NOWHERE:
            await moves.give_up(tools, move, f"{host} is no longer drained")


async def look(tools: Tools, host: str, tried: set[str] | frozenset[str] = frozenset()) -> Report:
    """What is on the node, and why; ``tried``: what was begun and, where it is idle, failed. Raises
    ZunServiceNotFound."""
    service = await _service(tools, host)
    stays = [await _stay(tools, row, mappings, tried) for row, mappings in await _on_host(tools, host)]
    async with tools.db.read() as connection:
        pods = await capsules.of_host(connection, host)
    stays += [Stay(row.uuid, row.name, str(obstacle(row, ()))) for row in pods]
    up = is_up(service, tools.clock.now(), tools.conf.service_down_time)
    return Report(host, up, service["disabled"], service["disabled_reason"], stays)


async def _stay(
    tools: Tools, row: Container, mappings: Sequence[VolumeMapping], tried: set[str] | frozenset[str]
) -> Stay:
    if row.task_state == Task.EVACUATING:
        return Stay(row.uuid, row.name, "is moving", passes=True)
    if row.task_state is not None:
        return Stay(row.uuid, row.name, f"is at work ({row.task_state})", passes=True)
    if reason := obstacle(row, mappings):
        return Stay(row.uuid, row.name, reason)
    if row.uuid not in tried:
        return Stay(row.uuid, row.name, "can be moved", passes=True)
    async with tools.db.read() as connection:
        failed = await store.last_error(connection, row.uuid)
    return Stay(row.uuid, row.name, f"could not be moved: {failed or row.status_reason or 'see its actions'}")


async def _on_host(tools: Tools, host: str) -> Sequence[tuple[Container, Sequence[VolumeMapping]]]:
    async with tools.db.read() as connection:
        return await store.of_host(connection, host)


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
