"""Sessions past the relay, where an operator asks for it: the proxy dials the Docker of a node itself, over TLS with
certificates on both sides (``[websocket_proxy]/docker_tcp``).

The proxy is root on such a node then, and whoever takes its key. It does not see the node's processes: the command of a
client that vanished goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from websockets.exceptions import ConnectionClosed, ConnectionClosedError, ConnectionClosedOK
from websockets.frames import Close

from zun.conf import ConfigError
from zun.domain.errors import EngineConflict, EngineError, EngineNotFound
from zun.domain.session import Session as Row
from zun.domain.session import SessionKind
from zun.relay import control
from zun.runtime import docker_sessions
from zun.runtime.docker import DockerRuntime
from zun.runtime.docker_client import DockerClient
from zun.runtime.docker_pods_spec import MEMBER_PREFIX
from zun.runtime.sessions import Session
from zun.wsproxy.ending import LOST, NORMAL, REFUSED, End
from zun.wsproxy.far import Far
from zun.wsproxy.server import RelayUnreachable

LOG = logging.getLogger(__name__)

_CANNOT_RUN = 126


@asynccontextmanager
async def opened(conf: Any) -> AsyncIterator[DockerDoor]:
    """Raises ConfigError when a certificate is missing or not to be checked."""
    missing = [name for name in ("ca_file", "cert_file", "key_file") if not conf.docker[name]]
    if missing or conf.docker.api_insecure:
        wrong = f"{', '.join(missing)} not set" if missing else "api_insecure set"
        raise ConfigError(f"[websocket_proxy]/docker_tcp is on, and [docker] has {wrong}.")
    door = DockerDoor(conf)
    try:
        yield door
    finally:
        await door.close()


class DockerDoor:
    """To the Dockers of any number of nodes."""

    def __init__(self, conf: Any) -> None:
        self._conf = conf
        self._clients: dict[str, DockerClient] = {}

    async def connect(self, session: Row, address: str) -> Far:
        """The session's command, started, or its container's streams. Raises RelayUnreachable."""
        stack = AsyncExitStack()
        try:
            made = await stack.enter_async_context(self._session(session, address))
        except (EngineNotFound, EngineConflict) as error:
            raise RelayUnreachable(End(REFUSED, error.text, "refused")) from error
        except EngineError as error:
            LOG.warning(
                "action=session session=%s docker=%s result=unreachable reason=%s", session.uuid, address, error.text
            )
            raise RelayUnreachable(End(LOST, "The node of the container cannot be reached.", "lost")) from error
        return _Docker(session, made, stack, end_command=self._conf.relay.end_command)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    @asynccontextmanager
    async def _session(self, row: Row, address: str) -> AsyncIterator[Session]:
        client = self._clients.get(address)
        if client is None:
            client = self._clients[address] = DockerClient(self._conf, endpoint=f"tcp://{address}")
        if row.kind is SessionKind.EXEC:
            async with docker_sessions.run(client, row.exec_id or "", tty=row.tty) as command:
                yield command
            return
        name = (MEMBER_PREFIX if row.capsule_uuid else DockerRuntime.prefix) + row.container_uuid
        async with docker_sessions.attach(client, name, stdin=row.stdin) as attached:
            yield attached


class _Docker:
    """``zun.wsproxy.far.Far`` over a session with Docker."""

    paused = False

    def __init__(self, row: Row, session: Session, stack: AsyncExitStack, *, end_command: bool) -> None:
        self._row = row
        self._session = session
        self._stack = stack
        self._end_command = end_command and row.kind is SessionKind.EXEC
        self._messages = self._told()
        self._next: asyncio.Task[str | bytes | None] | None = None
        self._closed: Close | None = None

    @property
    def close_code(self) -> int | None:
        return self._closed.code if self._closed else None

    @property
    def close_reason(self) -> str | None:
        return self._closed.reason if self._closed else None

    async def recv(self) -> str | bytes:
        if self._next is None:
            self._next = asyncio.create_task(_first(self._messages), name="docker-output")
        found = await asyncio.shield(self._next)  # who gives up waiting comes again
        self._next = None
        if found is None:
            raise self._over()
        return found

    async def send(self, message: str | bytes) -> None:
        if self._closed is not None:
            raise self._over()
        try:
            await self._give(message)
        except EngineError as error:  # it reads no more; its output may go on
            LOG.debug("action=session session=%s input=passed over reason=%s", self._row.uuid, error.text)

    async def ping(self) -> Awaitable[float]:
        """The kernel asks the engine's for signs of life."""
        answered = asyncio.get_running_loop().create_future()
        answered.set_result(0.0)
        return answered

    async def close(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        if self._closed is None:
            self._closed = Close(NORMAL, "")
            if self._end_command:
                await self._session.end_command()
        await self._messages.aclose()
        await self._stack.aclose()

    # -- within --------------------------------------------------------------------------------------

    async def _give(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            if self._row.stdin:
                await self._session.write(message)
            return
        match control.parse(message):
            case control.Eof():
                await self._session.close_stdin()
            case control.Resize(height, width):
                await self._session.resize(height=height, width=width)

    async def _told(self) -> Any:
        """Output, then the end as a relay tells it."""
        session = self._session
        try:
            async for piece in session:
                yield piece
        except EngineError as error:
            self._closed = Close(LOST, control.reason(error.text))
            return
        if self._row.kind is SessionKind.EXEC:
            yield control.ended(session.exit_code if session.exit_code is not None else _CANNOT_RUN)
        self._closed = Close(NORMAL, control.DETACHED if session.detached else "")

    def _over(self) -> ConnectionClosed:
        closed = self._closed or Close(NORMAL, "")
        return (ConnectionClosedOK if closed.code == NORMAL else ConnectionClosedError)(closed, None, None)


async def _first(messages: Any) -> Any:
    """None at the end."""
    return await anext(messages, None)
