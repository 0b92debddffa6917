"""The proxy's server: handshakes, admission, and one ``Pipe`` for each session that was admitted (S4.5-S4.8)."""

from __future__ import annotations

import http
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import Counter, Gauge
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import NegotiationError
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from zun.domain.clock import Clock
from zun.domain.errors import ZunError
from zun.domain.session import Session
from zun.relay.closing import Handshakes
from zun.relay.link import narrow
from zun.store import sessions
from zun.store.database import Database
from zun.wsproxy import audit, framing, origin
from zun.wsproxy.admission import NotAdmitted, Wanted, admit
from zun.wsproxy.console import Console
from zun.wsproxy.ending import GOING_AWAY, LOST, REFUSED, TRY_LATER, End
from zun.wsproxy.far import Far
from zun.wsproxy.pipe import PIECE, Pipe
from zun.wsproxy.watch import Limits

LOG = logging.getLogger(__name__)

_OPEN = Gauge("zun_proxy_sessions", "Connections of clients now.")
_ENDED = Counter("zun_proxy_sessions_ended", "Sessions that ended, or were refused, at the proxy.", ["result"])
_BYTES = Counter("zun_proxy_bytes", "Bytes that passed the proxy, counted when their session ends.", ["direction"])

_CLOSE_SECONDS = 5.0
_DRAIN_SECONDS = 120.0
"""A slow reader is given so long for the last of a session that ended."""
_BACKLOG = 1024

Connect = Callable[[Session, str], Awaitable[Far]]
"""To the relay at an address, for a session. Raises ``RelayUnreachable``."""


_STOPPED = End(GOING_AWAY, "The proxy is shutting down.", "stopped")
_STATUS = {REFUSED: http.HTTPStatus.FORBIDDEN, TRY_LATER: http.HTTPStatus.SERVICE_UNAVAILABLE}
"""For clients that are refused in HTTP."""


class RelayUnreachable(Exception):
    """``end`` says why, to the client and the audit."""

    def __init__(self, end: End) -> None:
        super().__init__(end.reason)
        self.end = end


