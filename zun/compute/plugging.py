"""Interfaces of containers that the engine has no part in: plugged at every start, whoever asked for it, and watched.

Runs only where the network adapter plugs by itself (``Network.plugs``).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from zun.compute.node import Node
from zun.compute.refresh import announce
from zun.domain.container import Container, RequestedNetwork
from zun.domain.errors import EngineError, NetworkSetupFailed, ZunError
from zun.domain.lifecycle import Status
from zun.domain.operation import Kind
from zun.store import containers

LOG = logging.getLogger(__name__)

HELD = 10.0
"""Seconds that a container's process is held at most until its ports let packets through."""
BATCH = 16


class Plugging:
    """``connected`` is what a start waits for; everything else comes by itself."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._network = node.network
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def begin(self) -> None:
        """Hear of every namespace from now on. Raises EngineUnreachable."""
        if self._network.plugs:
            self._node.connected, self._node.ended = self.connected, self.ended
            self._node.check_interfaces = self.check
            await self._node.runtime.follow_namespaces(self._heard)

    async def end(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def connected(self, uuid: str) -> None:
        """The container that was just started has its interfaces, or is stopped. Raises NetworkSetupFailed,
        ServiceUnavailable. Whether Neutron's agent lets packets through is seen to in the background."""
        try:
            if uuid in self._under_way:
                await asyncio.shield(self._under_way[uuid])
            if await self._network.unplugged([uuid]):
                await self._plug_running(uuid)
        except ZunError:
            with suppress(EngineError):
                await self._node.runtime.stop(uuid, 0)
            raise
        self._spawn(self._see_to_packets(uuid), f"active-{uuid}")

    async def check(self, rows: Sequence[Container], running: set[str]) -> None:
        """For the node's sync: what runs and lacks its interface gets it; what ended lets go of it."""
        known = {row.uuid for row in rows if row.container_id is not None and row.task_state is None}
        lacking = list(await self._network.unplugged(known & running))
        for start in range(0, len(lacking), BATCH):
            await asyncio.gather(*(self._guarded(uuid, self._plug_running(uuid)) for uuid in lacking[start:][:BATCH]))
        for uuid in known - running:
            await self._guarded(uuid, self._network.ended(uuid))

    async def ended(self, uuid: str) -> None:
        """The engine says that its process ended; it may run again by now."""
        observed = await self._node.runtime.inspect(uuid)
        ended = observed is None or observed.state not in ("running", "paused")
        if ended and uuid not in self._under_way:
            await self._network.ended(uuid)

    # -- within --------------------------------------------------------------------------------------

    def _heard(self, uuid: str, namespace: int, let_go: Callable[[], None]) -> None:
        task = self._spawn(self._plug_started(uuid, namespace, let_go), f"plug-{uuid}")
        self._under_way[uuid] = task
        task.add_done_callback(lambda done: self._over(uuid, done))

    def _over(self, uuid: str, task: asyncio.Task[None]) -> None:
        if self._under_way.get(uuid) is task:
            del self._under_way[uuid]

    async def _plug_started(self, uuid: str, namespace: int, let_go: Callable[[], None]) -> None:
        """A namespace whose process waits: plug it, and let the process go once packets pass."""
        try:
            if not await self._guarded(uuid, self._plug(uuid, namespace)):
                let_go()  # told to the start that waits, or found again by the sync
                return
        finally:
            os.close(namespace)
        self._spawn(self._let_go_when_usable(uuid, let_go), f"hold-{uuid}")

    async def _let_go_when_usable(self, uuid: str, let_go: Callable[[], None]) -> None:
        try:
            with suppress(NetworkSetupFailed):  # told by ``_see_to_packets``
                await self._network.usable(uuid, HELD)
        finally:
            let_go()

    async def _plug_running(self, uuid: str) -> None:
        namespace = await self._node.runtime.namespace(uuid)
        if namespace is None:
            return  # ended meanwhile
        try:
            await self._plug(uuid, namespace)
        finally:
            os.close(namespace)
        LOG.info("action=plug container=%s result=plugged while running", uuid)

    async def _plug(self, uuid: str, namespace: int) -> None:
        if not self._network.knows(uuid):
            async with self._node.db.read() as connection:
                row = await containers.get(connection, uuid)
            if row is None or row.host != self._node.host:
                return
            requested = [RequestedNetwork(**entry) for entry in row.requested_networks or ()]
            await self._network.ensure_ports(row, requested)
        await self._network.plug(uuid, namespace)

    async def _see_to_packets(self, uuid: str) -> None:
        """A container whose ports do not come up is ``Error``, says which, and holds nothing."""
        try:
            await self._network.usable(uuid)
        except NetworkSetupFailed as error:
            if not self._network.knows(uuid):
                return  # removed meanwhile
            LOG.error("action=plug container=%s result=failed reason=%s", uuid, error.message)
            await self._guarded(uuid, self._fail(uuid, error.message))

    async def _fail(self, uuid: str, reason: str) -> None:
        node = self._node
        for _ in range(5):
            async with node.db.read() as connection:
                row = await containers.get(connection, uuid)
            if row is None or row.host != node.host or row.task_state is not None or not self._network.knows(uuid):
                return  # an operation is at work: whatever it does, it starts and waits anew, or removes
            values = {"status": Status.ERROR, "status_reason": reason, "status_detail": None}
            if await announce(node, row, Kind.RELEASE, {}, values, None):
                return

    async def _guarded(self, uuid: str, work: Coroutine[Any, Any, None]) -> bool:
        """False when it failed, which is told."""
        try:
            await work
        except ZunError as error:
            LOG.warning("action=plug container=%s result=failed reason=%s", uuid, error.message)
            return False
        except Exception:
            LOG.exception("action=plug container=%s result=crashed", uuid)
            return False
        return True

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
