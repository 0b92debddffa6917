"""What this host still has of containers that are another host's by now, or nobody's; and what it takes back."""

from __future__ import annotations

import logging
from datetime import timedelta

from zun.compute.holdings.allocation import claim_here
from zun.compute.node import Node
from zun.domain.container import VolumeMapping
from zun.domain.errors import ZunError
from zun.domain.lifecycle import Task
from zun.domain.moving import NOWHERE, Move
from zun.store import containers, moves, operations, volume_mappings

LOG = logging.getLogger(__name__)

_BATCH = 200


async def take_back(node: Node) -> int:
    """Evacuations of this node that have not got a target end, and the containers stay; how many. Called once the node
    is heard again: by then nobody gives one a target any more. A drain goes on."""
    kept = 0
    async with node.db.read() as connection:
        rows = [row for row in await containers.of_host(connection, node.host) if row.task_state == Task.EVACUATING]
        going = await moves.under_way(connection, node.host) if rows else {}
    for row in rows:
        move = going.get(row.uuid)
        if move is None or move.host != NOWHERE or Move.of(move.params).drain:
            continue
        async with node.db.write() as connection:
            now = node.clock.now()
            deadline = now + timedelta(seconds=node.conf.compute.create_deadline)
            taken = await moves.give_up(connection, move, "its host is there again", now, deadline)
        if taken:
            kept += 1
            await claim_here(node, row)
    return kept


async def remove(node: Node, uuid: str) -> None:
    """The engine's container and its interfaces, unless it carries another's mark: hosts may share an engine. Ports,
    volumes and allocation are the other host's."""
    observed = await node.runtime.inspect(uuid)
    if observed is not None and observed.owner != node.owner:
        return
    async with node.network.leaving(uuid):
        await node.runtime.remove(uuid, force=True)


async def forget_mounts(node: Node) -> int:
    """Mounts of containers that are elsewhere, and of such as no record knows, and the places where a killed agent was
    about to mount; how many. Those that a delete still waits to take down stay for it. Raises VolumeDetachFailed after
    all had their turn."""
    fault: ZunError | None = None
    forgotten = 0
    for driver in node.volumes.values():
        held = sorted(one.uuid for one in await driver.standing() if _goes(one))
        for start in range(0, len(held), _BATCH):
            for mapping in await _not_ours(node, held[start : start + _BATCH]):
                try:
                    await driver.forget(mapping)
                    forgotten += 1
                except ZunError as error:
                    LOG.error("action=homecoming mapping=%s result=left reason=%s", mapping, error.message)
                    fault = error
    if fault is not None:
        raise fault
    return forgotten


def _goes(one: VolumeMapping) -> bool:
    """Files, empty places, and what has its data elsewhere: an image of this host's is mounted for somebody."""
    return one.kind == "bind" or one.driver != "local" or one.volume_id is None


async def _not_ours(node: Node, held: list[str]) -> list[str]:
    async with node.db.read() as connection:
        hosts = await volume_mappings.hosts(connection, held)
        waiting = {operation.container_uuid for operation in await operations.next_of_host(connection, node.host)}
    return [mapping for mapping in held if _is_elsewhere(node, waiting, *hosts.get(mapping, ("", None)))]


def _is_elsewhere(node: Node, waiting: set[str], container: str, host: str | None) -> bool:
    """A mapping whose container has no host is being made, or is removed from the control plane; one that is not on
    record has no container either."""
    known_elsewhere = bool(container) and host not in (None, node.host)
    return not container or (known_elsewhere and container not in waiting)
