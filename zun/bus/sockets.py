"""The bus of several processes on one machine: the agent of host H listens on ``<folder>/<H>.sock``.

A connection to each host is kept; calls share it and are told apart by a number.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from zun.bus import frames, remote_errors
from zun.bus.agent_socket import AgentSocket
from zun.bus.base import Handler
from zun.bus.local import too_late
from zun.domain.errors import HostUnreachable, InvalidValue

log = logging.getLogger(__name__)

_RING_PATIENCE = 5.0
_LONGEST_PATH = 107  # bytes of a unix socket's address


class SocketBus:
    """See ``zun.bus.base.Bus``."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._served: dict[str, AgentSocket] = {}
        self._connections: dict[str, _Connection] = {}
        self._connecting: dict[str, asyncio.Lock] = {}
        self._rings: set[asyncio.Task[None]] = set()
        self._ringing: set[str] = set()

    def _path(self, host: str) -> Path:
        path = self._folder / f"{host}.sock"
        if not host or "/" in host or "\0" in host or host.startswith("."):
            raise InvalidValue(f"{host!r} cannot be the name of a host.")
        if len(str(path).encode()) > _LONGEST_PATH:
            raise InvalidValue(f"The socket's path {path} is longer than {_LONGEST_PATH} bytes; use a shorter folder.")
        return path

    async def serve(self, host: str, doorbell: Callable[[], None], methods: Mapping[str, Handler]) -> None:
        """Register as the agent of ``host``. Raises Conflict when a live agent serves it, InvalidValue."""
        path = self._path(host)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        agent = AgentSocket(path, host, doorbell, methods)
        await agent.open()
        self._served[host] = agent

    async def ring(self, host: str) -> None:
        """Returns at once, never raises; rings that wait for the same connection are one."""
        if host not in self._ringing:
            self._ringing.add(host)
            task = asyncio.create_task(self._ring(host), name=f"ring-{host}")
            self._rings.add(task)
            task.add_done_callback(self._rings.discard)

    async def _ring(self, host: str) -> None:
        try:
            async with asyncio.timeout(_RING_PATIENCE):
                connection = await self._connect(host)
                self._ringing.discard(host)  # from here on a further ring is a new one
                await connection.send({"ring": True})
        except (HostUnreachable, InvalidValue, TimeoutError) as error:
            log.debug("action=ring host=%s result=failed reason=%r", host, str(error))
        finally:
            self._ringing.discard(host)

    async def call(self, host: str, method: str, params: Mapping[str, Any], deadline: float) -> Any:
        """Ask the node, at most ``deadline`` seconds. Raises HostUnreachable, or the node's ZunError."""
        try:
            async with asyncio.timeout(deadline) as limit:
                connection = await self._connect(host)
                return await connection.call(method, params)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise too_late(host, method, deadline) from error

    async def _connect(self, host: str) -> _Connection:
        async with self._connecting.setdefault(host, asyncio.Lock()):
            connection = self._connections.get(host)
            if connection is None or connection.closed:
                path = self._path(host)
                try:
                    streams = await asyncio.open_unix_connection(str(path), limit=frames.MAX_FRAME)
                except OSError as error:
                    raise HostUnreachable(f"Host {host} does not answer: no agent is running.") from error
                connection = _Connection(host, *streams)
                self._connections[host] = connection
            return connection

    async def close(self) -> None:
        rings = list(self._rings)
        for task in rings:
            task.cancel()
        await asyncio.gather(*rings, return_exceptions=True)
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()
        for agent in self._served.values():
            await agent.close()
        self._served.clear()


class _Connection:
    """One stream to an agent, shared by all calls to it."""

    def __init__(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._host = host
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.closed = False
        self._task = asyncio.create_task(self._read(reader), name=f"bus-read-{host}")

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """The node's answer. Raises its ZunError, HostUnreachable when the connection ends, InvalidValue."""
        ident = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[ident] = answer
        try:
            await self.send({"id": ident, "method": method, "params": dict(params)})
            frame = await answer
        except asyncio.CancelledError:
            if not self.closed:
                self._writer.write(frames.pack({"cancel": ident}))
            raise
        finally:
            self._waiting.pop(ident, None)
        if "error" in frame:
            raise remote_errors.decode(frame["error"])
        return frame.get("result")

    async def send(self, frame: dict[str, Any]) -> None:
        """Raises HostUnreachable, InvalidValue (does not fit in a frame)."""
        try:
            line = frames.pack(frame)
        except frames.FrameError as error:
            raise InvalidValue(f"The call to host {self._host} cannot be sent: {error}.") from error
        if self.closed:
            raise self._gone()
        try:
            self._writer.write(line)
            await self._writer.drain()
        except ConnectionError as error:
            raise self._gone() from error

    def _gone(self) -> HostUnreachable:
        return HostUnreachable(f"Host {self._host} does not answer: its agent went away.")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while (frame := await frames.read(reader)) is not None:
                waiting = self._waiting.get(frame.get("id", 0))
                if waiting is not None and not waiting.done():
                    waiting.set_result(frame)
        except frames.FrameError as error:
            log.warning("action=bus-read host=%s result=bad-frame reason=%r", self._host, str(error))
        finally:
            self.closed = True
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(self._gone())
            self._writer.close()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        with suppress(OSError):
            await self._writer.wait_closed()
