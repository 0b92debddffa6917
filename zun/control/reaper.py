"""The reaper: ends operations that outlived their deadline, so that nothing is stuck for ever (S1.26).

Any API process, one at a time by a lease. The deadline is absolute; deletes and releases never end, they get more time.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from datetime import timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.control import container_volumes, containers_interrupted, moves, telling
from zun.control.base import Control
from zun.control.containers_delete import HERE, finish_here, release_from_here
from zun.domain.container import Container, Type
from zun.domain.errors import ZunError
from zun.domain.lifecycle import Status
from zun.domain.operation import CAPSULE, Kind, Operation
from zun.store import (
    capsules,
    containers,
    follow_ups,
    idempotency,
    images,
    leases,
    operations,
    sessions,
    status_events,
    volume_mappings,
)

LOG = logging.getLogger(__name__)

LEASE = "reaper"
PRUNE_LEASE = "prune-actions"
PRUNE_EVERY = timedelta(hours=1)
PRUNE_BATCHES = 500
NEVER_END = frozenset({Kind.DELETE, Kind.RELEASE, Kind.IMAGE_DELETE})

CREATE_FAILED = "Container failed to create correctly"
"""Clients and operators know this beginning."""

ENDS_IN_ERROR = frozenset({Status.CREATING, Status.REBUILDING, Status.RESTARTING})
"""Statuses only the operation itself would have left. Any other status is the engine's word and stays (rule 4)."""


async def run(control: Control, stop: asyncio.Event) -> None:
    """Reap every ``reaper_interval`` seconds until ``stop`` is set."""
    owner = str(uuid4())
    interval = float(control.conf.compute.reaper_interval)
    while not stop.is_set():
        try:
            LOG.debug("action=reap %s", await reap_once(control, owner))
        except ZunError as error:
            LOG.warning("action=reap result=failed reason=%s", error.message)
        except Exception:
            LOG.exception("action=reap result=crashed")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(interval):
                await stop.wait()


async def reap_once(control: Control, owner: str) -> str:
    """One look at what is overdue; a sentence on what was done."""
    now = control.clock.now()
    length = timedelta(seconds=control.conf.compute.reaper_interval * 4)
    async with control.db.write() as connection:
        if not await leases.acquire(connection, LEASE, owner, now, length):
            return "Another process reaps."
        overdue = await operations.overdue(connection, now)
    ended = extended = 0
    for operation in overdue:
        if operation.kind == Kind.DELETE and operation.host == HERE:
            ended += await _finish_here(control, operation)
        elif operation.kind in NEVER_END:
            extended += await _extend(control, operation)
        elif operation.kind == Kind.IMAGE_PULL:
            ended += await _end_pull(control, operation)
        elif operation.kind == Kind.EVACUATE and operation.host != operation.params.get("target"):
            ended += bool(await moves.give_up(control, operation, reason_of(operation, None)))
        elif operation.kind == Kind.COMMIT:
            ended += await _end_commit(control, operation)
        else:
            ended += await _end(control, operation)
    settled = await containers_interrupted.settle(control, owner)
    swept = await container_volumes.sweep(control)
    pruned = await _prune(control)
    async with control.db.write() as connection:
        forgotten = await sessions.sweep(connection, now)
        keys = await idempotency.sweep(connection, now)
    await _prune_events(control)
    return (
        f"Ended {ended} operations, gave {extended} more time, settled {settled} requests, "
        f"swept {swept} volumes and {forgotten} sessions, forgot {pruned} old actions and {keys} keys of requests."
    )


async def _finish_here(control: Control, operation: Operation) -> bool:
    """A delete that a process of the control plane began and did not live to end."""
    try:
        await finish_here(control, operation.container_uuid, operation.id)
    except ZunError as error:
        LOG.warning("action=delete container=%s result=postponed reason=%s", operation.container_uuid, error.message)
        await _extend(control, operation)
        return False
    LOG.warning("action=reap kind=delete container=%s result=finished from here", operation.container_uuid)
    telling.over(control, operation, None, None)
    return True


async def _extend(control: Control, operation: Operation) -> bool:
    until = control.clock.now() + timedelta(seconds=control.conf.compute.operation_deadline)
    async with control.db.write() as connection:
        extended = await operations.extend(connection, operation.id, until)
    if extended:
        LOG.warning(
            "action=reap kind=%s container=%s host=%s result=still waiting attempts=%s",
            operation.kind,
            operation.container_uuid,
            operation.host,
            operation.attempt,
        )
    return extended


async def _end(control: Control, operation: Operation) -> bool:
    """End one operation: failed, the row told why, and what it held given back by its host."""
    now = control.clock.now()
    async with control.db.write() as connection:
        await containers.lock(connection, operation.container_uuid)
        step = await _step(connection, operation)
        if not await operations.finish(connection, operation.id, worker=None, now=now, error=True):
            return False
        row = await containers.get(connection, operation.container_uuid)
        reason = reason_of(operation, step)
        later = await operations.unfinished_of_container(connection, operation.container_uuid)
        announced = [other for other in later if other.kind != Kind.RELEASE]
        if row is not None and not announced:  # what a later operation announced is not overwritten
            outcome = _outcome(operation, row, reason)
            await containers.update(connection, row.uuid, {"status": row.status}, outcome, now)
            if outcome.get("status") and row.container_type == Type.CAPSULE:
                told = {"status": Status.ERROR, "status_reason": reason, "restart_at": None}
                await capsules.update_members(connection, row.uuid, told, now)
        gives_back = _gives_back(operation, row)
        if operation.kind == Kind.NETWORK_ATTACH and row is not None and not gives_back:
            await _queue_detach(connection, control, operation)
        if gives_back and operation.host:
            await _queue_release(connection, control, operation)
    LOG.warning(
        "action=reap kind=%s container=%s host=%s request_id=%s reason=%s",
        operation.kind,
        operation.container_uuid,
        operation.host,
        operation.request_id,
        reason,
    )
    left = row if row is None or announced else dataclasses.replace(row, **_outcome(operation, row, reason))
    telling.over(control, operation, left, reason)
    if not gives_back:
        return True
    if operation.host:
        await control.bus.ring(operation.host)
    else:
        await _release(control, operation.container_uuid)
    return True


