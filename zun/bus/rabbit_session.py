"""One connection to one broker: publishing with confirms, and calls whose answers come through a private queue.

A session that lost anything (connection, channel, consumer) is lost as a whole; ``rabbit_link`` opens the next.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import orjson
from aio_pika import Message
from aio_pika.abc import (
    AbstractChannel,
    AbstractExchange,
    AbstractIncomingMessage,
    ExchangeType,
)
from aio_pika.exceptions import (
    CONNECTION_EXCEPTIONS,
    ChannelPreconditionFailed,
    DeliveryError,
    PublishError,
)

from zun.bus.rabbit_transport import OPEN_SECONDS, BrokerConnection, Transports, connection_url, explain
from zun.bus.rabbit_url import Broker, Target

log = logging.getLogger(__name__)
T = TypeVar("T")

_CLOSE_SECONDS = 2.0
_LONGEST_EXPIRATION = 24 * 3600.0  # seconds; a broker refuses more than some weeks


class SessionLost(Exception):
    """The connection ended; the message says why."""


class Trouble(Exception):
    """Something did not work, and the session lives; the message says what."""


class Unroutable(Exception):
    """Nobody has a queue for the message."""


class Refused(Exception):
    """The queue is full."""


class Session:
    """``lost`` is done, with the reason, once the session is of no use any more."""

    def __init__(self, target: Target, broker: Broker, name: str) -> None:
        self.broker = broker
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._target = target
        self._transports = Transports(target.tls)
        self._connection = BrokerConnection(
            connection_url(target, broker, name),
            client_properties={"product": "zun"},
            transport_factory=self._transports,
        )
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._publishing: AbstractChannel
        self._rings: AbstractExchange
        self.exchange: AbstractExchange
        self.replies = ""
        """Name of the private queue that answers come to."""

    async def open(self) -> None:
        """At most OPEN_SECONDS. Raises SessionLost."""
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await self.guard(self._open(), abandon=self._transports.abort)
        except TimeoutError as error:
            self.lose(explain(error, self.broker, self._target.vhost))
            raise SessionLost(self.lost.result()) from error

    async def _open(self) -> None:
        await self._connection.connect()
        self._connection.close_callbacks.add(self._on_closed)
        self._publishing = await self.channel()
        self.exchange = await self._declare_exchange()
        # Of its own: the broker stops reading a channel while a queue without leader cannot take its message.
        self._rings = await (await self.channel()).get_exchange(self.exchange.name, ensure=False)
        queue = await (await self.channel()).declare_queue(exclusive=True, auto_delete=True)
        await queue.consume(self._on_reply, no_ack=True)
        self.replies = queue.name

    async def channel(self, prefetch: int = 0, *, ended: asyncio.Event | None = None) -> AbstractChannel:
        """A channel that the session lives and dies with; with ``ended`` that is set instead of losing the session."""

        def on_closed(_: Any, error: BaseException | None = None) -> None:
            self.lose(explain(error, self.broker, self._target.vhost)) if ended is None else ended.set()

        def on_cancelled(_: Any) -> None:
            self.lose("a queue of this process was deleted") if ended is None else ended.set()

        channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
        channel.close_callbacks.add(on_closed)
        (await channel.get_underlay_channel()).on_consumer_cancel_callbacks.add(on_cancelled)
        if prefetch:
            await channel.set_qos(prefetch_count=prefetch)
        return channel

    async def _declare_exchange(self) -> AbstractExchange:
        """One that the original left behind is not durable; it serves as well, until the broker forgets it."""
        name = self._target.options.exchange
        trial = await self._connection.channel()
        try:
            await trial.declare_exchange(name, ExchangeType.TOPIC, durable=True)
        except ChannelPreconditionFailed:
            return await self._publishing.declare_exchange(name, ExchangeType.TOPIC, passive=True)
        await trial.close()
        return await self._publishing.get_exchange(name, ensure=False)

    # -- what is sent ---------------------------------------------------------------------------------

    async def ring(self, key: str) -> None:
        """Returns when the broker has confirmed. Raises SessionLost, Unroutable."""
        await self._publish(self._rings, Message(b""), key, True)

    async def publish(
        self,
        key: str,
        body: bytes,
        *,
        mandatory: bool = False,
        to_queue: bool = False,
        ident: str | None = None,
        expiration: float | None = None,
    ) -> None:
        """Returns when the broker has confirmed. Raises SessionLost, Unroutable (if mandatory), Refused.

        ``to_queue``: ``key`` is the name of a queue. ``expiration``: seconds the message is worth anything.
        """
        message = Message(
            body,
            correlation_id=ident,
            reply_to=self.replies,
            expiration=None if expiration is None else min(max(expiration, 0.001), _LONGEST_EXPIRATION),
        )
        await self._publish(self._publishing.default_exchange if to_queue else self.exchange, message, key, mandatory)

    async def send(self, key: str, message: Message) -> None:
        """Returns when the broker has confirmed; also when nobody has a queue for it. Raises SessionLost, Refused."""
        await self._publish(self.exchange, message, key, False)

    async def ensure_queue(self, name: str, *, durable: bool) -> None:
        """A queue of that name, bound to the exchange by it, whoever made it and however. Raises SessionLost, Trouble,
        TimeoutError."""
        async with asyncio.timeout(OPEN_SECONDS):
            try:
                await self.guard(self._bind(name, passive=True, durable=durable), fatal=False)
            except Trouble:  # it is not there yet; the question has ended the channel it was asked on
                await self.guard(self._bind(name, passive=False, durable=durable), fatal=False)

    async def _bind(self, name: str, *, passive: bool, durable: bool) -> None:
        channel = await self._connection.channel()
        queue = await channel.declare_queue(name, durable=durable, passive=passive)
        await queue.bind(self.exchange, name)
        await channel.close()

    async def _publish(self, exchange: AbstractExchange, message: Message, key: str, mandatory: bool) -> None:
        try:
            await self.guard(exchange.publish(message, key, mandatory=mandatory))
        except PublishError as error:
            raise Unroutable(key) from error
        except DeliveryError as error:
            raise Refused(key) from error

    def withdraw(self, key: str, ident: str) -> None:
        """Tell the node, in the background, that nobody waits for the answer any more."""

        async def tell() -> None:
            try:
                await self.publish(key, b"", ident=ident)
            except (SessionLost, Refused) as error:
                log.debug("action=bus-call call=%s result=not-withdrawn reason=%r", ident, str(error))

        task = asyncio.create_task(tell(), name=f"bus-withdraw-{ident}")
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def acknowledge(self, message: AbstractIncomingMessage) -> None:
        """Raises nothing: what a lost session leaves unacknowledged is the broker's to give again or to forget."""
        if message.channel.is_closed:
            return
        try:
            await self.guard(message.ack(), fatal=False)
        except (SessionLost, Trouble) as error:
            log.debug("action=bus-serve result=unacknowledged reason=%r", str(error))

    async def until_lost(self, event: asyncio.Event) -> None:
        """Returns when the session is lost or the event is set."""
        waiter = asyncio.create_task(event.wait())
        either: set[asyncio.Future[Any]] = {waiter, self.lost}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()

    async def guard(
        self, work: Coroutine[Any, Any, T], *, fatal: bool = True, abandon: Callable[[], None] = lambda: None
    ) -> T:
        """The result of ``work``; SessionLost as soon as the session is lost, whatever the library does then.

        An error of the library ends the session if it is ``fatal``, else it is Trouble. ``abandon`` is called before
        unfinished work is cancelled.
        """
        if self.lost.done():
            work.close()
            raise SessionLost(self.lost.result())
        task = asyncio.create_task(work)
        either: set[asyncio.Future[Any]] = {task, self.lost}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                abandon()
                task.cancel()
                await asyncio.wait({task})
        try:
            return task.result()
        except DeliveryError:
            raise
        except (asyncio.CancelledError, *CONNECTION_EXCEPTIONS) as error:
            reason = self.lost.result() if self.lost.done() else explain(error, self.broker, self._target.vhost)
            if not fatal and not self.lost.done():
                raise Trouble(reason) from error
            self.lose(reason)
            raise SessionLost(reason) from error

    # -- answers --------------------------------------------------------------------------------------

    def expect(self) -> tuple[str, asyncio.Future[dict[str, Any]]]:
        """A new number, and its answer: a frame, or SessionLost. To be given back with ``forget``."""
        ident = uuid.uuid4().hex
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[ident] = answer
        return ident, answer

    def forget(self, ident: str) -> None:
        """Answers that come later are dropped."""
        answer = self._waiting.pop(ident, None)
        if answer is not None and answer.done() and not answer.cancelled():
            answer.exception()  # told to nobody: who asked has left already

    async def _on_reply(self, message: AbstractIncomingMessage) -> None:
        answer = self._waiting.get(message.correlation_id or "")
        if answer is None or answer.done():
            log.debug("action=bus-call result=late-reply call=%s", message.correlation_id)
            return
        frame: Any = None
        with suppress(orjson.JSONDecodeError):
            frame = orjson.loads(message.body)
        answer.set_result(frame if isinstance(frame, dict) else {"error": {}})

    # -- its end --------------------------------------------------------------------------------------

    def lose(self, reason: str) -> None:
        """The session is of no use any more. The first reason stays."""
        if self.lost.done():
            return
        self.lost.set_result(reason)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(SessionLost(reason))

    def _on_closed(self, _: Any, error: BaseException | None) -> None:
        self.lose(explain(error, self.broker, self._target.vhost))

    async def close(self) -> None:
        """Says good-bye, but does not wait for a broker that hangs. Nothing of the session runs afterwards."""
        self.lose("closed")
        await asyncio.gather(*self._telling, return_exceptions=True)
        closing = asyncio.create_task(self._connection.close())
        done, _ = await asyncio.wait({closing}, timeout=_CLOSE_SECONDS)
        self._transports.abort()
        if not done:
            await asyncio.wait({closing})
        with suppress(*CONNECTION_EXCEPTIONS, asyncio.CancelledError):
            await closing


Setup = Callable[[Session], Awaitable[None]]
"""Makes queues and consumers on a new session."""
