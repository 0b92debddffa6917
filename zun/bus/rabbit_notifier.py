"""Notifications over RabbitMQ, as oslo.messaging sends them: queue ``<topic>.<priority>`` on the control exchange.

On a connection of its own, in the order given, each until the broker has confirmed it. While there is no broker they
wait, as many as ``_MOST``; what comes then is dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from aio_pika import DeliveryMode, Message
from prometheus_client import Counter

from zun.bus.rabbit_link import Link
from zun.bus.rabbit_session import Refused, Session, SessionLost, Trouble
from zun.bus.rabbit_url import RabbitOptions, parse
from zun.domain.notification import Notification

log = logging.getLogger(__name__)

_MOST = 1000
_CONFIRM_SECONDS = 30.0
_CLOSE_SECONDS = 3.0

_SENT = Counter("zun_notifications_sent", "Notifications that the broker has confirmed.")
_DROPPED = Counter("zun_notifications_dropped", "Notifications that were not sent.", ["reason"])


class RabbitNotifier:
    """See ``zun.bus.notifier.Notifier``. Connects in the background from the start, for ever."""

    def __init__(
        self,
        url: str,
        options: RabbitOptions,
        *,
        publisher: str,
        topics: Sequence[str],
        enveloped: bool = True,
        durable: bool = True,
        retries: int = -1,
    ) -> None:
        """``publisher``: ``<service>.<host>``; ``enveloped``: version 2.0 of the message (driver messagingv2);
        ``durable``: how queues are made that are not there yet; ``retries`` of one message (-1: without limit).
        Needs a running loop. Raises TransportUrlError."""
        self._publisher = publisher
        self._topics = tuple(topics)
        self._enveloped = enveloped
        self._durable = durable
        self._retries = retries
        self._waiting: asyncio.Queue[Notification] = asyncio.Queue(_MOST)
        self._full = False
        target = parse(url, options)
        for library in ("aio_pika", "aiormq"):  # each change of state is told once, by the link
            logging.getLogger(library).setLevel(logging.CRITICAL)
        name = f"{Path(sys.argv[0]).name or 'zun'}-notifications:{socket.gethostname()}:{os.getpid()}"
        self._link = Link(target, name)
        self._link.add(self._make_queues)
        self._task = asyncio.create_task(self._run(), name="notifications")

    def notify(self, told: Notification | None) -> None:
        """Returns at once."""
        if told is None:
            return
        try:
            self._waiting.put_nowait(told)
            self._full = False
        except asyncio.QueueFull:
            _DROPPED.labels("full").inc()
            if not self._full:  # once until there is room again
                log.error("action=notify result=dropped reason=%s wait already: %s", _MOST, self._link.reason)
            self._full = True

    async def close(self) -> None:
        """What waits is given a few seconds."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._waiting.join()
        except TimeoutError:
            log.warning("action=notify result=dropped count=%s reason=the process ends", self._waiting.qsize())
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._link.close()

    async def _make_queues(self, session: Session) -> None:
        """So that nothing is lost while no consumer runs. Queues that are there stay as they are."""
        for topic in self._topics:
            for priority in ("info", "error"):
                name = f"{topic}.{priority}"
                try:
                    await session.ensure_queue(name, durable=self._durable)
                except Trouble as error:  # consumers may make theirs
                    log.warning("action=notify queue=%s result=not made reason=%s", name, error)

    async def _run(self) -> None:
        while True:
            told = await self._waiting.get()
            try:
                for topic in self._topics:
                    await self._send(f"{topic}.{'error' if told.error else 'info'}", self.encode(told))
            except Exception:
                log.exception("action=notify event=%s result=crashed", told.event_type)
                _DROPPED.labels("crashed").inc()
            finally:
                self._waiting.task_done()

    async def _send(self, key: str, body: bytes) -> None:
        attempt = 0
        while True:
            session = await self._link.session()
            message = Message(
                body,
                content_type="application/json",
                content_encoding="utf-8",
                delivery_mode=DeliveryMode.PERSISTENT,
                message_id=uuid.uuid4().hex,
            )
            try:
                async with asyncio.timeout(_CONFIRM_SECONDS):
                    await session.send(key, message)
                _SENT.inc()
                return
            except Refused:
                reason = "refused"
            except (SessionLost, TimeoutError) as error:
                attempt += 1
                if self._retries < 0 or attempt <= self._retries:
                    log.debug("action=notify queue=%s attempt=%s result=again reason=%r", key, attempt, str(error))
                    continue
                reason = "unconfirmed"
            log.warning("action=notify queue=%s result=dropped reason=%s", key, reason)
            _DROPPED.labels(reason).inc()
            return

    def encode(self, told: Notification) -> bytes:
        """The body, as oslo.messaging has it."""
        message: dict[str, Any] = {
            "message_id": str(uuid.uuid4()),
            "publisher_id": self._publisher,
            "event_type": told.event_type,
            "priority": "ERROR" if told.error else "INFO",
            "payload": dict(told.payload),
            "timestamp": str(datetime.now(UTC).replace(tzinfo=None)),
            "_unique_id": uuid.uuid4().hex,
            **{f"_context_{name}": value for name, value in told.context.items()},
        }
        if not self._enveloped:
            return orjson.dumps(message)
        return orjson.dumps({"oslo.version": "2.0", "oslo.message": orjson.dumps(message).decode()})
