"""The worker: takes this host's operations from the database and carries each to its end (rule 1).

A doorbell only makes it look sooner. Operations of one container follow each other; those of different containers run
side by side. Whatever kills the process, the next one finds the same operations and goes on.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

from prometheus_client import Counter, Gauge, Histogram
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.compute import ending, telling
from zun.compute.journal import Journal
from zun.compute.node import LONGEST_ROUND, Node
from zun.compute.operations import chosen
from zun.compute.operations.common import reason_of
from zun.compute.work import Outcome, Work
from zun.domain.container import Type
from zun.domain.errors import EngineError, ZunError
from zun.domain.operation import FREED, Kind, Operation
from zun.store import capsules, containers, operations, volume_mappings

LOG = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)
RENEW_EVERY = 15.0
PERSISTENT = frozenset({Kind.DELETE, Kind.RELEASE, Kind.IMAGE_DELETE})
"""Kinds that are tried until done, however long the engine is away."""
WITHOUT_CONTAINER = PERSISTENT | {Kind.COMMIT, Kind.IMAGE_PULL}
"""Kinds that have something to do though the container's row is gone."""

_OPERATIONS = Counter("zun_compute_operations", "Operations that this node ended.", ["kind", "result"])
_RETRIES = Counter("zun_compute_operation_retries", "Attempts after which an operation is tried again.", ["kind"])
_SECONDS = Histogram(
    "zun_compute_operation_seconds",
    "Time of an operation's last attempt.",
    ["kind"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800),
)
_AT_WORK = Gauge("zun_compute_operations_at_work", "Operations that this node works on now.")


class _Slot:
    """One of the places for operations at work; given up around a long wait, and not taken again by what is ended."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._held = False

    async def __aenter__(self) -> _Slot:
        await self._take()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._give()

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        self._give()
        try:
            yield
        except asyncio.CancelledError:
            raise
        except BaseException:
            await self._take()
            raise
        await self._take()

    async def _take(self) -> None:
        await self._slots.acquire()
        self._held = True

    def _give(self) -> None:
        if self._held:
            self._held = False
            self._slots.release()


class Worker:
    """``ring`` may be called from anywhere in the loop; ``run`` works until cancelled."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._bell = asyncio.Event()
        self._running: dict[str, tuple[int, asyncio.Task[None]]] = {}  # key -> (operation id, task)
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
                self._node.vitals.beat("worker", interval + LONGEST_ROUND)
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

    async def removals(self, seconds: float) -> int:
        """Before ``run``: carry out what is to be removed here; how many there were. What takes longer than
        ``seconds`` goes on beside the rest."""
        await self._sweep(PERSISTENT)
        tasks = [task for _, task in self._running.values()]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=seconds)
        except asyncio.CancelledError:
            self._node.stopping = True
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return len(tasks)

    async def _sweep(self, only: frozenset[str] | None = None) -> None:
        """Start what waits, removals first: their slots are taken before those of what is new."""
        async with self._node.db.read() as connection:
            waiting = await operations.next_of_host(connection, self._node.host)
        ids = {operation.id for operation in waiting}
        for uuid, (operation_id, task) in list(self._running.items()):
            if operation_id not in ids and operation_id not in self._ending and not task.done():
                LOG.info("action=cancel container=%s operation=%s reason=ended elsewhere", uuid, operation_id)
                task.cancel()
        now = self._node.clock.now()
        at_work = {operation_id for operation_id, _ in self._running.values()}
        for operation in sorted(waiting, key=lambda one: one.kind not in PERSISTENT):
            key = operation.key
            if key in self._running or operation.id in at_work or (only is not None and operation.kind not in only):
                continue
            if operations.is_due(operation.not_before, now):
                task = asyncio.create_task(self._work(operation), name=f"{operation.kind}-{operation.container_uuid}")
                self._running[key] = (operation.id, task)

    async def _work(self, operation: operations.Next) -> None:
        uuid = operation.container_uuid
        try:
            async with _Slot(self._slots) as slot:
                with _AT_WORK.track_inprogress():
                    await self._attempt(operation.id, slot)
        except ZunError as error:  # the database is away: the operation is found again
            LOG.warning("action=%s container=%s result=postponed reason=%s", operation.kind, uuid, error.message)
            await self._node.clock.sleep(1)
        except Exception:
            LOG.exception("action=%s container=%s operation=%s result=crashed", operation.kind, uuid, operation.id)
            await self._node.clock.sleep(1)
        finally:
            self._running = {key: entry for key, entry in self._running.items() if entry[0] != operation.id}
            self._bell.set()
            self._node.image_uses.free(operation.id)
            self._node.settled(uuid)

    async def _attempt(self, operation_id: int, slot: _Slot) -> None:
        """Claim, carry out, end: one attempt of one operation."""
        node = self._node
        async with node.db.write() as connection:
            operation = await operations.claim(
                connection, operation_id, worker=node.instance, host=node.host, now=node.clock.now(), lease=LEASE
            )
            if operation is None:
                return
            row = await containers.get(connection, operation.container_uuid)
            mappings = await volume_mappings.of_container(connection, operation.container_uuid)
            inside = await capsules.members(connection, row.uuid) if row and row.container_type == Type.CAPSULE else ()
        elsewhere = row is not None and row.host not in (node.host, None)
        if elsewhere:  # another host's now: only what is left of it here may be released
            row, mappings = None, []
        work = Work(node, operation, row, Journal(node, operation.id), mappings, elsewhere=elsewhere)
        work.leave, work.aside, work.members = partial(self._leave, operation), slot.aside, inside
        telling.begun(work)
        started = node.clock.monotonic()
        outcome = await self._carry_out(work)
        if outcome is None:
            return
        self._ending.add(operation_id)
        try:
            await ending.write(work, outcome)
        finally:
            self._ending.discard(operation_id)
        result = "failed" if outcome.error else "done"
        _OPERATIONS.labels(operation.kind, result).inc()
        _SECONDS.labels(operation.kind).observe(node.clock.monotonic() - started)
        LOG.info(
            "action=%s container=%s request_id=%s result=%s seconds=%.3f%s",
            operation.kind,
            work.uuid,
            operation.request_id,
            result,
            node.clock.monotonic() - started,
            f" reason={outcome.error!r}" if outcome.error else "",
        )

    async def _carry_out(self, work: Work) -> Outcome | None:
        """The operation's outcome; None when it was given back to be tried again."""
        operation = work.operation
        run, fail = chosen(work)
        if work.container is None and operation.kind not in WITHOUT_CONTAINER:
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
            final = operation.params.get("force") or operation.params.get(FREED) or work.container is None
            if operation.kind == Kind.DELETE and final:
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

    async def _leave(self, operation: Operation) -> None:
        async with self._node.db.write() as connection:
            lane = await operations.set_lane(connection, operation.id, self._node.instance)
        entry = self._running.get(operation.container_uuid)
        if lane is not None and entry is not None and entry[0] == operation.id:
            del self._running[operation.container_uuid]
            self._running[f"{operation.container_uuid}/{lane}"] = entry
            self._bell.set()
            self._node.settled(operation.container_uuid)

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
        if operation.kind == Kind.DELETE and type(error) is EngineError and not operation.params.get("force"):
            return bool(operation.attempt < self._node.conf.compute.retry_attempts)  # not a refusal: it broke down
        if not isinstance(error, ZunError) or not error.retryable:
            return False
        if operation.kind == Kind.COMMIT:  # holds up nobody; its deadline ends it
            return True
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
        _RETRIES.labels(work.operation.kind).inc()
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
