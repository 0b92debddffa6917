"""The serving end of the socket bus: one unix socket for the agent of one host."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from zun.bus import frames
from zun.bus.base import Handler
from zun.bus.local import ring_doorbell, run_bounded
from zun.domain.errors import Conflict

log = logging.getLogger(__name__)


class AgentSocket:
    """Listens on ``path``; the lock beside it tells a live agent from the socket a dead one left."""

    def __init__(self, path: Path, host: str, doorbell: Callable[[], None], methods: Mapping[str, Handler]) -> None:
        self._path = path
        self._host = host
        self._doorbell = doorbell
        self._methods = dict(methods)
        self._lock: int | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Raises Conflict when a live agent serves the host."""
        self._lock = os.open(self._path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._unlock()
            raise Conflict(f"Another agent serves host {self._host} already.") from error
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with suppress(FileNotFoundError):
                os.unlink(self._path)
            os.fchmod(listening.fileno(), 0o600)  # before bind: the file never has a wider mode
            listening.bind(str(self._path))
            self._server = await asyncio.start_unix_server(self._accept, sock=listening, limit=frames.MAX_FRAME)
        except BaseException:
            listening.close()
            self._unlock()
            raise

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def close(self) -> None:
        """Ends all connections and the calls that run for them."""
        if self._server is None:
            return
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        self._unlock()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine always runs in a task
        self._connections.add(task)
        calls: dict[int, asyncio.Task[None]] = {}
        try:
            await self._read(reader, writer, calls)
        except frames.FrameError as error:
            log.warning("action=bus-serve host=%s result=bad-frame reason=%r", self._host, str(error))
        except asyncio.CancelledError:
            log.debug("action=bus-serve host=%s result=closed", self._host)  # by close(): the server awaits us
        finally:
            self._connections.discard(task)
            for call in list(calls.values()):  # who asked is gone
                call.cancel()
            await asyncio.gather(*list(calls.values()), return_exceptions=True)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _read(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, calls: dict[int, asyncio.Task[None]]
    ) -> None:
        while (frame := await frames.read(reader)) is not None:
            if frame.get("ring"):
                ring_doorbell(self._host, self._doorbell)
            elif isinstance(ident := frame.get("cancel"), int):
                if ident in calls:
                    calls[ident].cancel()
            elif isinstance(ident := frame.get("id"), int) and ident not in calls:
                calls[ident] = asyncio.create_task(self._answer(writer, calls, frame), name=f"bus-call-{ident}")
            else:
                raise frames.FrameError("a message is none of ring, cancel and call")

    async def _answer(
        self, writer: asyncio.StreamWriter, calls: dict[int, asyncio.Task[None]], frame: dict[str, Any]
    ) -> None:
        ident = frame["id"]
        params = frame.get("params")
        try:
            answer = await run_bounded(
                self._methods, str(frame.get("method")), params if isinstance(params, dict) else {}
            )
            # The answer is an object already: put the number in front instead of parsing it again.
            writer.write(b'{"id":%d,' % ident + answer[1:] + b"\n")
            with suppress(ConnectionError):
                await writer.drain()
        finally:
            calls.pop(ident, None)
