"""The end of WebSocket connections, of the proxy or of a relay, that waits for nothing that does not come."""

from __future__ import annotations

import asyncio

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection
from websockets.frames import DATA_OPCODES, CloseCode, Frame
from websockets.http11 import Request, Response
from websockets.protocol import CONNECTING

_SLACK = 1.0
"""Seconds that the library's own deadline comes first."""


class _Discarding(Connection):
    """Once it is being closed, what still comes is thrown away. The other side's answer to the close stands behind it,
    and who is closed while its input waits for somebody would be waited for until the time for that is over."""

    _discards = False

    async def close(self, code: CloseCode | int = CloseCode.NORMAL_CLOSURE, reason: str = "") -> None:
        self._discards = True
        messages = self.recv_messages
        if messages.paused and not self.transport.is_closing():
            messages.paused = False
            messages.resume()
        timeout = None if self.close_timeout is None else self.close_timeout + _SLACK
        try:
            async with asyncio.timeout(timeout):
                await super().close(code, reason)
        except TimeoutError:  # the library waits without end for the other side to take what is written
            self.transport.abort()
            await asyncio.shield(self.connection_lost_waiter)

    def process_event(self, event: Frame | Request | Response) -> None:
        if self._discards and isinstance(event, Frame) and event.opcode in DATA_OPCODES:
            return
        super().process_event(event)


class OutgoingConnection(_Discarding, ClientConnection):
    """To a relay."""


class Handshakes:
    """Connections of one server whose opening handshake is not over; ``connection`` is the server's
    ``create_connection``."""

    def __init__(self) -> None:
        self._made: set[ServerConnection] = set()
        self.connection = _noting(self._made)

    def drop(self) -> None:
        """Cuts them. Browsers open connections to spare, and a stop would wait for each until its time to ask
        (``open_timeout``) is over."""
        for connection in list(self._made):
            if connection.protocol.state is CONNECTING:
                connection.transport.abort()


def _noting(made: set[ServerConnection]) -> type[ServerConnection]:
    class Noted(_Discarding, ServerConnection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.add(self)
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            made.discard(self)
            super().connection_lost(exc)

    return Noted
