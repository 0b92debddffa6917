"""The worker: takes this host's operations from the database and carries each to its end (rule 1).

A doorbell only makes it look sooner. Operations of one container follow each other; those of different containers run
side by side. Whatever kills the process, the next one finds the same operations and goes on.
"""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.compute import ending
from zun.compute.journal import Journal
from zun.compute.node import Node
from zun.compute.operations import OPERATIONS
from zun.compute.operations.common import reason_of
from zun.compute.work import Outcome, Work
from zun.domain.errors import ZunError
from zun.domain.operation import Kind, Operation
from zun.store import containers, operations, volume_mappings

LOG = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)
RENEW_EVERY = 15.0
PERSISTENT = frozenset({Kind.DELETE, Kind.RELEASE})
"""Kinds that are tried until done, however long the engine is away."""


class Worker:
    """``ring`` may be called from anywhere in the loop; ``run`` works until cancelled."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._bell = asyncio.Event()
        self._running: dict[str, tuple[int, asyncio.Task[None]]] = {}  # container uuid -> (operation id, task)
        self._ending: set[int] = set()  # operations whose end is being written: gone from the list, not from here
        self._slots = asyncio.Semaphore(node.conf.compute.max_parallel_operations)

    def ring(self) -> None:
        """There may be something to do."""
        self._bell.set()

    @property
    def busy(self) -> frozenset[str]:
        """Containers an operation is at work on now."""
        return frozenset(self._running)

    async def run(self) -> None:
        """Sweep on every ring, and every ``sweep_interval`` seconds for rings that were lost."""
        interval = float(self._node.conf.compute.sweep_interval)
        renewer = asyncio.create_task(self._renew(), name="lease-renewal")
        try:
            while True:
                self._bell.clear()
                try:
                    await self._sweep()
                except ZunError as error:
                    LOG.warning("action=sweep result=failed reason=%s", error.message)
                    await self._node.clock.sleep(1 + random.random())  # noqa: S311
                except Exception:
                    LOG.exception("action=sweep result=crashed")
                    await self._node.clock.sleep(1 + random.random())  # noqa: S311
                try:
                    async with asyncio.timeout(interval):
                        await self._bell.wait()
                except TimeoutError:
                    continue
        finally:
            self._node.stopping = True
            renewer.cancel()
            tasks = [task for _, task in self._running.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(renewer, *tasks, return_exceptions=True)

    async def _sweep(self) -> None:
        async with self._node.db.read() as connection:
            waiting = await operations.next_of_host(connection, self._node.host)
        ids = {operation.id for operation in waiting}
        for uuid, (operation_id, task) in list(self._running.items()):
            if operation_id not in ids and operation_id not in self._ending and not task.done():
                LOG.info("action=cancel container=%s operation=%s reason=ended elsewhere", uuid, operation_id)
                task.cancel()
        now = self._node.clock.now()
        for operation in waiting:
            uuid = operation.container_uuid
            if uuid not in self._running and operations.is_due(operation.not_before, now):
                task = asyncio.create_task(self._work(operation), name=f"{operation.kind}-{uuid}")
                self._running[uuid] = (operation.id, task)

    async def _work(self, operation: operations.Next) -> None:
        uuid = operation.container_uuid
        try:
            async with self._slots:
                await self._attempt(operation.id)
        except ZunError as error:  # the database is away: the operation is found again
            LOG.warning("action=%s container=%s result=postponed reason=%s", operation.kind, uuid, error.message)
            await self._node.clock.sleep(1)
        except Exception:
            LOG.exception("action=%s container=%s operation=%s result=crashed", operation.kind, uuid, operation.id)
            await self._node.clock.sleep(1)
        finally:
            self._running.pop(uuid, None)
            self._bell.set()
            self._node.settled(uuid)

    async def _attempt(self, operation_id: int) -> None:
        """Claim, carry out, end: one attempt of one operation."""
        node = self._node
        async with node.db.write() as connection:
            operation = await operations.claim(
                connection, operation_id, worker=node.instance, now=node.clock.now(), lease=LEASE
            )
            if operation is None:
                return
            row = await containers.get(connection, operation.container_uuid)
            mappings = await volume_mappings.of_container(connection, operation.container_uuid)
        if row is not None and row.host not in (node.host, None):
            row = None  # another host's now: only what is left of it here may be released
        work = Work(node, operation, row, Journal(node, operation.id), mappings)
        started = node.clock.monotonic()
        outcome = await self._carry_out(work)
        if outcome is None:
            return
        self._ending.add(operation_id)
        try:
            await ending.write(work, outcome)
        finally:
            self._ending.discard(operation_id)
        LOG.info(
            "action=%s container=%s request_id=%s result=%s seconds=%.3f%s",
            operation.kind,
            work.uuid,
            operation.request_id,
            "failed" if outcome.error else "done",
            node.clock.monotonic() - started,
            f" reason={outcome.error!r}" if outcome.error else "",
        )

    async def _carry_out(self, work: Work) -> Outcome | None:
        """The operation's outcome; None when it was given back to be tried again."""
        operation = work.operation
        run, fail = OPERATIONS[operation.kind]
        if work.container is None and operation.kind not in PERSISTENT:
            return Outcome(error="The container is gone.")
        try:
            return await run(work)
        except Exception as error:
            if not isinstance(error, ZunError):
                LOG.exception("action=%s container=%s operation=%s", operation.kind, work.uuid, operation.id)
            if not await self._is_ours(operation):
                LOG.warning("action=%s container=%s result=dropped reason=ended elsewhere", operation.kind, work.uuid)
                return None
            if self._may_pass(operation, error):
                await self._give_back(work, error)
                return None
            if operation.kind == Kind.DELETE and (operation.params.get("force") or work.container is None):
                await ending.leave_tombstone(work, error, self._back_off(operation))
                return None
            try:
                return await fail(work, error)
            except ZunError as fault:
                LOG.warning(
                    "action=%s container=%s result=postponed reason=%s", operation.kind, work.uuid, fault.message
                )
                await self._give_back(work, error)
                return None

    async def _is_ours(self, operation: Operation) -> bool:
        """Nobody undoes what another worker, or a later operation, makes by now."""
        async with self._node.db.read() as connection:
            now = await operations.get(connection, operation.id)
        return now is not None and now.worker == self._node.instance

    def _may_pass(self, operation: Operation, error: Exception) -> bool:
        if operation.kind == Kind.RELEASE:
            return True  # nobody else gives this back
        if operation.params.get("healing"):  # S5.9: Error only after repeated failure, whatever the engine said
            return bool(operation.attempt < self._node.conf.compute.heal_attempts)
        if not isinstance(error, ZunError) or not error.retryable:
            return False
        if operation.kind in PERSISTENT:
            return not operation.params.get("force")
        return bool(operation.attempt < self._node.conf.compute.retry_attempts)

    def _back_off(self, operation: Operation) -> timedelta:
        """1 s doubling up to 60 s, with jitter."""
        return timedelta(seconds=min(60.0, 2.0 ** min(operation.attempt - 1, 6)) * (0.75 + random.random() / 2))  # noqa: S311

    async def _give_back(self, work: Work, error: Exception) -> None:
        until = self._node.clock.now() + self._back_off(work.operation)

        async def postpone(connection: AsyncConnection) -> None:
            await work.journal.write(connection)
            await operations.postpone(connection, work.operation.id, worker=self._node.instance, until=until)

        await self._node.db.run(postpone)
        work.journal.written()
        LOG.warning(
            "action=%s container=%s attempt=%s result=retry until=%s reason=%s",
            work.operation.kind,
            work.uuid,
            work.operation.attempt,
            until,
            reason_of(error),
        )

    async def _renew(self) -> None:
        node = self._node
        while True:
            await node.clock.sleep(RENEW_EVERY)
            ids = [operation_id for operation_id, _ in self._running.values()]
            if not ids:
                continue
            try:
                async with node.db.write() as connection:
                    await operations.renew(connection, node.instance, ids, node.clock.now() + LEASE)
            except ZunError as error:
                LOG.warning("action=renew result=failed reason=%s", error.message)
            except Exception:
                LOG.exception("action=renew result=crashed")
