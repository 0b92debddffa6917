"""To the relay of a node: TLS both ways, one connection a session (S4.8)."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from zun.domain.session import Session
from zun.relay.closing import OutgoingConnection
from zun.relay.link import narrow
from zun.wsproxy.ending import LOST, End
from zun.wsproxy.pipe import PIECE
from zun.wsproxy.server import RelayUnreachable

LOG = logging.getLogger(__name__)

_CLOSE_SECONDS = 5.0
_READ_EVERY = 3600.0


class RelayLink:
    """``load`` reads the certificates (blocking) that demand the node's and show ours; it is asked again every hour, as
    they are renewed. ``timeout`` is for the whole handshake, seconds."""

    def __init__(self, load: Callable[[], ssl.SSLContext], timeout: float) -> None:
        self._load = load
        self._timeout = timeout
        self._tls: ssl.SSLContext | None = None
        self._read_at = 0.0

    async def prepare(self) -> None:
        """Read the certificates. Raises what ``load`` raises."""
        self._tls = await asyncio.to_thread(self._load)
        self._read_at = time.monotonic()

    async def connect(self, session: Session, address: str) -> ClientConnection:
        """Raises RelayUnreachable; whatever it was stands in the log, the client is told that the node is lost."""
        if self._tls is None or time.monotonic() - self._read_at > _READ_EVERY:
            try:
                await self.prepare()
            except Exception as error:
                LOG.error("action=wsproxy result=certificates not read again reason=%s", error)
        try:
            made = await connect(
                f"wss://{address}/v1/sessions/{session.uuid}",
                ssl=self._tls,
                create_connection=OutgoingConnection,
                proxy=None,
                compression=None,
                user_agent_header=None,
                open_timeout=self._timeout,
                close_timeout=_CLOSE_SECONDS,
                ping_interval=None,
                max_size=4 * PIECE,
                max_queue=1,
            )
            narrow(made)
            return made
        except InvalidStatus as error:
            text = error.response.body.decode(errors="replace").strip()
            LOG.warning("action=session session=%s relay=%s result=lost reason=%s", session.uuid, address, text)
            raise RelayUnreachable(End(LOST, "The node of the container refuses this proxy.", "lost")) from error
        except (OSError, WebSocketException, ValueError) as error:
            reason = str(error) or type(error).__name__
            LOG.warning(
                "action=session session=%s relay=%s result=unreachable reason=%s", session.uuid, address, reason
            )
            raise RelayUnreachable(End(LOST, "The node of the container cannot be reached.", "lost")) from error
