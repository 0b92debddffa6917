"""One session at the relay: bytes both ways between a proxy and the engine, each side read only as fast as the other
takes it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from dataclasses import dataclass

from prometheus_client import Counter, Gauge
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from zun.compute.node import Node
from zun.domain.errors import EngineError
from zun.domain.session import Session as Row
from zun.domain.session import SessionKind
from zun.relay import control
from zun.relay.control import Eof, Resize
from zun.relay.first import first_of
from zun.relay.link import established
from zun.runtime.sessions import Session

LOG = logging.getLogger(__name__)

NORMAL, GOING_AWAY, REFUSED, LOST, TRY_LATER = 1000, 1001, 1008, 1011, 1013

_OPEN = Gauge("zun_relay_sessions", "Sessions open at the relay now.", ["kind"])
_ENDED = Counter("zun_relay_sessions_ended", "Sessions that ended at the relay.", ["kind", "result"])
_BYTES = Counter("zun_relay_bytes", "Bytes that passed the relay.", ["direction"])

_CANNOT_RUN = 126


@dataclass(frozen=True, slots=True)
class End:
    """How a session ended: close code, a reason for its owner, and one word for logs and metrics."""

    code: int
    reason: str
    result: str


class RelaySession:
    """``run`` returns when either side is done; it closes neither."""

    def __init__(self, node: Node, row: Row, connection: ServerConnection, session: Session) -> None:
        self._node = node
        self._row = row
        self._connection = connection
        self._session = session
        self._waiting = False
        self._in = self._out = 0

    async def run(self) -> End:
        """Raises CancelledError only, when the agent stops; the command of a client that is gone is ended."""
        kind, begun = self._row.kind.value, time.monotonic()
        end = End(GOING_AWAY, "", "stopped")
        self._keep_alive()
        with _OPEN.labels(kind).track_inprogress():
            try:
                end = await self._run()
            finally:
                if end.result in ("left", "stopped"):
                    await asyncio.shield(self._client_gone())
                _ENDED.labels(kind, end.result).inc()
                self._log(end, time.monotonic() - begun)
        return end

    async def _run(self) -> End:
        # The session's own end is told, though the client may have gone in the same moment.
        return await first_of(self._output(), self._input(), self._gone())

    async def _output(self) -> End:
        try:
            async for piece in self._session:
                await self._send(piece)
            return await self._over()
        except EngineError as error:
            return End(LOST, error.text, "lost")
        except ConnectionClosed:
            return _LEFT

    async def _send(self, piece: bytes) -> None:
        await self._connection.send(piece)
        self._out += len(piece)
        _BYTES.labels("out").inc(len(piece))

    async def _over(self) -> End:
        session = self._session
        code = session.exit_code
        if session.failure:
            await self._send(f"{session.failure}\r\n".encode())
            code = _CANNOT_RUN if code is None else code
        await self._connection.send(control.ended(code))
        if self._row.kind is SessionKind.ATTACH:
            return End(NORMAL, control.DETACHED if session.detached else control.TARGET_CLOSED, "ended")
        return End(NORMAL, f"The command has ended with exit code {code}.", "ended")

    async def _input(self) -> End:
        try:
            while True:
                message = await self._connection.recv()
                self._waiting = True
                try:
                    await self._give(message)
                except EngineError as error:  # it reads no more; its output may go on
                    LOG.debug("action=session session=%s input=passed over reason=%s", self._row.uuid, error.text)
                self._waiting = False
        except ConnectionClosed:
            return _LEFT

    async def _give(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            if self._row.stdin:
                await self._session.write(message)
                self._in += len(message)
                _BYTES.labels("in").inc(len(message))
            return
        match control.parse(message):
            case Eof():
                await self._session.close_stdin()
            case Resize(height, width):
                await self._session.resize(height=height, width=width)

    # -- a client that is gone -----------------------------------------------------------------------

    def _keep_alive(self) -> None:
        """The kernel asks the proxy's for signs of life, whatever waits for whom: frames would stand behind what the
        other side does not read."""
        interval = self._node.conf.relay.ping_interval
        link = self._connection.transport.get_extra_info("socket")
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", interval), ("TCP_KEEPINTVL", interval), ("TCP_KEEPCNT", 2)):
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    async def _gone(self) -> End:
        """While input waits for the program nothing is read from the connection, nor its end: something is sent, which
        the machine of a proxy that is gone refuses, and the kernel is asked."""
        while True:
            await asyncio.sleep(self._node.conf.relay.ping_interval)
            if not self._waiting:
                continue
            with contextlib.suppress(TimeoutError, ConnectionClosed):
                async with asyncio.timeout(1.0):
                    await self._connection.ping()
            await asyncio.sleep(0.1)
            if not established(self._connection):
                self._connection.transport.abort()
                return _LEFT

    async def _client_gone(self) -> None:
        if self._row.kind is SessionKind.EXEC and self._node.conf.relay.end_command:
            await self._session.end_command()

    def _log(self, end: End, seconds: float) -> None:
        row = self._row
        LOG.info(
            "action=session session=%s kind=%s container=%s request=%s result=%s seconds=%.1f bytes_in=%d bytes_out=%d"
            " exit=%s reason=%s",
            *(row.uuid, row.kind.value, row.container_uuid, row.request_id, end.result, seconds, self._in, self._out),
            *(self._session.exit_code, end.reason),
        )


_LEFT = End(NORMAL, "The client has left.", "left")
