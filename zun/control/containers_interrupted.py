"""Placings and resizes that a process began and did not live to end, or whose end it could not know: engine and claim
are told again what the record says. The reaper's.

They are known by the lease of their request (``container_exclusive``), which nobody gave up.
"""

from __future__ import annotations

import logging

from zun.control.base import Control
from zun.control.container_exclusive import LONGEST, PREFIX
from zun.control.container_placing import give_back
from zun.control.containers_update import Size, claim_size
from zun.domain.container import Container, Type
from zun.domain.errors import EngineNotFound, HostUnreachable, ZunError
from zun.store import containers, leases

LOG = logging.getLogger(__name__)

MOST = 20
"""In one look."""
ANSWER_SECONDS = 10.0
"""For which a node is waited for."""


async def settle(control: Control, owner: str) -> int:
    """How many were set right. What cannot be now is tried again at the next look."""
    async with control.db.read() as connection:
        names = await leases.ended(connection, PREFIX, control.clock.now(), MOST)
    silent: set[str | None] = set()
    settled = 0
    for name in names:
        async with control.db.write() as connection:
            if not await leases.acquire(connection, name, owner, control.clock.now(), LONGEST):
                continue
            row = await containers.get(connection, name.removeprefix(PREFIX))
        again = row is not None and (row.host in silent or not await _set_right(control, row, silent))
        async with control.db.write() as connection:
            if again:
                await leases.end(connection, name, owner, control.clock.now())
            else:
                await leases.release(connection, name, owner)
        settled += not again
    return settled


async def _set_right(control: Control, row: Container, silent: set[str | None]) -> bool:
    """Whether there is nothing left to do; ``silent`` notes a host that did not answer."""
    try:
        if row.host is None:
            if row.task_state is None:
                await give_back(control, row.uuid)
        elif row.container_id is not None and row.container_type == Type.CONTAINER:
            await _as_recorded(control, row, row.host)
    except ZunError as error:
        LOG.warning("action=settle container=%s result=failed reason=%s", row.uuid, error.message)
        if isinstance(error, HostUnreachable):
            silent.add(row.host)
        return not error.retryable
    LOG.warning("action=settle container=%s result=as recorded cpu=%s memory=%s", row.uuid, row.cpu, row.memory)
    return True


async def _as_recorded(control: Control, row: Container, host: str) -> None:
    try:
        params = {"uuid": row.uuid, "cpu": row.cpu, "memory": row.memory}
        await control.bus.call(host, "update", params, ANSWER_SECONDS)
    except EngineNotFound:
        LOG.info("action=settle container=%s reason=the engine does not have it", row.uuid)
    await claim_size(control, row, host, Size(row.cpu, row.memory))
