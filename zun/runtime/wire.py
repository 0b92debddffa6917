"""One connection to an engine whose memory is bounded, whatever either side sends: nothing is read ahead of the reader
but one piece, and a writer waits until the engine has taken what it wrote."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import cast

from zun.runtime.sessions import PIECE

_KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 20), (socket.TCP_KEEPCNT, 2))
"""Seconds, and how often: a machine that is gone without a word is noticed after a minute."""


class WireClosed(Exception):
    """The other side has ended or broken the connection; the text says why, where anything is known."""


class Wire(asyncio.BufferedProtocol):
    """For one reader and one writer at a time. Holds at most 64 KiB that were read and 128 KiB that are being sent."""

    def __init__(self) -> None:
        self._room = bytearray(PIECE)
        self._begin = self._end = 0
        self._eof = False
        self._paused = False
        self._clogged = False
        self._error: BaseException | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writers: set[asyncio.Future[None]] = set()
        self._transport: asyncio.Transport | None = None
        self._lost = asyncio.get_running_loop().create_future()

    @classmethod
    async def unix(cls, path: str) -> Wire:
        """To a socket of this host. Raises OSError."""
        _, made = await asyncio.get_running_loop().create_unix_connection(cls, path)
        return made

    @classmethod
    async def tcp(cls, host: str, port: int, tls: ssl.SSLContext | None = None) -> Wire:
        """Each keystroke is sent at once (TCP_NODELAY). Raises OSError."""
        _, made = await asyncio.get_running_loop().create_connection(cls, host, port, ssl=tls)
        made._socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made._socket().setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIECE)  # the kernel would take megabytes ahead
        made._socket().setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEP_ALIVE:
            made._socket().setsockopt(socket.IPPROTO_TCP, option, value)
        return made

    async def read(self, most: int = PIECE) -> bytes:
        """Up to ``most`` bytes (64 KiB), as soon as there are any; empty at the end. Raises WireClosed."""
        await self._some()
        return self._take(min(most, self._end - self._begin))

    async def exactly(self, size: int) -> bytes:
        """``size`` bytes. Raises WireClosed when there are no more."""
        found = bytearray()
        while len(found) < size:
            piece = await self.read(size - len(found))
            if not piece:
                raise WireClosed("the connection was ended in the middle of a message")
            found += piece
        return bytes(found)

    async def until(self, mark: bytes, limit: int) -> bytes:
        """Through ``mark``. Raises WireClosed when it does not come within ``limit`` bytes."""
        found = bytearray()
        while not found.endswith(mark):
            await self._some()
            data = memoryview(self._room)[self._begin : self._end]
            if not data or len(found) > limit:
                raise WireClosed("no answer that can be read")
            tail = bytes(found[-len(mark) + 1 :]) + bytes(data)
            at = tail.find(mark)
            size = len(data) if at < 0 else at + len(mark) - (len(tail) - len(data))
            found += self._take(size)
        return bytes(found)

    async def write(self, data: bytes) -> None:
        """Returns when all but 64 KiB are on their way. Raises WireClosed."""
        for at in range(0, len(data), PIECE):
            self._writable().write(data[at : at + PIECE])
            await self._flowing()

    def end_input(self) -> bool:
        """Half-close: the other side reads an end, its answer goes on. False where the transport cannot (TLS)."""
        transport = self._writable()
        if not transport.can_write_eof():
            return False
        transport.write_eof()
        return True

    async def close(self) -> None:
        """Drop it at once; again is success."""
        if self._transport is not None:
            self._transport.abort()
            await asyncio.shield(self._lost)

    # -- what the event loop calls -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=PIECE)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._room)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        if self._end == len(self._room) and not self._paused:
            self._paused = True
            self._writable().pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._eof = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._eof, self._error, self._transport = True, exc, None
        self._wake()
        self.resume_writing()
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self._clogged = True

    def resume_writing(self) -> None:
        self._clogged = False
        for waiter in self._writers:
            if not waiter.done():
                waiter.set_result(None)

    # -- within --------------------------------------------------------------------------------------

    async def _some(self) -> None:
        """Until there is something to take, or the end. Raises WireClosed."""
        while self._begin == self._end and not self._eof:
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        if self._begin == self._end and self._error is not None:
            raise WireClosed(str(self._error) or type(self._error).__name__)

    def _take(self, size: int) -> bytes:
        data = bytes(memoryview(self._room)[self._begin : self._begin + size])
        self._begin += size
        if self._begin == self._end:
            self._begin = self._end = 0
            if self._paused and self._transport is not None:
                self._paused = False
                self._transport.resume_reading()
        return data

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def _flowing(self) -> None:
        while self._clogged:
            waiter = asyncio.get_running_loop().create_future()
            self._writers.add(waiter)
            try:
                await waiter
            finally:
                self._writers.discard(waiter)
        self._writable()

    def _writable(self) -> asyncio.Transport:
        if self._transport is None or self._transport.is_closing():
            raise WireClosed(str(self._error or "it is closed"))
        return self._transport

    def _socket(self) -> socket.socket:
        found: socket.socket = self._writable().get_extra_info("socket")
        return found
