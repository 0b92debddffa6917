"""Frames on a stream: one JSON object a line, of bounded size."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

MAX_FRAME = 16 * 1024 * 1024
"""Bytes; the largest answer (a container's log) has to fit."""


class FrameError(Exception):
    """The other side broke the protocol, or something does not fit in a frame."""


def pack(frame: dict[str, Any]) -> bytes:
    """Raises FrameError when it is too large or not JSON-like."""
    try:
        line = orjson.dumps(frame) + b"\n"
    except TypeError as error:
        raise FrameError(str(error)) from error
    if len(line) > MAX_FRAME:
        raise FrameError(f"{len(line)} bytes are more than the {MAX_FRAME} that one message may have")
    return line


async def read(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next frame, None at the end of the stream. Raises FrameError."""
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError:
        return None
    except ConnectionError:
        return None
    except asyncio.LimitOverrunError as error:
        raise FrameError(f"a message is larger than {MAX_FRAME} bytes") from error
    try:
        frame = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise FrameError(f"a message is not JSON: {error}") from error
    if not isinstance(frame, dict):
        raise FrameError("a message is not an object")
    return frame
