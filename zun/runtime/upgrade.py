"""An HTTP/1.1 request whose connection becomes a plain stream afterwards: how engines give their sessions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from zun.runtime.wire import Wire, WireClosed

_HEAD = 32 * 1024
_REFUSAL = 64 * 1024


class Refused(Exception):
    """The engine answered with something else; ``status`` and its text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP status {status}: {text}")
        self.status = status
        self.text = text


async def upgrade(
    wire: Wire, path: str, *, host: str, protocol: str, body: Any = None, headers: Mapping[str, str] | None = None
) -> None:
    """POST ``path``; afterwards the wire carries ``protocol``. Raises Refused, WireClosed."""
    data = b"" if body is None else json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        "Connection: Upgrade",
        f"Upgrade: {protocol}",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    await wire.write("\r\n".join([*lines, "", ""]).encode() + data)
    head = (await wire.until(b"\r\n\r\n", _HEAD)).decode("latin-1")
    status = _status(head)
    if status != 101:
        raise Refused(status, await _text(wire, head))


def _status(head: str) -> int:
    words = head.partition("\r\n")[0].split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise WireClosed("the answer is not HTTP")
    return int(words[1])


async def _text(wire: Wire, head: str) -> str:
    """The refusal's own words, as far as they can be had."""
    found = bytearray()
    length = _length(head)
    while len(found) < min(length, _REFUSAL) and (piece := await wire.read()):
        found += piece
    text = found[:length].decode("utf-8", "replace").strip()
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text


def _length(head: str) -> int:
    """Of the body that follows; of an answer without one, or in chunks, nothing is read."""
    for line in head.split("\r\n")[1:]:
        name, _, value = line.partition(":")
        if name.strip().lower() == "content-length" and value.strip().isdigit():
            return int(value)
    return 0
