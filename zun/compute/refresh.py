"""One look at one container: the engine's facts into the row, or what follows when the engine lost it (S5.5–S5.10)."""

from __future__ import annotations

import logging
import uuid as uuids
from datetime import timedelta
from typing import Any

from zun.compute import observe, unhealthy
from zun.compute.node import Node
from zun.domain.container import Container, Type
from zun.domain.lifecycle import Status, Task
from zun.domain.observed import UNHEALTHY
from zun.domain.operation import Kind
from zun.store import containers, operations

LOG = logging.getLogger(__name__)

TRIES = 5
"""Looks at a row that changes between the look and the write."""

HEALABLE = frozenset({Status.CREATED, Status.RUNNING, Status.STOPPED, Status.ERROR, Status.PAUSED, Status.UNKNOWN})


async def refresh(node: Node, uuid: str, *, settled: bool = True) -> bool:
    """Bring the row in line with the engine; True if it was changed. Leaves rows alone that an operation works on
    (``node.unseen`` keeps them for its end), that are not this host's, or that were never made. ``settled`` False: an
    event just came, and a removal in progress is not yet an end (what the container was before decides how it is
    healed). A row that somebody changed meanwhile is looked at again, so that no news is lost."""
    for _ in range(TRIES):
        changed = await _look(node, uuid, settled=settled)
        if changed is not None:
            return changed
    LOG.warning("action=observe container=%s result=postponed reason=the row never stood still", uuid)
    return False


async def _look(node: Node, uuid: str, *, settled: bool) -> bool | None:
    """One look; None when the row changed between it and the write."""
    if uuid in node.fenced:
        return False
    node.unseen.add(uuid)  # before the row is read: an operation that ends from now on finds it
    async with node.db.read() as connection:
        row = await containers.get(connection, uuid)
    if row is not None and row.host == node.host and (row.task_state or row.container_type != Type.CONTAINER):
        return False
    node.unseen.discard(uuid)
    if row is None or row.host != node.host or row.container_id is None:
        return False
    observed = await node.runtime.inspect(uuid)
    if observed is not None and observed.owner != node.owner:
        LOG.error("action=observe container=%s result=foreign owner=%s", uuid, observed.owner)
        return False
    if observed is None:
        return await _vanished(node, row)
    if observed.state == "removing" and not settled:
        return False
    told: dict[str, Any] = {"status_reason": None} if row.status_reason == unhealthy.LEFT else {}
    if unhealthy.ails(row, observed):
        if await unhealthy.may_be_replaced(node, row):
            return await _made_anew(node, row, {"run": True, UNHEALTHY: True})
        told = {"status_reason": unhealthy.LEFT}
    values = observe.changed(row, told | observe.values_of(observed, row))
    if not values:
        return False
    if values.get("status") == Status.RUNNING:
        values["status_reason"] = None
    if follow_up := observe.ends_by_itself(row, values.get("status", row.status)):
        return await announce(node, row, follow_up, {"force": True}, values | {"status": Status.DELETED}, Task.DELETING)
    async with node.db.write() as connection:
        return await containers.update(connection, uuid, _expected(row), values, node.clock.now()) or None


async def _vanished(node: Node, row: Container) -> bool | None:
    """The engine, answering, does not have it: remove, heal, or say so."""
    if row.auto_remove:
        return await announce(node, row, Kind.DELETE, {"force": True}, {"status": Status.DELETED}, Task.DELETING)
    if row.auto_heal and row.status in HEALABLE:
        run = row.status in (Status.RUNNING, Status.PAUSED, Status.UNKNOWN)
        LOG.warning("action=heal container=%s engine_id=%s", row.uuid, row.container_id)
        return await _made_anew(node, row, {"run": run})
    reason = f"No such container: {row.container_id} in {node.runtime.name}"
    if row.status == Status.ERROR and row.status_reason == reason:
        return False
    values: dict[str, Any] = {"status": Status.ERROR, "status_reason": reason, "status_detail": None}
    async with node.db.write() as connection:
        return await containers.update(connection, row.uuid, _expected(row), values, node.clock.now()) or None


async def _made_anew(node: Node, row: Container, params: dict[str, Any]) -> bool | None:
    wanted = params | {"healing": True}
    return await announce(node, row, Kind.REBUILD, wanted, {"status": Status.REBUILDING}, Task.REBUILDING)


def _expected(row: Container) -> dict[str, Any]:
    return {"generation": (row.generation,), "host": (row.host,), "task_state": None}


async def announce(
    node: Node, row: Container, kind: str, params: dict[str, Any], values: dict[str, Any], task: Task | None
) -> bool | None:
    """The node's own operation, in the transaction of the status it announces; recorded like a user's."""
    now = node.clock.now()
    seconds = node.conf.compute.create_deadline if kind == Kind.REBUILD else node.conf.compute.operation_deadline
    async with node.db.write() as connection:
        done = await containers.update(connection, row.uuid, _expected(row), values | {"task_state": task}, now)
        if done:
            await operations.insert(
                connection,
                container_uuid=row.uuid,
                kind=kind,
                host=node.host,
                request_id=f"req-{uuids.uuid4()}",
                user_id=row.user_id,
                project_id=row.project_id,
                params=params,
                now=now,
                deadline=now + timedelta(seconds=seconds),
            )
    if done:
        await node.bus.ring(node.host)
    return done or None
