"""This node's capsules against the engine's lists: which to look at closely, and what is nobody's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from zun.compute.capsules.holdings import engine_of, remove_sandbox
from zun.compute.node import Node
from zun.compute.sync import Lasting, made
from zun.domain.container import Container, Type
from zun.domain.errors import ZunError
from zun.domain.lifecycle import Status, status_of_list
from zun.domain.observed import Observed
from zun.runtime.pods import Sandbox
from zun.store import capsules, containers, operations

LOG = logging.getLogger(__name__)


def differing(
    rows: Sequence[Container],
    inside: Mapping[str, Sequence[Container]],
    sandboxes: Mapping[str, Sandbox],
    seen: Mapping[str, Observed],
) -> list[str]:
    """Idle capsules whose rows and engine disagree, or whose members wait to be started. Pure."""
    found = []
    for row in rows:
        if row.task_state is not None or row.container_id is None:
            continue
        sandbox = sandboxes.get(row.uuid)
        regular = [member for member in inside.get(row.uuid, ()) if member.container_type == Type.MEMBER]
        if sandbox is None or not sandbox.ready:
            told = row.status == Status.ERROR and (row.restart_policy or {}).get("Name") != "always"
            if not told:
                found.append(row.uuid)
        elif any(_differs(member, seen.get(member.uuid)) for member in regular):
            found.append(row.uuid)
    return found


def _differs(member: Container, observed: Observed | None) -> bool:
    if observed is None:
        return member.status != Status.ERROR
    waits = member.restart_at is not None or observed.attempt < member.restarts
    return waits or status_of_list(observed.state) != member.status


class Comparison:
    """``once`` compares; what is nobody's is removed when it was nobody's for some time."""

    def __init__(self, node: Node, busy: Callable[[], frozenset[str]]) -> None:
        self._node = node
        self._busy = busy
        grace = float(node.conf.compute.orphan_grace_seconds)
        self._suspects = Lasting(node.clock, grace)
        self._forgotten = Lasting(node.clock, grace)

    async def once(self) -> Sequence[str]:
        """Uuids of capsules to look at. Raises EngineUnreachable."""
        node, pods = self._node, engine_of(self._node)
        sandboxes, members = await asyncio.gather(pods.sandboxes(), pods.list())
        async with node.db.read() as connection:
            rows = await capsules.of_host(connection, node.host)
            inside = await capsules.members_of(connection, [row.uuid for row in rows])
        ours = {one.uuid: one for one in sandboxes if one.owner == node.owner}
        ready = {one.uuid: one for one in sandboxes if one.owner == node.owner and one.ready}
        seen = {one.uuid: one for one in members if one.owner == node.owner}
        todo = differing(rows, inside, {**ours, **ready}, seen)
        removed = await self._remove_orphans(frozenset(ours) - made(rows))
        removed += await self._end_forgotten()
        if node.pod_network is not None and node.pod_network is not node.network:
            await node.pod_network.collect_idle()
        LOG.info(
            "action=compare-capsules rows=%d sandboxes=%d look=%d orphans=%d", len(rows), len(ours), len(todo), removed
        )
        return todo

    async def _remove_orphans(self, orphans: frozenset[str]) -> int:
        if not orphans:
            self._suspects.of(frozenset())
            return 0
        at_work = await self._at_work()
        removed = 0
        for uuid in self._suspects.of(orphans - at_work):
            try:
                removed += await remove_stray(self._node, uuid)
            except ZunError as error:
                LOG.warning("action=compare-capsules capsule=%s result=failed reason=%s", uuid, error.message)
        return removed

    async def _end_forgotten(self) -> int:
        """What an engine that was killed left of sandboxes: found twice, and no operation at work on its capsule."""
        pods = engine_of(self._node)
        found = {f"{one.kind} {one.name}": one for one in await pods.forgotten()}
        if not found:
            self._forgotten.of(frozenset())
            return 0
        at_work = await self._at_work()
        removed = 0
        for name in self._forgotten.of(frozenset(name for name, one in found.items() if one.capsule not in at_work)):
            try:
                removed += await pods.end_forgotten(found[name])
            except (ZunError, OSError) as error:
                LOG.warning("action=compare-capsules forgotten=%s result=failed reason=%s", name, error)
        return removed

    async def _at_work(self) -> frozenset[str]:
        async with self._node.db.read() as connection:
            waiting = await operations.next_of_host(connection, self._node.host)
        return frozenset(operation.container_uuid for operation in waiting) | self._busy()


async def remove_stray(node: Node, uuid: str) -> bool:
    """A sandbox of ours that no row of this node says was made: removed with all that belongs to it."""
    async with node.db.read() as connection:
        row = await containers.get(connection, uuid)
    if row is not None and row.host == node.host and (row.task_state or row.container_id):
        return False
    LOG.warning("action=compare-capsules capsule=%s result=orphan removed", uuid)
    await remove_sandbox(node, uuid)
    if row is None:
        await (node.pod_network or node.network).release_ports(uuid)
        await node.placement.release(uuid)
    return True


async def remove_strays(node: Node) -> int:
    """At an agent's start: no grace, nothing of this node is being made. Raises EngineUnreachable."""
    if node.pods is None or node.pods_info is None:
        return 0
    ours = {one.uuid for one in await node.pods.sandboxes() if one.owner == node.owner}
    async with node.db.read() as connection:
        known = {row.uuid for row in await capsules.of_host(connection, node.host)}
        waiting = {operation.container_uuid for operation in await operations.next_of_host(connection, node.host)}
    return sum([await remove_stray(node, uuid) for uuid in sorted(ours - known - waiting)])
