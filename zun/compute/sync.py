"""The sync: every 60 s this node's rows against the engine's list; finds what events missed, and what is nobody's.

Reads this host's rows only (rule 5). What to do is decided by a pure function on both lists.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zun.compute import moved
from zun.compute.node import LONGEST_ROUND, Node
from zun.compute.operations.commit import clean_leftovers
from zun.compute.refresh import refresh
from zun.domain.clock import Clock
from zun.domain.container import Container
from zun.domain.errors import ZunError
from zun.domain.lifecycle import status_of_list
from zun.domain.observed import UNHEALTHY, Observed
from zun.store import capsules, containers, operations, pinned_cpus

LOG = logging.getLogger(__name__)

BATCH = 16
"""Containers looked at side by side."""
PATIENCE = 5.0
"""Seconds that a round waits for one batch of looks; what takes longer ends by itself, and holds up nobody else."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sync will do: ``look`` at these closely, ``orphans`` are ours and no row says that they were made."""

    look: Sequence[str]
    orphans: Sequence[str]
    foreign: Sequence[str]


def made(rows: Sequence[Container]) -> set[str]:
    """Those that an engine may have: made in it, or an operation is at work."""
    return {row.uuid for row in rows if row.task_state is not None or row.container_id is not None}


def plan(rows: Sequence[Container], engine: Sequence[Observed], owner: str) -> Plan:
    """Compare both sides. Rows with a task, or never made in the engine, are left alone."""
    seen: Mapping[str, Observed] = {item.uuid: item for item in engine}
    known = made(rows)
    look, foreign = [], []
    for row in rows:
        if row.task_state is not None or row.container_id is None:
            continue
        item = seen.get(row.uuid)
        if item is not None and item.owner != owner:
            foreign.append(row.uuid)
        elif item is None or status_of_list(item.state) != row.status or (row.auto_heal and item.health == UNHEALTHY):
            look.append(row.uuid)
    orphans = [item.uuid for item in engine if item.owner == owner and item.uuid not in known]
    return Plan(look, orphans, foreign)


class Lasting:
    """Tells what was found in an earlier sync too, and has been so for ``grace`` seconds: only that is believed."""

    def __init__(self, clock: Clock, grace: float) -> None:
        self._clock = clock
        self._grace = grace
        self._since: dict[str, float] = {}

    def of(self, found: frozenset[str]) -> list[str]:
        """Those of ``found`` that are due; they are forgotten, and so is what is no longer found."""
        now = self._clock.monotonic()
        due = [uuid for uuid in found if uuid in self._since and now - self._since[uuid] >= self._grace]
        self._since = {uuid: self._since.get(uuid, now) for uuid in found - frozenset(due)}
        return sorted(due)


