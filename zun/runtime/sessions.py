"""Interactive sessions with a container: what the relay needs of an engine, whichever it is (S4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

PIECE = 64 * 1024
"""Bytes that are read from an engine, or handed to it, at once."""


class Session(Protocol):
    """A command in a container, or a container's own streams. Iterate over it, once, for the output to its end; write
    and resize meanwhile. Whoever does not ask for output stops the program that writes it: nothing is read ahead but
    what fits into the buffers of one connection (at most 256 KiB)."""

    exit_code: int | None
    """Of a command, once its output has ended; None of an attached container, whose end ``inspect`` tells."""

    failure: str
    """Why a command could not be run, once its output has ended; empty for one that was."""

    detached: bool
    """Of an attached container, once its output has ended: it goes on, and was let go of, by the keys that do so
    (Control-P, Control-Q in a terminal) or as its input has ended. Always False of a command."""

    async def write(self, data: bytes) -> None:
        """To its standard input; blocks while the program does not read. Raises EngineUnreachable when the session is
        over."""
        ...

    async def close_stdin(self) -> None:
        """No more input comes; the output goes on. Again is success. Raises as ``write``."""
        ...

    async def resize(self, *, height: int, width: int) -> None:
        """Of its terminal, in characters. One without a terminal, or already over, has none: no error."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Pieces of at most 64 KiB, both streams in the order they come. Raises EngineUnreachable when the engine
        breaks off."""
        ...

    async def end_command(self) -> None:
        """Kill what the command's session started on this host, and all below it. Of an attached container, and when it
        is over: nothing. Never raises."""
        ...
