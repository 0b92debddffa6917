"""The relay of this node: proxies connect to it over TLS, each for one session with a container (S4.8).

Neither Docker's socket nor containerd's streams leave the node. Who may open a session was decided by the proxy, once;
here its row is taken, once more only once, and only by the node that has the container.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from zun.compute import relay_leftovers
from zun.compute.node import Node
from zun.compute.relay_session import GOING_AWAY, LOST, REFUSED, TRY_LATER, End, RelaySession
from zun.conf import ConfigError
from zun.domain.errors import EngineConflict, EngineError, EngineNotFound, ZunError
from zun.domain.session import Session as Row
from zun.domain.session import SessionKind
from zun.relay import control, tls
from zun.relay.closing import Handshakes
from zun.relay.link import narrow
from zun.runtime.sessions import Session
from zun.store import sessions

LOG = logging.getLogger(__name__)

_OPENED_WITHIN = timedelta(seconds=60)
_HANDSHAKE_SECONDS = 10.0
_CLOSE_SECONDS = 120.0
"""A slow reader is given so long for what is left of a session that ended."""
_STOP_SECONDS = 5.0
_FILES_EVERY = 3600.0
_STOPPED = End(GOING_AWAY, "The agent of the container's node is shutting down.", "stopped")


class Relay:
    """Of one agent. ``address`` (``host:port``) is what proxies are told; None: there is no relay."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._conf = node.conf.relay
        self._server: Server | None = None
        self._tls: ssl.SSLContext | None = None
        self._open: dict[asyncio.Task[Any], str] = {}
        self._handshakes = Handshakes()
        self.address: str | None = None

    @property
    def open_sessions(self) -> int:
        """Connections now, also those that are being opened."""
        return len(self._open)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listens; leaving ends all sessions (1001). Without certificates on a node of several there is none: told, and
        no error. Raises ConfigError for files or an address that cannot be used."""
        if self._conf.docker_address:
            self.address = _docker_address(self._conf.docker_address)
            LOG.warning("action=relay result=off reason=[relay]/docker_address: proxies dial %s", self.address)
            yield
            return
        if not self._conf.ca_file and not tls.makes_its_own(self._node.conf):
            LOG.warning(
                "action=relay result=off reason=[relay]/ca_file, cert_file and key_file are not set: exec and attach in"
                " a terminal are not possible on this node"
            )
            yield
            return
        try:
            self._tls = await asyncio.to_thread(tls.relay_context, self._node.conf)
            self._server = await self._listen(self._tls)
        except tls.NoCertificates as error:
            raise ConfigError(f"{error}.") from error
        except OSError as error:
            raise ConfigError(f"[relay]/listen {self._conf.listen}, port {self._conf.port}: {error}.") from error
        host, port = tls.address(self._node.conf), self._server.sockets[0].getsockname()[1]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        LOG.info("action=relay address=%s result=ready", self.address)
        tasks = [
            asyncio.create_task(self._renew(), name="relay-certificates"),
            asyncio.create_task(relay_leftovers.sweep(self._node, self._node.clock.now()), name="relay-leftovers"),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._close()

    async def _listen(self, context: ssl.SSLContext) -> Server:
        quiet = logging.getLogger("zun.compute.websockets")
        quiet.setLevel(logging.CRITICAL)  # what strangers send is no error of ours
        return await serve(
            self._handle,
            self._conf.listen,
            self._conf.port,
            create_connection=self._handshakes.connection,
            ssl=context,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS,
            process_request=self._admit,
            compression=None,
            server_header=None,
            open_timeout=_HANDSHAKE_SECONDS,
            close_timeout=_CLOSE_SECONDS,
            ping_interval=None,  # a side that is waited for reads none; see RelaySession.gone
            max_size=control.LARGEST,
            max_queue=1,
            logger=quiet,
            backlog=1024,
        )

    async def _close(self) -> None:
        server, self._server, self.address = self._server, None, None
        if server is None:
            return
        server.close(close_connections=False)
        self._handshakes.drop()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(list(self._open), timeout=_STOP_SECONDS)
        server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await server.wait_closed()

    async def _renew(self) -> None:
        """What a file holds now is what the next connection gets: our own before their end, an operator's when they
        were replaced."""
        while True:
            await self._node.clock.sleep(_FILES_EVERY)
            try:
                await asyncio.to_thread(tls.relay_context, self._node.conf, self._tls)
            except tls.NoCertificates as error:
                LOG.error("action=relay result=certificates not read again reason=%s", error)

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """By the name in the proxy's certificate, where the CA signs others too."""
        wanted = set(self._conf.proxy_names)
        if wanted and not wanted & _names(connection):
            LOG.warning("action=relay result=refused reason=certificate names=%s", sorted(_names(connection)))
            return connection.respond(http.HTTPStatus.FORBIDDEN, "The certificate is not of a proxy that is known.\n")
        return None

    async def _handle(self, connection: ServerConnection) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        narrow(connection)
        uuid = _uuid(connection)
        if len(self._open) >= self._conf.max_sessions:
            await _say(connection, End(TRY_LATER, "The node has as many sessions as it takes; try again.", "refused"))
            return
        self._open[task] = uuid
        try:
            end = await self._serve(connection, uuid)
        except asyncio.CancelledError:
            end = _STOPPED
        except ZunError as error:
            LOG.warning("action=session session=%s result=failed reason=%s", uuid, error.message)
            end = End(LOST, error.message, "failed")
        except Exception:
            LOG.exception("action=session session=%s result=crashed", uuid)
            end = End(LOST, "The node failed to serve the session.", "failed")
        finally:
            self._open.pop(task, None)
        await _say(connection, end)

    async def _serve(self, connection: ServerConnection, uuid: str) -> End:
        node = self._node
        row = await node.db.run(
            lambda found: sessions.connect_once(found, uuid, node.host, node.clock.now(), _OPENED_WITHIN)
        )
        if row is None:
            return End(REFUSED, "No such session is to be opened on this node now.", "refused")
        try:
            async with self._opened(row) as session:
                return await RelaySession(node, row, connection, session).run()
        except (EngineNotFound, EngineConflict) as error:
            return End(REFUSED, error.text, "refused")
        except EngineError as error:
            return End(LOST, error.text, "lost")
        finally:
            await asyncio.shield(self._ended(uuid))

    @asynccontextmanager
    async def _opened(self, row: Row) -> AsyncIterator[Session]:
        """The engine's side."""
        node, uuid = self._node, row.container_uuid
        engine = node.pods if row.capsule_uuid else node.runtime
        if engine is None:
            raise EngineError("there is no engine for capsules on this node")
        if row.kind is SessionKind.ATTACH:
            async with engine.attach_session(uuid, stdin=row.stdin) as session:
                yield session
            return
        exec_id = row.exec_id or ""
        made = engine.exec_session(uuid, exec_id, list(row.command or ()), tty=row.tty, stdin=row.stdin)
        async with made as session:
            try:
                await node.execs.started(exec_id, uuid, session)
                yield session
            finally:
                node.execs.ended(exec_id)

    async def _ended(self, uuid: str) -> None:
        node = self._node
        try:
            await node.db.run(lambda found: sessions.end(found, uuid, node.clock.now()))
        except ZunError as error:  # the sweep of old rows takes it
            LOG.warning("action=session session=%s result=end not written reason=%s", uuid, error.message)


def _docker_address(given: str) -> str:
    """What proxies are told. Raises ConfigError."""
    try:
        parts = urlsplit(f"//{given}")
        good = parts.hostname and parts.port and parts.netloc == given and "@" not in given
    except ValueError:
        good = False
    if not good:
        raise ConfigError(f"[relay]/docker_address '{given}' has to be host:port.")
    return control.DOCKER + given


async def _say(connection: ServerConnection, end: End) -> None:
    """The close frame; whoever is gone does not hear it."""
    if end.code == GOING_AWAY:
        connection.close_timeout = _STOP_SECONDS
    await connection.close(end.code, control.reason(end.reason))


def _uuid(connection: ServerConnection) -> str:
    """Of the session the path names; empty for another path."""
    path = connection.request.path if connection.request is not None else ""
    if not path.startswith(control.PATH):
        return ""
    try:
        return str(UUID(path.removeprefix(control.PATH)))
    except ValueError:
        return ""


def _names(connection: ServerConnection) -> set[str]:
    """Common and alternative names of the other side's certificate."""
    found = connection.transport.get_extra_info("peercert") or {}
    common = {value for part in found.get("subject", ()) for key, value in part if key == "commonName"}
    return common | {value for _, value in found.get("subjectAltName", ())}