class Sync:
    """``soon`` asks for a run now; ``run`` works until cancelled."""

    def __init__(self, node: Node, busy: Callable[[], frozenset[str]]) -> None:
        self._node = node
        self._busy = busy
        self._now = asyncio.Event()
        grace = float(node.conf.compute.orphan_grace_seconds)
        self._suspects = Lasting(node.clock, grace)
        self._claims = Lasting(node.clock, grace)
        self._others: frozenset[str] = frozenset()
        """Consumers on our provider that are another service's (Nova's, on a shared host)."""
        self._late: dict[str, asyncio.Task[bool | None]] = {}
        """Looks and removals that outlasted their round: the engine does not answer about these containers."""

    def soon(self) -> None:
        self._now.set()

    async def run(self) -> None:
        try:
            await self._rounds()
        finally:
            late = list(self._late.values())
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _rounds(self) -> None:
        asked = self._node.conf.sync_container_state_interval
        interval = None if asked < 0 else float(asked or 60)
        again = 1.0
        while True:
            if interval is not None:
                self._node.vitals.beat("sync", interval + LONGEST_ROUND)
            self._now.clear()
            pause = interval
            try:
                LOG.info("action=sync %s", await self.once())
                again = 1.0
            except ZunError as error:  # what happened meanwhile is seen soon after the database or engine is back
                LOG.warning("action=sync result=failed reason=%s", error.message)
                pause = min(again, interval or again)
                again = min(again * 2, 30.0)
            except Exception:
                LOG.exception("action=sync result=crashed")
            try:
                async with asyncio.timeout(pause):
                    await self._now.wait()
            except TimeoutError:
                continue

    async def once(self) -> str:
        """One comparison; a sentence on what it found."""
        node = self._node
        engine = await node.runtime.list()
        async with node.db.read() as connection:
            rows = await containers.of_host(connection, node.host)
            pods = await capsules.of_host(connection, node.host)
        todo = plan(rows, engine, node.owner)
        for uuid in todo.foreign:
            LOG.error("action=sync container=%s result=foreign: the engine's container is not this deployment's", uuid)
        changed = await self._look(todo.look)
        await node.check_interfaces(rows, {item.uuid for item in engine if item.state in ("running", "paused")})
        removed = await self._remove_orphans(todo.orphans)
        released = await self._release_claims({row.uuid for row in [*rows, *pods]})
        await node.network.collect_idle()
        images = await clean_leftovers(node)
        return (
            f"rows={len(rows)} engine={len(engine)} looked={len(todo.look)} changed={changed} "
            f"orphans={removed} claims={released} images={images}"
        )

    async def _look(self, uuids: Sequence[str]) -> int:
        """Side by side, a few at a time; one that cannot be looked at holds up nobody, an engine that fails for a
        whole batch ends the look."""
        changed = 0
        uuids = [uuid for uuid in uuids if uuid not in self._late]
        for start in range(0, len(uuids), BATCH):
            batch = uuids[start : start + BATCH]
            results = await self._beside({uuid: refresh(self._node, uuid) for uuid in batch})
            changed += sum(bool(result) for result in results)
            if len(batch) == BATCH and all(result is None for result in results):
                LOG.warning("action=sync result=look given up left=%s", len(uuids) - start - BATCH)
                break
        return changed

    async def _beside(self, works: Mapping[str, Coroutine[Any, Any, bool]]) -> Sequence[bool | None]:
        """The results, by container, of what ends within ``PATIENCE``. What does not goes on without this round, and
        is not begun again until it has ended: each call of the engine has a deadline of its own."""
        tasks = {uuid: asyncio.create_task(self._guarded(uuid, work)) for uuid, work in works.items()}
        if not tasks:
            return []
        self._late |= tasks
        for uuid, task in tasks.items():
            task.add_done_callback(lambda _, uuid=uuid: self._late.pop(uuid, None))  # type: ignore[misc]
        done, late = await asyncio.wait(tasks.values(), timeout=PATIENCE)
        if late:
            silent = [uuid for uuid, task in tasks.items() if task in late]
            LOG.warning("action=sync result=no answer yet containers=%s", ",".join(silent))
        return [task.result() for task in done]

    async def _guarded(self, uuid: str, work: Awaitable[bool]) -> bool | None:
        """The result; None when it failed, which is told and is of this container only."""
        try:
            return await work
        except ZunError as error:
            LOG.warning("action=sync container=%s result=failed reason=%s", uuid, error.message)
        except Exception:
            LOG.exception("action=sync container=%s result=crashed", uuid)
        return None

    async def _unfinished(self) -> frozenset[str]:
        async with self._node.db.read() as connection:
            waiting = await operations.next_of_host(connection, self._node.host)
        return frozenset(operation.container_uuid for operation in waiting) | self._busy()

    async def _remove_orphans(self, orphans: Sequence[str]) -> int:
        """Ours, no row that knows it, no operation, and so for some time: removed with all it holds. The row
        of one the engine finished making after its create had been given up says that nothing was made."""
        due = self._suspects.of(frozenset(orphans) - await self._unfinished())
        due = [uuid for uuid in due if uuid not in self._late]
        removed = 0
        for start in range(0, len(due), BATCH):
            batch = due[start : start + BATCH]
            results = await self._beside({uuid: remove_orphan(self._node, uuid) for uuid in batch})
            removed += sum(map(bool, results))
        return removed

    async def _release_claims(self, known: set[str]) -> int:
        """Allocations on this node's provider, and its CPUs, whose container is gone, and so for some time."""
        node = self._node
        if node.provider_uuid is None:
            return 0
        held = frozenset(await node.placement.consumers(node.provider_uuid))
        async with node.db.read() as connection:
            pinned = await pinned_cpus.containers_of(connection, node.host)
        held |= pinned
        self._others &= held
        released = 0
        for uuid in self._claims.of(held - known - self._others - await self._unfinished()):
            async with node.db.read() as connection:
                row = await containers.get(connection, uuid)
            if row is None and uuid not in pinned and not await node.placement.ours(uuid):
                self._others |= {uuid}
            elif row is None:
                LOG.warning("action=sync container=%s result=allocation released reason=no such container", uuid)
                await _give_back(node, uuid)
                released += 1
        return released


async def remove_orphan(node: Node, uuid: str) -> bool:
    """An engine container that no row of this node says was made; False when one says so by now."""
    async with node.db.read() as connection:
        row = await containers.get(connection, uuid)
    elsewhere = row is not None and row.host not in (None, node.host)
    if row is not None and not elsewhere and (row.task_state or row.container_id):
        return False
    LOG.warning("action=sync container=%s result=orphan removed", uuid)
    await moved.remove(node, uuid)
    if elsewhere:
        await moved.forget_mounts(node)
    if row is not None:
        return True  # what it held was given back with its create
    await node.network.release_ports(uuid)
    await _give_back(node, uuid)
    return True


async def _give_back(node: Node, uuid: str) -> None:
    async with node.db.write() as connection:
        await pinned_cpus.unpin(connection, uuid)
    await node.placement.release(uuid)
