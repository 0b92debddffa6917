"""Files on their way between API and engine: kept on the node's disk, so that neither memory nor one message of the bus
has to hold them. They have no name, so nothing of them outlives the agent."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from uuid import uuid4

from zun.domain.clock import Clock
from zun.domain.errors import RequestTooLarge, Unavailable

PIECE = 1536 * 1024
"""Bytes of one message; a multiple of three, so that pieces of base64 join."""
MOST = 32
"""Transfers at once."""
FORGOTTEN_AFTER = 120.0
"""Seconds without a word after which whoever began a transfer is taken for gone."""


@dataclass(slots=True)
class Transfer:
    """One file; ``size`` in bytes."""

    ident: str
    file: IO[bytes]
    limit: int
    used: float
    size: int = 0

    async def append(self, piece: bytes) -> None:
        """Raises RequestTooLarge."""
        await self.write(self.size, piece)

    async def write(self, offset: int, piece: bytes) -> None:
        """Raises RequestTooLarge."""
        if offset + len(piece) > self.limit:
            raise too_large(self.limit)
        await asyncio.to_thread(_write, self.file.fileno(), piece, offset)
        self.size = max(self.size, offset + len(piece))

    async def read(self, offset: int) -> bytes:
        """At most PIECE bytes; none at the end."""
        return await asyncio.to_thread(os.pread, self.file.fileno(), PIECE, offset)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """All of it."""
        offset = 0
        while piece := await self.read(offset):
            offset += len(piece)
            yield piece


class Transfers:
    """Open ones by their id."""

    def __init__(self, clock: Clock, folder: str) -> None:
        self._clock = clock
        self._folder = Path(folder)
        self._open: dict[str, Transfer] = {}

    async def begin(self, limit: int) -> Transfer:
        """A new one of at most ``limit`` bytes. Raises Unavailable when there are too many."""
        now = self._clock.monotonic()
        for old in [one for one in self._open.values() if now - one.used > FORGOTTEN_AFTER]:
            self.end(old.ident)
        if len(self._open) >= MOST:
            raise Unavailable(f"The node has {MOST} files on their way already. Try again later.")
        transfer = Transfer(uuid4().hex, await asyncio.to_thread(self._file), limit, now)
        self._open[transfer.ident] = transfer
        return transfer

    def get(self, ident: str) -> Transfer:
        """Raises Unavailable when the agent was restarted meanwhile."""
        found = self._open.get(ident)
        if found is None:
            raise Unavailable("The node does not know the transfer any more. Try again.")
        found.used = self._clock.monotonic()
        return found

    def end(self, ident: str) -> None:
        """Forget it; not knowing it is success."""
        found = self._open.pop(ident, None)
        if found is not None:
            found.file.close()

    def close(self) -> None:
        """Forget all."""
        for ident in list(self._open):
            self.end(ident)

    def _file(self) -> IO[bytes]:
        self._folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=self._folder, buffering=0)


def too_large(limit: int) -> RequestTooLarge:
    """For archives in either direction."""
    return RequestTooLarge(f"The archive is larger than the {limit} bytes that [api]/max_archive_bytes permits.")


def _write(descriptor: int, piece: bytes, offset: int) -> None:
    view = memoryview(piece)
    while view:
        done = os.pwrite(descriptor, view, offset)
        view, offset = view[done:], offset + done
