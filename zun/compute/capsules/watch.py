"""Keeps this node's capsules as their rows and policies say: events become statuses at once, members that ended are
started again when their time has come, and what events missed is found by a comparison now and then (scenario 5).

Reads this host's rows only (rule 5). An engine that is away is tried for ever; the node takes no capsules meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

from zun.compute.capsules.compare import Comparison
from zun.compute.capsules.holdings import engine_of
from zun.compute.capsules.look import look
from zun.compute.node import Node
from zun.compute.pauses import Pauses
from zun.domain.errors import EngineUnreachable, ZunError
from zun.store import capsules

LOG = logging.getLogger(__name__)

SOON = 0.02
"""Seconds; a burst of events of one capsule is one look at it."""
SUBSCRIBED = 0.05
"""Seconds after which a stream of events was asked for: what happened before is found by comparing."""
FIRST_ANSWER = 10.0
"""Seconds that the agent's start waits for the engine at most."""


async def reach(node: Node) -> bool:
    """Connect to the engine, and note what it is. False where it does not answer, or there is none."""
    if node.pods is None:
        return False
    try:
        async with asyncio.timeout(FIRST_ANSWER):
            await node.pods.connect()
            node.pods_info = await node.pods.info()
    except (ZunError, TimeoutError) as error:
        node.pods_info = None
        reason = error.message if isinstance(error, ZunError) else f"no answer within {FIRST_ANSWER:g} seconds"
        if reason != node.pods_silence:
            LOG.warning("action=capsules host=%s result=no engine, none are taken reason=%s", node.host, reason)
        node.pods_silence = reason
        return False
    node.pods_silence = ""
    LOG.info("action=capsules host=%s engine=%s version=%s", node.host, node.pods_info.name, node.pods_info.version)
    return True


class CapsuleWatch:
    """``run`` works until cancelled."""

    def __init__(self, node: Node, busy: Callable[[], frozenset[str]]) -> None:
        self._node = node
        self._busy = busy
        self._comparison = Comparison(node, busy)
        self._compare_now = asyncio.Event()
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._due: dict[str, asyncio.TimerHandle] = {}
        settled = node.settled

        def after_operation(uuid: str) -> None:
            settled(uuid)
            if uuid in node.unseen:
                self._look(uuid)

        node.settled = after_operation

    async def run(self) -> None:
        if self._node.pods is None:
            return
        comparing = asyncio.create_task(self._compare(), name="capsules-compare")
        pauses = Pauses()
        try:
            while True:
                started = self._node.clock.monotonic()
                try:
                    await self._follow()
                except ZunError as error:
                    if not self._node.pods_silence:
                        LOG.warning("action=watch-capsules result=cut reason=%s", error.message)
                except Exception:
                    LOG.exception("action=watch-capsules result=crashed")
                self._node.news.tell_all()
                await self._node.clock.sleep(pauses.after(self._node.clock.monotonic() - started))
                if not await reach(self._node):
                    self._node.usage_changed()
        finally:
            await self._end(comparing)

    async def _end(self, comparing: asyncio.Task[None]) -> None:
        for handle in self._due.values():
            handle.cancel()
        tasks = [comparing, *self._looks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self) -> None:
        """Events until the stream is cut. Raises EngineUnreachable."""
        node = self._node
        if node.pods_info is None and not await reach(node):
            raise EngineUnreachable("the engine for capsules does not answer")
        node.usage_changed()
        events = engine_of(node).events()
        compare = asyncio.get_running_loop().call_later(SUBSCRIBED, self._compare_now.set)
        try:
            async for event in events:
                if not event.owner or event.owner == node.owner:
                    node.news.tell(event.uuid)
                    await self._heard(event.uuid)
        finally:
            compare.cancel()
            close: Any = getattr(events, "aclose", None)
            if close is not None:
                with contextlib.suppress(Exception):
                    await close()

    async def _heard(self, uuid: str) -> None:
        if self._is_at_work(uuid):
            return
        try:
            async with self._node.db.read() as connection:
                capsule = await capsules.capsule_of(connection, uuid)
        except ZunError:
            self._compare_now.set()
            return
        if capsule is not None and not self._is_at_work(capsule):
            self._look(capsule)

    def _is_at_work(self, uuid: str) -> bool:
        """An operation is at work on the capsule: there is a look at its end."""
        if uuid not in self._busy():
            return False
        self._node.unseen.add(uuid)
        return True

    # -- looks: one at a time of each capsule ------------------------------------------------------

    def _look(self, uuid: str) -> None:
        if uuid in self._looks:
            self._again.add(uuid)
            return
        self._looks[uuid] = asyncio.create_task(self._observe(uuid), name=f"observe-{uuid}")

    async def _observe(self, uuid: str) -> None:
        try:
            while True:
                await self._node.clock.sleep(SOON)
                self._again.discard(uuid)
                self._wake_at(uuid, await look(self._node, uuid))
                if uuid not in self._again:
                    return
        except ZunError as error:
            LOG.warning("action=observe capsule=%s result=failed reason=%s", uuid, error.message)
            self._later(uuid, 5.0)
        except Exception:
            LOG.exception("action=observe capsule=%s", uuid)
            self._later(uuid, 30.0)
        finally:
            self._looks.pop(uuid, None)

    def _wake_at(self, uuid: str, at: datetime | None) -> None:
        """Look again when a member is due."""
        former = self._due.pop(uuid, None)
        if former is not None:
            former.cancel()
        if at is not None:
            self._later(uuid, max(0.0, (at - self._node.clock.now()).total_seconds()))

    def _later(self, uuid: str, seconds: float) -> None:
        self._due[uuid] = asyncio.get_running_loop().call_later(seconds, self._is_due, uuid)

    def _is_due(self, uuid: str) -> None:
        self._due.pop(uuid, None)
        self._look(uuid)

    # -- comparing ---------------------------------------------------------------------------------

    async def _compare(self) -> None:
        asked = self._node.conf.sync_container_state_interval
        interval = None if asked < 0 else float(asked or 60)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await self._compare_now.wait()
            self._compare_now.clear()
            if self._node.pods_info is None:
                continue
            try:
                for uuid in await self._comparison.once():
                    self._look(uuid)
            except ZunError as error:
                LOG.warning("action=compare-capsules result=failed reason=%s", error.message)
            except Exception:
                LOG.exception("action=compare-capsules result=crashed")
