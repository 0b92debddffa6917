"""The sub-protocols: what frames mean to each kind of client. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import orjson

BINARY = "binary"
BASE64 = "base64"
CONSOLE = "zun.console.v1"

_CONTROL = 1024
"""Characters of the longest control message."""
_SIZES = range(1, 65536)


class BadFrame(Exception):
    """The client sent what its sub-protocol does not know; the text says what."""


@dataclass(frozen=True, slots=True)
class Eof:
    """The end of standard input."""


@dataclass(frozen=True, slots=True)
class Resize:
    """The terminal's size in characters."""

    height: int
    width: int


@dataclass(frozen=True, slots=True)
class Pause:
    """``on``: the client has more output than it can show, and wants none until it says so."""

    on: bool


Event = bytes | Eof | Resize | Pause


class Framing(Protocol):
    """One client's frames. ``part`` takes the pieces of a message as they come, ``end`` its end."""

    def part(self, piece: str | bytes) -> Iterator[Event]:
        """What a piece of a message means. Raises BadFrame."""
        ...

    def end(self) -> Iterator[Event]:
        """What the end of a message means. Raises BadFrame."""
        ...

    def output(self, data: bytes) -> str | bytes:
        """The message for a piece of output."""
        ...

    def begun(self, tty: bool) -> str | None:
        """The message for the begin of the session; None: there is none."""
        ...

    def exit(self, code: int | None) -> str | None:
        """The message for the end of the command or the container; None: there is none."""
        ...


def choose(offered: Sequence[str]) -> str | None:
    """The sub-protocol for a client that offers these; None where it offers none. Raises LookupError."""
    for one in (BINARY, CONSOLE):
        if one in offered:
            return one
    if list(offered) == [BASE64]:
        return BASE64
    if not offered:
        return None
    raise LookupError(f"none of the sub-protocols is known; offer '{BINARY}'")


def of(subprotocol: str | None) -> Framing:
    """The frames of a sub-protocol that ``choose`` gave."""
    if subprotocol == CONSOLE:
        return Console()
    return Base64() if subprotocol == BASE64 else Binary()


class Binary:
    """Bytes both ways, in frames of either kind; an empty binary message is the end of input (S4.5)."""

    def __init__(self) -> None:
        self._length = 0
        self._binary = False

    def part(self, piece: str | bytes) -> Iterator[Event]:
        self._length += len(piece)
        self._binary = isinstance(piece, bytes)
        if piece:
            yield piece if isinstance(piece, bytes) else piece.encode()

    def end(self) -> Iterator[Event]:
        empty, self._length = self._length == 0 and self._binary, 0
        if empty:
            yield Eof()

    def output(self, data: bytes) -> str | bytes:
        return data

    def begun(self, tty: bool) -> str | None:
        return None

    def exit(self, code: int | None) -> str | None:
        return None


class Base64:
    """Text frames of base64 both ways, each message whole; an empty one is the end of input."""

    def __init__(self) -> None:
        self._rest = b""
        self._length = 0

    def part(self, piece: str | bytes) -> Iterator[Event]:
        data = piece.encode() if isinstance(piece, str) else piece
        self._length += len(data)
        whole = self._rest + data
        cut = len(whole) - len(whole) % 4
        self._rest = whole[cut:]
        try:
            decoded = base64.b64decode(whole[:cut], validate=True)
        except binascii.Error as error:
            raise BadFrame(f"This is not base64: {error}.") from error
        if decoded:
            yield decoded

    def end(self) -> Iterator[Event]:
        if self._rest:
            raise BadFrame("This is not base64: the message ends within four characters.")
        empty, self._length = self._length == 0, 0
        if empty:
            yield Eof()

    def output(self, data: bytes) -> str | bytes:
        return base64.b64encode(data).decode()

    def begun(self, tty: bool) -> str | None:
        return None

    def exit(self, code: int | None) -> str | None:
        return None


class Console:
    """Of our page: binary frames are data, text frames are control, in JSON: ``{"resize": {"height", "width"}}``,
    ``{"eof": true}``, ``{"pause": true}`` and ``{"pause": false}`` from the client, ``{"open": {"tty"}}`` and
    ``{"exit": code}`` to it."""

    def __init__(self) -> None:
        self._text: list[str] | None = None

    def part(self, piece: str | bytes) -> Iterator[Event]:
        if isinstance(piece, bytes):
            if piece:
                yield piece
            return
        self._text = [*(self._text or ()), piece]
        if sum(map(len, self._text)) > _CONTROL:
            raise BadFrame(f"A control message has at most {_CONTROL} characters.")

    def end(self) -> Iterator[Event]:
        if self._text is not None:
            text, self._text = "".join(self._text), None
            yield _control(text)

    def output(self, data: bytes) -> str | bytes:
        return data

    def begun(self, tty: bool) -> str | None:
        return orjson.dumps({"open": {"tty": tty}}).decode()

    def exit(self, code: int | None) -> str | None:
        return orjson.dumps({"exit": code}).decode()


def _control(text: str) -> Event:
    try:
        found = orjson.loads(text)
    except ValueError as error:
        raise BadFrame(f"This control message is not JSON: {error}.") from error
    if found == {"eof": True}:
        return Eof()
    if isinstance(found, dict) and found.keys() == {"pause"} and type(found["pause"]) is bool:
        return Pause(found["pause"])
    size = found.get("resize") if isinstance(found, dict) and len(found) == 1 else None
    if isinstance(size, dict) and size.keys() == {"height", "width"}:
        height, width = size["height"], size["width"]
        if all(type(value) is int and value in _SIZES for value in (height, width)):
            return Resize(height, width)
        raise BadFrame("Height and width are whole numbers from 1 to 65535.")
    raise BadFrame("A control message is one of resize, eof and pause.")
