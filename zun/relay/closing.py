"""The end of a WebSocket server, of the proxy or of a relay, that does not wait for who has asked for nothing."""

from __future__ import annotations

import asyncio

from websockets.asyncio.server import ServerConnection
from websockets.protocol import CONNECTING


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
    class Noted(ServerConnection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.add(self)
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            made.discard(self)
            super().connection_lost(exc)

    return Noted