class Proxy:
    """Serves until it is left; what is no WebSocket is answered by the page for browsers, or refused."""

    def __init__(self, conf: Any, db: Database, clock: Clock, connect: Connect) -> None:
        self._conf = conf.websocket_proxy
        self._db = db
        self._clock = clock
        self._connect = connect
        self._page = Console(self._conf.base_url, self._conf.allowed_origins)
        self._scheme = urlsplit(self._conf.base_url).scheme.lower()
        self._balancers = origin.Balancers(self._conf.trusted_proxies)
        self._open = 0
        self._stopping = False
        section = self._conf
        self._limits = Limits(
            section.idle_timeout, section.session_timeout, section.ping_interval, section.ping_timeout
        )

    @asynccontextmanager
    async def serving(self, listening: socket.socket, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
        """Takes connections on a bound socket; leaving ends all sessions (1001)."""
        quiet = logging.getLogger("zun.wsproxy.websockets")
        quiet.setLevel(logging.CRITICAL)  # what strangers send is no error of ours; our own are told by us
        handshakes = Handshakes()
        async with serve(
            self._handle,
            create_connection=handshakes.connection,
            sock=listening,
            backlog=_BACKLOG,
            ssl=tls,
            process_request=self._look,
            process_response=self._note,
            select_subprotocol=self._choose,
            compression=None,
            server_header=None,
            open_timeout=self._conf.connect_timeout,
            close_timeout=_CLOSE_SECONDS,
            ping_interval=None,  # ours know of back-pressure
            max_size=(None, PIECE),
            max_queue=1,
            logger=quiet,
        ):
            try:
                yield
            finally:
                self._stopping = True
                handshakes.drop()

    # -- the handshake -------------------------------------------------------------------------------

    def _look(self, connection: ServerConnection, request: Request) -> Response | None:
        if "websocket" not in ",".join(request.headers.get_all("Upgrade")).lower():
            return self._plain(connection, request)
        refusal = self._refusal(connection, request)
        if refusal is None or _reads_close_codes(request):  # told by ``_handle``, which looks again
            return None
        return connection.respond(_STATUS[refusal.code], f"{refusal.reason}\n")

    def _refusal(self, connection: ServerConnection, request: Request) -> End | None:
        """What is known before a token is looked at."""
        if self._open >= self._conf.max_sessions:
            return End(TRY_LATER, "Too many sessions are open; try again.", "refused")
        peer = _peer(connection)
        found = origin.refusal(
            request.headers.get_all("Origin"),
            request.headers.get("Host") if len(request.headers.get_all("Host")) == 1 else None,
            self._conf.allowed_origins,
            self._scheme,
            self._balancers.scheme(peer, request.headers.get_all("X-Forwarded-Proto")),
        )
        return None if found is None else End(REFUSED, found, "refused")

    def _plain(self, connection: ServerConnection, request: Request) -> Response:
        answer = self._page(request)
        if answer is not None:
            return answer
        answer = connection.respond(http.HTTPStatus.METHOD_NOT_ALLOWED, "Sessions are opened by WebSocket clients.\n")
        answer.headers["Allow"] = "GET"
        answer.headers["Upgrade"] = "websocket"
        return answer

    def _choose(self, connection: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        try:
            chosen = framing.choose(offered)
        except LookupError as error:
            raise NegotiationError(str(error.args[0])) from error
        return None if chosen is None else Subprotocol(chosen)

    def _note(self, connection: ServerConnection, request: Request, response: Response) -> None:
        """A refused handshake is told, too."""
        if response.status_code != http.HTTPStatus.SWITCHING_PROTOCOLS and "Upgrade" in request.headers:
            reason = f"HTTP {response.status_code}: {response.body.decode(errors='replace').strip()}"
            self._note_refusal(connection, End(response.status_code, reason, "refused"))

    def _note_refusal(self, connection: ServerConnection, end: End) -> None:
        _ENDED.labels(end.result).inc()
        audit.write(self._told(connection), None, end, seconds=0, bytes_in=0, bytes_out=0)

    def _told(self, connection: ServerConnection) -> audit.Told:
        request = connection.request
        if request is None:
            return audit.Told(_peer(connection))
        wanted = Wanted.of(request.path)
        address = self._balancers.client(_peer(connection), request.headers.get_all("X-Forwarded-For"))
        return audit.Told(address, wanted.ident, wanted.exec_id)

    # -- the session ---------------------------------------------------------------------------------

    async def _handle(self, client: ServerConnection) -> None:
        refusal = None if client.request is None else self._refusal(client, client.request)
        if refusal is not None:  # nothing was looked up, and nothing that it sends is read
            self._note_refusal(client, refusal)
            await client.close(refusal.code, refusal.short_reason)
            return
        self._open += 1
        _OPEN.inc()
        try:
            await self._session(client)
        except Exception:
            LOG.exception("action=session result=crashed")
            await client.close(LOST, "The proxy failed.")
        finally:
            self._open -= 1
            _OPEN.dec()

    async def _session(self, client: ServerConnection) -> None:
        narrow(client)
        told, begun = self._told(client), time.monotonic()
        session: Session | None = None
        pipe: Pipe | None = None
        end, opened = _STOPPED, False
        try:
            session, address = await admit(self._db, self._clock, self._wanted(client))
            opened = True
            relay = await self._connect(session, address)
            try:
                pipe = Pipe(session, client, relay, framing.of(client.subprotocol), self._limits)
                ended = await pipe.run()
                end = _STOPPED if self._stopping else ended
            finally:
                await relay.close()
        except NotAdmitted as error:
            session, end = error.session, error.end
        except RelayUnreachable as error:
            end = error.end
        finally:
            sent = (pipe.bytes_in, pipe.bytes_out) if pipe else (0, 0)
            seconds = time.monotonic() - begun
            _ENDED.labels(end.result).inc()
            _BYTES.labels("in").inc(sent[0])
            _BYTES.labels("out").inc(sent[1])
            audit.write(told, session, end, seconds=seconds, bytes_in=sent[0], bytes_out=sent[1])
            if end.result == "ended":
                client.close_timeout = _DRAIN_SECONDS
            await client.close(end.code, end.short_reason)
            if session is not None and opened:
                await self._ended(session)

    @staticmethod
    def _wanted(client: ServerConnection) -> Wanted:
        return Wanted.of(client.request.path if client.request else "")

    async def _ended(self, session: Session) -> None:
        try:
            async with self._db.write() as connection:
                await sessions.end(connection, session.uuid, self._clock.now())
        except ZunError as error:
            LOG.warning("action=session session=%s result=end not written reason=%s", session.uuid, error.message)


def _reads_close_codes(request: Request) -> bool:
    """Does the client speak our page's protocol? No script of a browser sees the answer to a handshake that fails."""
    lines = request.headers.get_all("Sec-WebSocket-Protocol")
    try:
        return framing.choose([name.strip() for line in lines for name in line.split(",")]) == framing.CONSOLE
    except LookupError:
        return False


def _peer(connection: ServerConnection) -> str:
    address = connection.remote_address
    return str(address[0]) if address else ""
