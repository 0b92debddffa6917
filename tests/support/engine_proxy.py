"""A proxy before the engine's socket: notes each call with its times, and can refuse, hang or cut the event stream."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_REQUEST = re.compile(rb"^(GET|POST|PUT|DELETE|HEAD) (\S+) HTTP/1\.1\r\n")


@dataclass
class EngineCall:
    """One HTTP request to the engine; times are ``time.time()``."""

    method: str
    path: str
    started: float
    finished: float = 0.0


@dataclass
class EngineProxy:
    """``mode``: ``pass``, ``refuse`` (connections are closed) or ``hang`` (nothing is passed on)."""

    path: Path
    upstream: str = "/var/run/docker.sock"
    mode: str = "pass"
    calls: list[EngineCall] = field(default_factory=list)
    hang_on: re.Pattern[str] | None = None
    """Calls whose "METHOD path" matches are never answered."""
    broken: int = 0
    """Connections that ended with an error on either side."""
    _server: asyncio.Server | None = None
    _connections: set[asyncio.Task[None]] = field(default_factory=set)
    _streams: dict[asyncio.Task[None], str] = field(default_factory=dict)

    async def start(self) -> EngineProxy:
        self._server = await asyncio.start_unix_server(self._accept, str(self.path))
        return self

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut(".*")
        await asyncio.gather(*self._connections, return_exceptions=True)
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()

    def cut(self, pattern: str) -> int:
        """Drop the connections whose latest call matches ``pattern`` (``/events`` for the event stream)."""
        wanted = re.compile(pattern)
        cut = [task for task, path in self._streams.items() if wanted.search(path)]
        for task in cut:
            task.cancel()
        return len(cut)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._pass(reader, writer)
        except asyncio.CancelledError:
            self.broken += 1  # cut on purpose; nobody waits for this task

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if self.mode == "refuse":
                return
            up_reader, up_writer = await asyncio.open_unix_connection(self.upstream)
            calls: list[EngineCall] = []
            self._streams[task] = ""
            try:
                async with asyncio.TaskGroup() as group:
                    requests = group.create_task(self._requests(reader, up_writer, calls, task))
                    await self._answers(up_reader, writer, calls)
                    requests.cancel()
            finally:
                up_writer.transport.abort()  # what the engine did not take is of no use any more
        except* ConnectionError as broken:
            self.broken += len(broken.exceptions)
        finally:
            self._streams.pop(task, None)
            self._connections.discard(task)
            writer.close()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        calls: list[EngineCall],
        task: asyncio.Task[None],
    ) -> None:
        while data := await reader.read(65536):
            if found := _REQUEST.match(data):
                call = EngineCall(found[1].decode(), found[2].decode(), time.time())
                calls.append(call)
                self.calls.append(call)
                self._streams[task] = call.path
                if self.hang_on is not None and self.hang_on.search(f"{call.method} {call.path}"):
                    await asyncio.Event().wait()
            if self.mode == "hang":
                await asyncio.Event().wait()
            writer.write(data)
            await writer.drain()
        writer.write_eof()  # answers may go on: the end of a session's input is no end of its output

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, calls: list[EngineCall]
    ) -> None:
        while data := await reader.read(65536):
            if calls:
                calls[-1].finished = time.time()
            writer.write(data)
            await writer.drain()
        writer.close()


def busy_seconds(calls: list[EngineCall], begin: float, end: float) -> float:
    """Seconds of [begin, end] in which at least one of ``calls`` was with the engine."""
    spans = sorted((max(call.started, begin), min(call.finished or end, end)) for call in calls)
    total, reached = 0.0, begin
    for start, finish in spans:
        start = max(start, reached)
        if finish > start:
            total += finish - start
            reached = finish
    return total


class ProxyThread:
    """An EngineProxy in a thread of its own, for tests that block."""

    def __init__(self, path: Path, upstream: str = "/var/run/docker.sock") -> None:
        self.path = path
        self._loop = asyncio.new_event_loop()
        self._proxy = EngineProxy(path, upstream)
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine-proxy", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._proxy.start(), self._loop).result(60)

    @property
    def calls(self) -> list[EngineCall]:
        """What was asked so far; a copy."""
        return list(self._proxy.calls)

    def mode(self, mode: str) -> None:
        """``pass``, ``refuse`` or ``hang``; ``pass`` also ends ``hang``."""
        self._set(lambda: setattr(self._proxy, "mode", mode))
        if mode == "pass":
            self.hang(None)

    def hang(self, pattern: str | None) -> None:
        """Never answer calls whose "METHOD path" matches; None ends it and drops those that hang."""
        compiled = re.compile(pattern) if pattern else None
        if compiled is None and self._proxy.hang_on is not None:
            self.cut(self._proxy.hang_on.pattern.partition(" ")[2])
        self._set(lambda: setattr(self._proxy, "hang_on", compiled))

    def cut(self, pattern: str) -> None:
        self._set(lambda: self._proxy.cut(pattern))

    def _set(self, change: Callable[[], object]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (change(), done.set()))
        done.wait(60)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.stop(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()
