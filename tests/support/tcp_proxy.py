"""A proxy before a service's TCP port or socket: notes each HTTP call, and can refuse, hang, answer 500 by itself, or
lose an answer."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_REQUEST = re.compile(rb"(GET|POST|PUT|DELETE|HEAD|PATCH) (\S+) HTTP/1\.[01]\r\n")
_ANSWER = b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: 4\r\nConnection: close\r\n\r\noops"
_ANSWERS = {"500": _ANSWER % b"500 Internal Server Error", "401": _ANSWER % b"401 Unauthorized"}
_ONCE = frozenset({"401", "lose"})
"""Modes that end with the first call they meet."""
_HEARD = 5.0
"""Seconds that a caller is given to read an answer of ours."""


@dataclass
class _Proxy:
    host: str
    port: int
    path: Path | None = None
    """Listen on this Unix socket instead of a port; ``host`` is the path of the service's socket then."""
    mode: str = "pass"
    only: re.Pattern[str] | None = None
    calls: list[str] = field(default_factory=list)
    lost: int = 0
    met: int = 0
    listens_on: str = "127.0.0.1"
    own_port: int = 0
    server: asyncio.Server | None = None
    links: set[asyncio.Task[None]] = field(default_factory=set)
    hung: set[asyncio.Task[None]] = field(default_factory=set)

    async def listen(self) -> None:
        if self.server is not None:
            return
        if self.path is not None:
            self.server = await asyncio.start_unix_server(self._accept, self.path)
        else:
            self.server = await asyncio.start_server(self._accept, self.listens_on, self.own_port)
            self.own_port = self.server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._stop_listening()
        await self.drop(self.links)

    def _stop_listening(self) -> None:
        if self.server is not None:
            self.server.close()
            self.server = None

    async def drop(self, wanted: set[asyncio.Task[None]]) -> None:
        links = list(wanted)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    async def lift(self) -> None:
        self.mode, self.only = "pass", None
        await self.listen()
        await self.drop(self.hung)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.create_task(self._pass(reader, writer))
        self.links.add(link)
        link.add_done_callback(self.links.discard)
        link.add_done_callback(self.hung.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        up: asyncio.StreamWriter | None = None
        try:
            up_reader, up = await self._connect()
            async with asyncio.TaskGroup() as group:
                unheard = asyncio.Event()
                back = group.create_task(self._answers(up_reader, writer, unheard, link))
                await self._requests(reader, up, writer, unheard, link)
                back.cancel()
        except* (OSError, asyncio.CancelledError):
            pass  # either side left, or the test cut it
        finally:
            writer.close()
            if up is not None:
                up.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.path is not None:
            return await asyncio.open_unix_connection(self.host)
        return await asyncio.open_connection(self.host, self.port)

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        up: asyncio.StreamWriter,
        writer: asyncio.StreamWriter,
        unheard: asyncio.Event,
        link: asyncio.Task[None],
    ) -> None:
        while data := await reader.read(65536):
            called = ""
            if found := _REQUEST.match(data):
                called = f"{found[1].decode()} {found[2].decode()}"
                self.calls.append(called)
            meant = self.only is None or bool(called and self.only.search(called))
            if meant and self.mode != "pass" and not await self._fail(reader, writer, unheard, link):
                return
            up.write(data)
            await up.drain()

    async def _fail(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        unheard: asyncio.Event,
        link: asyncio.Task[None],
    ) -> bool:
        """The fault happens to this call; True when it is passed on all the same."""
        mode = self.mode
        if mode in _ONCE:
            self.mode = "pass"
        self.met += 1
        if mode == "lose":
            unheard.set()
            return True
        if mode == "hang":
            await self._hang(link)
        if mode in _ANSWERS:
            writer.write(_ANSWERS[mode])
            await writer.drain()
            writer.write_eof()
            async with asyncio.timeout(_HEARD):  # a close with unread data would take the answer with it
                while await reader.read(65536):
                    pass
        if mode == "stop":
            self._stop_listening()
            for other in self.links - {link}:
                other.cancel()
        return False

    async def _hang(self, link: asyncio.Task[None]) -> None:
        self.hung.add(link)
        await asyncio.Event().wait()

    async def _answers(
        self,
        up_reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        unheard: asyncio.Event,
        link: asyncio.Task[None],
    ) -> None:
        while data := await up_reader.read(65536):
            if unheard.is_set():
                self.lost += 1
                break
            if self.mode == "hang" and self.only is None:
                await self._hang(link)
            writer.write(data)
            await writer.drain()
        writer.close()


class TcpProxy:
    """In a thread of its own, so that tests may block. ``port`` stays the same through ``refuse``."""

    def __init__(
        self, port: int, host: str = "127.0.0.1", path: Path | None = None, listens_on: str = "127.0.0.1"
    ) -> None:
        """``path``: a Unix socket to listen on; ``host`` is the service's own then."""
        self._proxy = _Proxy(host, port, path, listens_on=listens_on)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy", daemon=True)
        self._thread.start()
        self._run(self._proxy.listen)

    @property
    def port(self) -> int:
        return self._proxy.own_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def calls(self) -> list[str]:
        """``METHOD path`` of what was asked so far; a copy."""
        return list(self._proxy.calls)

    @property
    def lost(self) -> int:
        """How many answers nobody heard."""
        return self._proxy.lost

    @property
    def met(self) -> int:
        """How many calls the present fault has happened to."""
        return self._proxy.met

    def count(self, pattern: str) -> int:
        """How many of the calls match."""
        return sum(bool(re.search(pattern, call)) for call in self.calls)

    def mode(self, mode: str, only: str | None = None) -> None:
        """``pass``, ``refuse`` (nobody listens), ``hang`` (no answer), ``500``, or ``lose`` (the service does what the
        next such call asks, its answer is cut off); the last three for the calls that match ``only``. Connections that
        are open are cut."""
        self._proxy.mode, self._proxy.only = mode, re.compile(only) if only else None
        self._run(self._proxy.close)
        if mode != "refuse":
            self._run(self._proxy.listen)

    def fault(self, kind: str, only: str | None = None) -> None:
        """From the next call on that matches ``only`` (without it: from the next byte on); other connections stay.
        Beside the modes above: ``stop`` (cut off at that call, and nobody listens from then on), ``cut`` (connections
        are closed as soon as something is asked), ``401`` (for one call). ``refuse`` begins at once."""
        if kind == "refuse":
            self.mode("refuse")
            return

        async def begin() -> None:
            self._proxy.only = re.compile(only) if only else None
            self._proxy.mode, self._proxy.met = kind, 0

        self._run(begin)

    def lift(self) -> None:
        """The service is there again; calls that hang are cut off."""
        self._run(self._proxy.lift)

    def stop(self) -> None:
        self._run(self._proxy.close)
        if self._proxy.path is not None:
            self._proxy.path.unlink(missing_ok=True)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    def _run(self, step: Callable[[], object]) -> None:
        asyncio.run_coroutine_threadsafe(step(), self._loop).result(60)  # type: ignore[arg-type]


@contextmanager
def tcp_proxy(port: int, host: str = "127.0.0.1") -> Iterator[TcpProxy]:
    """A running one before ``host:port``."""
    proxy = TcpProxy(port, host)
    try:
        yield proxy
    finally:
        proxy.stop()
