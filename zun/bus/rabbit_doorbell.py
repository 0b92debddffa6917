"""The doorbell of one host in RabbitMQ: a small quorum queue, listened to by its agent.

Apart from calls on purpose: a quorum queue can be without a leader while everything else works. Then the node's sweep
does what rings would have hastened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aio_pika.abc import AbstractIncomingMessage

from zun.bus.local import ring_doorbell
from zun.bus.rabbit_pause import Pause
from zun.bus.rabbit_session import Session, SessionLost, Trouble

log = logging.getLogger(__name__)

_LENGTH = 8
QUEUE: dict[str, Any] = {
    "x-queue-type": "quorum",
    "x-max-length": _LENGTH,  # one says it all; a few cost nothing
    "x-overflow": "drop-head",
    "x-expires": 14 * 24 * 3600 * 1000,  # ms; the queue of a host that is gone for good goes too
}
_TRY_SECONDS = 10.0


class Doorbell:
    """Listens on each session it is given, until that is lost."""

    def __init__(self, host: str, queue: str, ring: Callable[[], None], now: Callable[[], float]) -> None:
        """``now``: seconds by the clock that all hosts share; the latest to listen is served first."""
        self._host = host
        self._queue = queue
        self._ring = ring
        self._now = now
        self._task: asyncio.Task[None] | None = None
        self.missed = False
        """May rings have been lost? What they were for stands in the database."""

    async def listen(self, session: Session, patience: float) -> None:
        """Returns when it listens, or after ``patience`` seconds and goes on trying in the background."""
        await self.close()
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._run(session, ready), name=f"bus-doorbell-{self._host}")
        try:
            async with asyncio.timeout(patience) as limit:
                await ready.wait()
        except TimeoutError:
            if not limit.expired():
                raise

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self, session: Session, ready: asyncio.Event) -> None:
        pause, told = Pause(1.0, 60.0), False
        while not session.lost.done():
            ended = asyncio.Event()
            try:
                reason = "it does not answer"
                async with asyncio.timeout(_TRY_SECONDS):
                    await session.guard(self._consume(session, ended), fatal=False)
            except SessionLost:
                break
            except (Trouble, TimeoutError) as error:
                reason = str(error) or reason
                level = logging.DEBUG if told else logging.ERROR
                log.log(level, "action=bus-doorbell queue=%s result=failed reason=%r", self._queue, reason)
                told = self.missed = True
                await asyncio.sleep(pause.next())
                continue
            log.log(logging.INFO if told else logging.DEBUG, "action=bus-doorbell queue=%s result=ready", self._queue)
            told = False
            if self.missed:
                ring_doorbell(self._host, self._ring)
            self.missed = True  # until it listens again
            pause.reset()
            ready.set()
            await session.until_lost(ended)
        ready.set()

    async def _consume(self, session: Session, ended: asyncio.Event) -> None:
        channel = await session.channel(_LENGTH, ended=ended)
        queue = await channel.declare_queue(self._queue, durable=True, arguments=QUEUE)
        await queue.bind(session.exchange, self._queue)
        # The newest consumer comes first: one of a dead connection would swallow rings until the broker notices.
        await queue.consume(self._on_ring(session), arguments={"x-priority": int(self._now())})

    def _on_ring(self, session: Session) -> Callable[[AbstractIncomingMessage], Awaitable[None]]:
        async def ring(message: AbstractIncomingMessage) -> None:
            ring_doorbell(self._host, self._ring)
            await session.acknowledge(message)

        return ring
