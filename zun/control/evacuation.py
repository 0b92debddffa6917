"""Who is moved, and when: containers with ``auto_heal`` of nodes that are surely lost. Every API process looks; one
at a time decides, by a lease.

A process that has just begun, or that could not read the database for a while, watches for one lease of the nodes
before it believes that one is silent: their heartbeats had nowhere to go meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from zun.control import moves
from zun.control.base import Control
from zun.domain.container import Container
from zun.domain.errors import ZunError
from zun.domain.lifecycle import Task
from zun.domain.moving import is_evacuated, is_surely_lost
from zun.domain.operation import Operation
from zun.domain.service import COMPUTE
from zun.store import leases, services
from zun.store import moves as store

LOG = logging.getLogger(__name__)

LEASE = "evacuation"
LOOKS = 4
"""Looks that the deciding process may miss before another one decides."""


async def run(control: Control, stop: asyncio.Event) -> None:
    """Look every ``evacuation_interval`` seconds until ``stop`` is set."""
    decider = Decider(control)
    while not stop.is_set():
        try:
            LOG.debug("action=evacuation %s", await decider.once())
        except ZunError as error:
            decider.blind()
            LOG.warning("action=evacuation result=failed reason=%s", error.message)
        except Exception:
            decider.blind()
            LOG.exception("action=evacuation result=crashed")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(control.conf.compute.evacuation_interval):
                await stop.wait()


class Decider:
    """One process's part of it."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._owner = str(uuid4())
        self._since: float | None = None
        """Since when it has looked without a gap; monotonic."""
        self._looked = 0.0

    def blind(self) -> None:
        """It could not look: what it saw before says nothing."""
        self._since = None

    async def once(self) -> str:
        """One look; a sentence on what was done."""
        control = self._control
        length = timedelta(seconds=control.conf.compute.evacuation_interval * LOOKS)
        async with control.db.write() as connection:
            if not await leases.acquire(connection, LEASE, self._owner, control.clock.now(), length):
                self.blind()
                return "Another process decides."
        begun = 0
        for host in await self._lost():
            begun += await self._evacuate(host)
        return f"Began {begun} evacuations, gave {await self._place()} moves their target."

    async def _lost(self) -> Sequence[str]:
        """Hosts that are surely lost."""
        control = self._control
        if not control.conf.compute.evacuate_after:
            return []
        now = control.clock.monotonic()
        gap = now - self._looked > control.conf.compute.evacuation_interval * LOOKS
        self._since = now if self._since is None or gap else self._since
        self._looked = now
        if now - self._since < control.conf.service_down_time:
            return []
        async with control.db.read() as connection:
            agents = await services.list_all(connection, COMPUTE)
        return believed(agents, [row["host"] for row in agents if self._is_lost(row)])

    def _is_lost(self, agent: Mapping[str, Any]) -> bool:
        return is_surely_lost(agent, self._control.clock.now(), self._control.conf.compute.evacuate_after)

    async def _evacuate(self, host: str) -> int:
        """Begin the moves of one lost host; moves that had come to it go on to another."""
        control = self._control
        async with control.db.read() as connection:
            found, going = await store.of_host(connection, host), await store.under_way(connection, host)
        begun = 0
        for row, mappings in found:
            if row.task_state == Task.EVACUATING:
                begun += await self._again(row, going.get(row.uuid))
            elif row.task_state is None and is_evacuated(row, mappings):
                begun += await moves.begin(control, row, drain=False) is not None
        return begun

    async def _again(self, row: Container, operation: Operation | None) -> bool:
        if operation is None or operation.host != row.host or not row.auto_heal:
            return False
        return await moves.take_from(self._control, operation, row)

    async def _place(self) -> int:
        """Targets for all moves that wait for one, whoever began them."""
        control, placed = self._control, 0
        async with control.db.read() as connection:
            waiting = await store.waiting(connection)
        for operation in waiting:
            result = await moves.place(control, operation.id, self._owner)
            if result is not None and result.host is not None:
                placed += 1
                await control.bus.ring(result.host)
        return placed


def believed(agents: Sequence[Mapping[str, Any]], lost: Sequence[str]) -> Sequence[str]:
    """``lost``, unless it is more than half of all: then it is the control plane that is cut off, and not they."""
    if 2 * len(lost) > len(agents):
        LOG.error("action=evacuation result=nothing reason=%s of %s nodes are silent", len(lost), len(agents))
        return []
    return lost
