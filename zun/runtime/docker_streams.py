"""What flows out of Docker: framed stdout and stderr, lines of JSON, bounded text. Pure but for the reading loops."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any

KEPT = 1024 * 1024
"""Bytes kept of a log or of a command's output: the newest."""

_HEADER = 8


class Tail:
    """Bytes of which the newest ``limit`` are kept; memory stays within twice that."""

    def __init__(self, limit: int = KEPT) -> None:
        self._limit = limit
        self._data = bytearray()
        self._cut = False

    def add(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > 2 * self._limit:
            self._trim()

    def text(self) -> str:
        """As text, invalid bytes replaced; what was cut begins with a whole line where there is one."""
        self._trim()
        data = bytes(self._data)
        if self._cut:
            _, newline, rest = data.partition(b"\n")
            data = rest if newline and rest else data
        return data.decode("utf-8", "replace")

    def _trim(self) -> None:
        if len(self._data) > self._limit:
            del self._data[: len(self._data) - self._limit]
            self._cut = True


class Demultiplexer:
    """Docker's frames (stream, three zeros, length, payload), split anywhere, into payloads in their order."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0

    def feed(self, data: bytes) -> bytes:
        """The payload bytes in ``data``."""
        payload, at = bytearray(), 0
        while at < len(data):
            if self._left:
                take = min(self._left, len(data) - at)
                payload += data[at : at + take]
                self._left -= take
            else:
                take = min(_HEADER - len(self._head), len(data) - at)
                self._head += data[at : at + take]
                if len(self._head) == _HEADER:
                    self._left = int.from_bytes(self._head[4:], "big")
                    self._head.clear()
            at += take
        return bytes(payload)


async def collect(chunks: AsyncIterable[bytes], into: Tail, *, framed: bool) -> None:
    """Read to the end. ``framed``: not of a TTY."""
    frames = Demultiplexer()
    async for chunk in chunks:
        into.add(frames.feed(chunk) if framed else chunk)


async def json_lines(chunks: AsyncIterable[bytes]) -> AsyncGenerator[dict[str, Any], None]:
    """One object a line, of any length; raises ValueError for what is no JSON object."""
    rest = bytearray()
    async for chunk in chunks:
        rest += chunk
        *lines, rest = rest.split(b"\n")
        for line in filter(bytes.strip, map(bytes, lines)):
            yield _object(line)
    if rest.strip():
        yield _object(bytes(rest))


def _object(line: bytes) -> dict[str, Any]:
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError("the engine sent a line that is no JSON object")
    return found
