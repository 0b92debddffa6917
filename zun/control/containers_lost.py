"""Containers on a host that is down: what a delete frees before the host is back to remove them (S3.2).

Nothing is scheduled to such a host, and a host that returns removes before it takes anything new: so what the container
held may be given to others at once, though its process may still run there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.control.base import Control
from zun.control.container_placing import give_back
from zun.domain.container import Container
from zun.domain.errors import ZunError
from zun.domain.lifecycle import Status
from zun.domain.operation import FREED, Kind, Operation
from zun.store import capsules, operations
from zun.store import containers as store

LOG = logging.getLogger(__name__)


async def free(control: Control, container: Container, live: Sequence[Operation]) -> bool:
    """A delete that waits for a host which went down meanwhile: frees as one asked for now would. False when the row
    is no longer as read."""
    waiting = [operation for operation in live if operation.kind == Kind.DELETE]
    if not (control.conf.compute.free_on_lost_host and container.counted and container.status == Status.DELETING):
        return True

    async def write(connection: AsyncConnection) -> bool:
        expect = {"status": Status.DELETING, "host": container.host, "counted": True}
        if not await store.update(connection, container.uuid, expect, {"counted": False}, control.clock.now()):
            return False
        await capsules.stop_counting(connection, container, control.clock.now())
        for operation in waiting:
            await operations.set_params(connection, operation.id, {**operation.params, FREED: True})
        return True

    if not await control.db.run(write):
        return False
    await release_allocation(control, container.uuid)
    return True


async def release_allocation(control: Control, uuid: str) -> None:
    """Postponed to the host's return where Placement does not answer: its delete walks the same way."""
    try:
        await give_back(control, uuid)
    except ZunError as error:
        LOG.warning("action=delete container=%s result=release postponed reason=%s", uuid, error.message)
