"""The words beside the bytes of a relay's connection: text frames of JSON, one object each."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

PATH = "/v1/sessions/"
"""Followed by the session's uuid."""

DOCKER = "docker+tls://"
"""Before host:port, where a node has no relay: proxies that may are to dial its Docker themselves."""

LARGEST = 256 * 1024
"""Bytes of the largest frame that is taken; what we send has at most 64 KiB."""

TARGET_CLOSED = "Target closed"
"""Why an attached session ended: the container has."""

DETACHED = "Detached; the container goes on."
"""Why an attached session ended: it was let go of."""


@dataclass(frozen=True, slots=True)
class Resize:
    """Of the terminal, in characters."""

    height: int
    width: int


@dataclass(frozen=True, slots=True)
class Eof:
    """No more input comes."""


def parse(text: str) -> Resize | Eof | None:
    """What a proxy says; None for what is not known, which is passed over."""
    try:
        found = orjson.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    if found.get("eof") is True:
        return Eof()
    size = found.get("resize")
    if isinstance(size, dict):
        height, width = size.get("height"), size.get("width")
        if type(height) is int and type(width) is int and 0 < height < 65536 and 0 < width < 65536:
            return Resize(height, width)
    return None


def ended(exit_code: int | None) -> str:
    """What a relay says before it closes: the command's exit code, null for an attached container."""
    return orjson.dumps({"exit": exit_code}).decode()


def reason(text: str) -> str:
    """As much of it as a close frame has room for."""
    return text.encode()[:123].decode(errors="ignore")
