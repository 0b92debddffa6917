"""A saved image on its way into or out of an engine: unpacked if it is compressed, and renamed. Never held whole."""

from __future__ import annotations

import asyncio
import bz2
import lzma
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from typing import Any

from zun.runtime.archive import BadArchive, Renamed

PIECE = 256 * 1024
"""Bytes of unpacked data given on at once."""
_MAGIC = 6


async def renamed(archive: AsyncIterable[bytes], reference: str) -> AsyncGenerator[bytes, None]:
    """The archive under ``reference``. Its end comes only after ``archive`` ended without a fault, so that what is
    found wrong at the very end (a checksum) still keeps the engine from using it. Raises BadArchive."""
    filtered = Renamed(reference)
    async for piece in _unpacked(archive):
        out = filtered.feed(piece)
        if out:
            yield out
    yield filtered.finish()


async def _unpacked(archive: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    source = aiter(archive)
    head = b""
    while len(head) < _MAGIC and (piece := await anext(source, None)) is not None:
        head += piece
    unpacker = _unpacker(head)
    if unpacker is None:
        yield head
        async for piece in source:
            yield piece
        return
    data: bytes | None = head
    while data is not None:
        while True:
            # In a thread: unpacking a piece keeps the processor busy for milliseconds.
            piece, hungry = await asyncio.to_thread(unpacker.step, data)
            if piece:
                yield piece
            if hungry:
                break
            data = b""
        data = await anext(source, None)
    if not unpacker.complete:
        raise BadArchive("the compressed archive is cut short")


class _Unpacker:
    """One of three libraries; what follows the first compressed stream is another one or padding."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._engine = make()
        self._fresh = False
        """A stream has ended and nothing of another has come."""

    @property
    def complete(self) -> bool:
        return self._fresh or bool(self._engine.eof)

    def step(self, data: bytes) -> tuple[bytes, bool]:
        """At most PIECE bytes, and whether more has to be fed. Raises BadArchive."""
        engine = self._engine
        if self._fresh and not data.strip(b"\0"):
            return b"", True
        try:
            if isinstance(engine, (bz2.BZ2Decompressor, lzma.LZMADecompressor)):
                piece = engine.decompress(data, PIECE)
                hungry = engine.needs_input
            else:
                piece = engine.decompress(engine.unconsumed_tail + data, PIECE)
                hungry = not engine.unconsumed_tail and len(piece) < PIECE
        except (zlib.error, OSError, lzma.LZMAError, EOFError) as error:
            raise BadArchive(f"the compressed archive is damaged ({error})") from error
        self._fresh = False
        if engine.eof:
            rest = engine.unused_data
            self._engine, self._fresh = self._make(), True
            if not rest.strip(b"\0"):
                return piece, True
            again, hungry = self.step(rest)
            return piece + again, hungry
        return piece, hungry


def _unpacker(head: bytes) -> _Unpacker | None:
    if head.startswith(b"\x1f\x8b"):
        return _Unpacker(lambda: zlib.decompressobj(31))
    if head.startswith(b"BZh"):
        return _Unpacker(bz2.BZ2Decompressor)
    if head.startswith(b"\xfd7zXZ\0"):
        return _Unpacker(lzma.LZMADecompressor)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        raise BadArchive("archives compressed with zstd are not understood; gzip, bzip2 and xz are")
    return None
