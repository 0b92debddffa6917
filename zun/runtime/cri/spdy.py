"""The part of SPDY/3.1 that a CRI engine's streams need: a few streams over one connection, each end closed by itself.
 That is why it is spoken here: the engine's WebSocket knows no end of the input.

Streams are opened by us (odd numbers), nothing is pushed, and nobody counts windows: what is not read stays in the
connection, which stops the writer.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass

from zun.runtime.wire import Wire, WireClosed

PROTOCOL = "SPDY/3.1"
_VERSION = 0x8003
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
_FRAME = 4 * 1024
"""Bytes of input a frame: the engine takes 50 frames of a stream ahead of its reader."""
_LONGEST_CONTROL = 64 * 1024


@dataclass(frozen=True, slots=True)
class Piece:
    """Of a stream; ``last``: no more comes of it. A frame may come in several pieces."""

    stream: int
    data: bytes
    last: bool = False


class Spdy:
    """For one reader and one writer at a time. All methods raise WireClosed."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._next = 1
        self._answers: set[int] = set()
        """Streams that the other side has taken."""
        self._headers = zlib.compressobj()  # one for all frames; the protocol's dictionary is a choice of the sender

    async def open(self, **headers: str) -> int:
        """A new stream with these headers; its number."""
        stream, self._next = self._next, self._next + 2
        block = len(headers).to_bytes(4, "big")
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                block += len(text).to_bytes(4, "big") + text
        packed = self._headers.compress(block) + self._headers.flush(zlib.Z_SYNC_FLUSH)
        await self._control(_SYN_STREAM, stream.to_bytes(4, "big") + bytes(6) + packed)
        return stream

    async def send(self, stream: int, data: bytes, *, last: bool = False) -> None:
        """``last``: nothing more is sent on it, what is received goes on."""
        pieces = [data[at : at + _FRAME] for at in range(0, len(data), _FRAME)] or [b""]
        for number, piece in enumerate(pieces, 1):
            flags = _FIN if last and number == len(pieces) else 0
            head = stream.to_bytes(4, "big") + bytes([flags]) + len(piece).to_bytes(3, "big")
            await self._wire.write(head + piece)

    async def taken(self, streams: Collection[int]) -> None:
        """Returns when the other side has answered to these, before anything was sent on them. containerd waits for
        ever to write to a stream whose answer it could not send any more, and with it all who read the same."""
        while not self._answers.issuperset(streams):
            head = await self._wire.exactly(8)
            if not head[0] & 0x80:
                raise WireClosed("data came before the stream was taken")
            async for piece in self._answered(
                int.from_bytes(head[2:4], "big"), head[4], int.from_bytes(head[5:], "big")
            ):
                raise WireClosed("a stream was refused" if piece else "the engine said good-bye")

    async def close(self) -> None:
        """Drop the connection; again is success."""
        await self._wire.close()

    async def received(self) -> AsyncGenerator[Piece, None]:
        """To the end of the connection."""
        while True:
            try:
                head = await self._wire.exactly(8)
            except WireClosed:
                return
            flags, left = head[4], int.from_bytes(head[5:], "big")
            if head[0] & 0x80:
                async for piece in self._answered(int.from_bytes(head[2:4], "big"), flags, left):
                    if piece is None:
                        return
                    yield piece
                continue
            stream = int.from_bytes(head[:4], "big")
            while left:
                data = await self._wire.read(left)
                if not data:
                    raise WireClosed("the connection was ended in the middle of a message")
                left -= len(data)
                yield Piece(stream, data, bool(flags & _FIN) and not left)
            if flags & _FIN and head[5:] == bytes(3):
                yield Piece(stream, b"", last=True)

    async def _answered(self, kind: int, flags: int, length: int) -> AsyncGenerator[Piece | None, None]:
        """A frame that is no data; None: the other side says good-bye."""
        if length > _LONGEST_CONTROL:
            raise WireClosed("the engine sent a frame that is too long")
        body = await self._wire.exactly(length)
        if kind == _SYN_REPLY:
            self._answers.add(int.from_bytes(body[:4], "big"))
        elif kind == _PING:
            await self._control(_PING, body)
        elif kind == _RST_STREAM:
            yield Piece(int.from_bytes(body[:4], "big"), b"", last=True)
        elif kind == _GOAWAY:
            yield None

    async def _control(self, kind: int, body: bytes) -> None:
        head = _VERSION.to_bytes(2, "big") + kind.to_bytes(2, "big") + len(body).to_bytes(4, "big")
        await self._wire.write(head + body)
