"""One open session: bytes both ways between client and relay, each side read only as fast as the other takes it.

What is on its way is bounded: a frame of each side, the sockets' buffers, and what is held of an unfinished character.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed

from zun.domain.session import Session, SessionKind
from zun.relay import control
from zun.relay.first import first_of
from zun.wsproxy.ending import BAD_DATA, GOING_AWAY, LOST, NORMAL, REFUSED, End
from zun.wsproxy.far import Far
from zun.wsproxy.framing import BadFrame, Eof, Event, Framing, Pause
from zun.wsproxy.utf8 import WholeCharacters
from zun.wsproxy.watch import Limits, Watch

PIECE = 64 * 1024
"""Bytes of the largest frame, either way."""

_HOLD = 0.05
"""Seconds an unfinished character waits for its rest: what is no text is not kept from anybody."""


class _RelayClosed(Exception):
    """In the middle of a write to it."""


class Pipe:
    """``run`` returns when either side is done; it closes neither."""

    def __init__(self, session: Session, client: Connection, relay: Far, framing: Framing, limits: Limits) -> None:
        self._session = session
        self._client = client
        self._relay = relay
        self._framing = framing
        self._watch = Watch(client, relay, limits)
        self._exit_code: int | None = None
        self._wanted = asyncio.Event()
        """Not set: the client has more output than it can show."""
        self._wanted.set()
        self.bytes_in = 0
        """From the client to the container."""
        self.bytes_out = 0

    async def run(self) -> End:
        """Never raises but for CancelledError."""
        # The container's end is told, though the client may have gone in the same moment.
        return await first_of(self._down(), self._up(), self._watch.run_to_end())

    # -- from the client -----------------------------------------------------------------------------

    async def _up(self) -> End:
        try:
            async for event in self._events():
                self._watch.heard()
                with self._watch.client_waits():
                    await self._give(event)
        except BadFrame as error:
            return End(BAD_DATA, str(error), "refused")
        except ConnectionClosed:
            return self._client_gone()
        except _RelayClosed:  # what it had sent before is still to be read, by the other task
            await asyncio.Event().wait()
        raise AssertionError("no messages any more, and no reason")

    async def _events(self) -> AsyncIterator[Event]:
        while True:
            async for piece in self._client.recv_streaming():
                for event in self._framing.part(piece):
                    yield event
            for event in self._framing.end():
                yield event

    async def _give(self, event: Event) -> None:
        try:
            if isinstance(event, bytes):
                for at in range(0, len(event), PIECE):
                    await self._relay.send(event[at : at + PIECE])
                self.bytes_in += len(event)
            elif isinstance(event, Eof):
                await self._relay.send('{"eof": true}')
            elif isinstance(event, Pause):
                (self._wanted.clear if event.on else self._wanted.set)()
            else:
                size = {"height": event.height, "width": event.width}
                await self._relay.send(orjson.dumps({"resize": size}).decode())
        except ConnectionClosed as error:
            raise _RelayClosed from error

    def _client_gone(self) -> End:
        code = self._client.close_code
        if code in (NORMAL, GOING_AWAY):
            return End(NORMAL, "The client has closed the session.", "left")
        return End(NORMAL, f"The client is gone (close code {code}).", "left")

    # -- to the client -------------------------------------------------------------------------------

    async def _down(self) -> End:
        whole = WholeCharacters()
        if not await self._tell(self._framing.begun(self._session.tty)):
            return self._client_gone()
        while True:
            try:
                async with asyncio.timeout(_HOLD if whole.held else None):
                    message = await self._relay.recv()
            except TimeoutError:
                if not await self._show(whole.flush()):
                    return self._client_gone()
                continue
            except ConnectionClosed:
                return await self._over(whole)
            self._watch.heard()
            if isinstance(message, str):
                self._control(message)
            elif not await self._show(whole.feed(message)):
                return self._client_gone()

    async def _show(self, data: bytes) -> bool:
        """False: the client is gone."""
        if not data:
            return True
        try:
            with self._watch.relay_waits():
                await self._wanted.wait()
                await self._client.send(self._framing.output(data))
        except ConnectionClosed:
            return False
        self.bytes_out += len(data)
        return True

    async def _tell(self, control: str | None) -> bool:
        """False: the client is gone."""
        try:
            if control is not None:
                await self._client.send(control)
        except ConnectionClosed:
            return False
        return True

    def _control(self, message: str) -> None:
        try:
            found = orjson.loads(message)
        except ValueError:
            return
        if isinstance(found, dict) and type(found.get("exit")) is int:
            self._exit_code = found["exit"]

    async def _over(self, whole: WholeCharacters) -> End:
        """The relay has closed."""
        await self._show(whole.flush())
        code, reason = self._relay.close_code, self._relay.close_reason
        if code == REFUSED:
            return End(REFUSED, reason or "The node refused the session.", "refused")
        if code != NORMAL:
            return End(LOST, reason or "The node of the container was lost.", "lost")
        if not await self._tell(self._framing.exit(self._exit_code)):
            return self._client_gone()
        if self._session.kind is SessionKind.ATTACH:
            return End(NORMAL, control.DETACHED if reason == control.DETACHED else control.TARGET_CLOSED, "ended")
        if self._exit_code is None:
            return End(NORMAL, "The command has ended.", "ended")
        return End(NORMAL, f"The command has ended with exit code {self._exit_code}.", "ended", self._exit_code)