async def _end_pull(control: Control, operation: Operation) -> bool:
    """An image its host never got: the record goes."""
    async with control.db.write() as connection:
        if not await operations.finish(connection, operation.id, worker=None, now=control.clock.now(), error=True):
            return False
        await images.delete(connection, operation.container_uuid)
    LOG.warning("action=reap kind=image_pull image=%s host=%s", operation.container_uuid, operation.host)
    return True


async def _end_commit(control: Control, operation: Operation) -> bool:
    """The container is not concerned; the image without data goes. The node cleans its engine when it learns of it."""
    now = control.clock.now()
    async with control.db.write() as connection:
        reason = reason_of(operation, await _step(connection, operation))
        if not await operations.finish(connection, operation.id, worker=None, now=now, error=True):
            return False
        await operations.add_event(connection, operation.id, "deadline", started=now, finished=now, error=reason)
    LOG.warning("action=reap kind=commit container=%s reason=%s", operation.container_uuid, reason)
    await control.bus.ring(operation.host)
    if control.image_store is not None:
        try:
            await control.image_store.discard(str(operation.params["image"]))
        except ZunError as error:
            LOG.warning("action=commit image=%s result=left behind reason=%s", operation.params["image"], error.message)
    return True


def reason_of(operation: Operation, step: str | None) -> str:
    """What people read: what was asked, how long it took, where it stood."""
    seconds = round((operation.deadline - operation.start_time).total_seconds())
    at = f" (step {step})" if step else " (the node had not begun)" if operation.attempt == 0 else ""
    if operation.kind == Kind.CREATE:
        return f"{CREATE_FAILED}: no progress within {seconds} seconds{at}"
    return f"The {operation.kind} did not finish within {seconds} seconds{at}; the host may be down or overloaded"


async def _step(connection: AsyncConnection, operation: Operation) -> str | None:
    """The step the operation is in, None when it has none open."""
    found = await operations.events(connection, operation.id)
    return next((str(event["event"]) for event in found if event["finish_time"] is None), None)


def _outcome(operation: Operation, row: Container, reason: str) -> dict[str, Any]:
    values: dict[str, Any] = {"status_reason": reason, "task_state": None}
    if row.status in ENDS_IN_ERROR or _gives_back(operation, row):
        values["status"] = Status.ERROR
    return values


def _gives_back(operation: Operation, row: Container | None) -> bool:
    """Creates hold nothing when they end. A container that exists in its engine keeps what it has: giving that back
    would remove the user's data because one request was slow."""
    return operation.kind == Kind.CREATE or row is None or row.container_id is None


async def _queue_release(connection: AsyncConnection, control: Control, operation: Operation) -> None:
    await _queue(connection, control, operation, Kind.RELEASE, {CAPSULE: True} if operation.params.get(CAPSULE) else {})


async def _queue_detach(connection: AsyncConnection, control: Control, operation: Operation) -> None:
    """What an attach had made by then is given back, as the row does not know of it."""
    network_id = operation.params["requested"]["network_id"]
    await _queue(connection, control, operation, Kind.NETWORK_DETACH, {"network_id": network_id})


async def _queue(
    connection: AsyncConnection, control: Control, operation: Operation, kind: str, params: dict[str, Any]
) -> None:
    now = control.clock.now()
    deadline = now + timedelta(seconds=control.conf.compute.operation_deadline)
    params = {"reason": "deadline", **params}
    await follow_ups.insert(connection, operation, kind, host=operation.host, params=params, now=now, deadline=deadline)


async def _release(control: Control, uuid: str) -> None:
    """An operation without host: what it holds is given back from here."""
    try:
        await release_from_here(control, uuid)
        async with control.db.read() as connection:
            mappings = await volume_mappings.of_container(connection, uuid)
        await container_volumes.discard(control, mappings)
    except ZunError as error:
        LOG.warning("action=release container=%s result=failed reason=%s", uuid, error.message)


async def _prune_events(control: Control) -> None:
    before = control.clock.now() - timedelta(seconds=control.conf.api.event_retention)
    for _ in range(PRUNE_BATCHES):
        if not await control.db.run(lambda connection: status_events.prune(connection, before)):
            return


async def _prune(control: Control) -> int:
    """Once an hour, whichever process: actions of containers that are long gone."""
    now = control.clock.now()
    before = now - timedelta(days=control.conf.compute.action_retention_days)
    async with control.db.write() as connection:
        if not await leases.acquire(connection, PRUNE_LEASE, str(uuid4()), now, PRUNE_EVERY):
            return 0
    forgotten = 0
    for _ in range(PRUNE_BATCHES):  # a batch is a transaction: others get their turn in between
        async with control.db.write() as connection:
            pruned = await operations.prune(connection, before)
        forgotten += pruned
        if not pruned:
            break
    return forgotten
