"""The serving end of the RabbitMQ bus: doorbell, calls and their cancellation for one host."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from aio_pika.abc import AbstractIncomingMessage

from zun.bus import frames, remote_errors
from zun.bus.base import Handler
from zun.bus.local import run_bounded
from zun.bus.rabbit_doorbell import Doorbell
from zun.bus.rabbit_names import HostNames
from zun.bus.rabbit_session import Refused, Session, SessionLost, Unroutable
from zun.domain.errors import Conflict, HostUnreachable

log = logging.getLogger(__name__)

PREFETCH = 256
"""Calls at work at once; further ones wait in the broker until their deadline."""
WHO = "bus.who"
"""A call that every agent answers with its instance."""
_WHO_SECONDS = 2.0
_QUEUES_SECONDS = 10.0
_DOORBELL_SECONDS = 2.0
_MOST_WAITING = 4096
_MOST_CANCELLED = 1024

_CALLS: dict[str, Any] = {"x-max-length": _MOST_WAITING, "x-overflow": "reject-publish"}


class RabbitAgent:
    """Outlives sessions: a call at work answers through whichever session there is when it is done."""

    def __init__(
        self,
        host: str,
        names: HostNames,
        doorbell: Callable[[], None],
        methods: Mapping[str, Handler],
        session: Callable[[], Awaitable[Session]],
        now: Callable[[], float],
    ) -> None:
        """``now``: seconds by the clock that all hosts share."""
        self._host = host
        self._names = names
        self._doorbell = Doorbell(host, names.doorbell, doorbell, now)
        self._now = now
        self._instance = uuid.uuid4().hex
        self._methods: dict[str, Handler] = {**methods, WHO: self._who}
        self._session = session
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._cancelled: OrderedDict[str, None] = OrderedDict()

    async def _who(self, _: Mapping[str, Any]) -> str:
        return self._instance

    async def attach(self, session: Session) -> None:
        """Queues and consumers. Raises Conflict when another live agent serves the host, SessionLost, TimeoutError."""
        await self._alone(session)
        await self._doorbell.listen(session, _DOORBELL_SECONDS)
        async with asyncio.timeout(_QUEUES_SECONDS):
            await session.guard(self._consume(session))

    def late(self) -> None:
        """The agent works already while nothing reaches it."""
        self._doorbell.missed = True

    async def _alone(self, session: Session) -> None:
        """A queue alone proves nothing: the broker keeps that of a dead connection for a while."""
        try:
            async with asyncio.timeout(_WHO_SECONDS) as limit:
                await ask(session, self._names, WHO, {}, _WHO_SECONDS, sent=self._now())
        except (Unroutable, Refused):
            return
        except TimeoutError:
            if not limit.expired():
                raise
            return
        raise Conflict(f"Another agent serves host {self._host} already.")

    async def _consume(self, session: Session) -> None:
        ending = uuid.uuid4().hex
        # Private to the connection: nothing is delivered twice, and nothing waits for an agent that is gone.
        calls = await (await session.channel(PREFETCH)).declare_queue(
            f"{self._names.calls}.{ending}", exclusive=True, auto_delete=True, arguments=_CALLS
        )
        cancels = await (await session.channel()).declare_queue(
            f"{self._names.cancels}.{ending}", exclusive=True, auto_delete=True
        )
        await cancels.consume(self._on_cancel, no_ack=True)
        await calls.consume(self._on_call(session))
        await cancels.bind(session.exchange, self._names.cancels)
        await calls.bind(session.exchange, self._names.calls)

    async def _on_cancel(self, message: AbstractIncomingMessage) -> None:
        ident = message.correlation_id or ""
        if ident in self._calls:
            self._calls[ident].cancel()
        else:  # the call may still wait in the broker
            self._cancelled[ident] = None
            while len(self._cancelled) > _MOST_CANCELLED:
                self._cancelled.popitem(last=False)

    def _on_call(self, session: Session) -> Callable[[AbstractIncomingMessage], Awaitable[None]]:
        async def call(message: AbstractIncomingMessage) -> None:
            ident = message.correlation_id or uuid.uuid4().hex
            if ident in self._cancelled:
                del self._cancelled[ident]
                await session.acknowledge(message)
                return
            self._calls[ident] = asyncio.create_task(self._serve(session, message, ident), name=f"bus-call-{ident}")

        return call

    async def _serve(self, session: Session, message: AbstractIncomingMessage, ident: str) -> None:
        try:
            answer, until = await self._answer(message.body)
            if message.reply_to:
                async with asyncio.timeout(until):
                    session = await self._session() if session.lost.done() else session
                    await session.publish(message.reply_to, answer, to_queue=True, ident=ident)
        except (TimeoutError, SessionLost, Refused) as error:
            log.debug("action=bus-serve host=%s call=%s result=unanswered reason=%r", self._host, ident, str(error))
        finally:
            self._calls.pop(ident, None)
            await session.acknowledge(message)

    async def _answer(self, body: bytes) -> tuple[bytes, float]:
        """The answer, and the seconds in which it is still of use. Raises TimeoutError when nobody waits any more."""
        try:
            frame = orjson.loads(body)
            method, params = str(frame["method"]), dict(frame["params"])
            deadline, sent = float(frame["deadline"]), float(frame["sent"])
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            log.warning("action=bus-serve host=%s result=bad-message reason=%r", self._host, str(error))
            raise TimeoutError("not a call") from error
        age = self._now() - sent
        if age > deadline:
            # A broker that hung delivers what nobody waits for any more.
            late = HostUnreachable(
                f"Host {self._host} got {method} {age:.0f} s after it was sent; it is of use for {deadline:g} s."
            )
            return orjson.dumps({"error": remote_errors.encode(late)}), deadline
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline
        async with asyncio.timeout(deadline):
            answer = await run_bounded(self._methods, method, params)
        return answer, end - loop.time()

    async def close(self) -> None:
        """Ends the calls at work, and stops listening."""
        await self._doorbell.close()
        calls = list(self._calls.values())
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def ask(
    session: Session,
    names: HostNames,
    method: str,
    params: Mapping[str, Any],
    deadline: float,
    confirmed: Callable[[], None] = lambda: None,
    *,
    sent: float,
) -> dict[str, Any]:
    """The answer's frame. Raises SessionLost, Unroutable, Refused, FrameError.

    ``confirmed`` is called when the broker has the question. ``sent``: now, by the clock that all hosts share, seconds.
    """
    body = frames.pack({"method": method, "params": dict(params), "sent": sent, "deadline": deadline})
    ident, answer = session.expect()
    try:
        await session.publish(names.calls, body, mandatory=True, ident=ident, expiration=deadline)
        confirmed()
        return await answer
    except asyncio.CancelledError:
        session.withdraw(names.cancels, ident)
        raise
    finally:
        session.forget(ident)
