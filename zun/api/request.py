"""The head of a request, read once, and the sending of its answer. Raw ASGI: this is the hot path."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, MutableMapping
from contextlib import aclosing
from typing import Any

import orjson
from starlette.types import Scope, Send

from zun.api.auth import IDENTITY_HEADERS
from zun.api.call import Stream
from zun.domain.errors import ZunError

LOG = logging.getLogger(__name__)

_HOST = re.compile(r"[A-Za-z0-9._\-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_JSON = (b"content-type", b"application/json")
REQUEST_ID = "zun.request_id"
"""Key of the request id in the ASGI scope."""


def strip_identity(scope: MutableMapping[str, Any]) -> None:
    """Drop every header by which a client could claim an identity (rule 7)."""
    scope["headers"] = [pair for pair in scope["headers"] if pair[0] not in IDENTITY_HEADERS]


def read_headers(scope: Scope) -> dict[bytes, str]:
    """Lower-case names to values. Repeated ones are one list, as HTTP has it: two tokens are no token, rather than
    one of them for us and the other for a proxy."""
    found: dict[bytes, str] = {}
    for name, value in scope["headers"]:
        text = value.decode("latin-1")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def base_url(scope: Scope, headers: Mapping[bytes, str]) -> str:
    """Scheme and host of links: from the Host header, or the listening address when that is no host name."""
    host = headers.get(b"host", "")
    if not _HOST.fullmatch(host):
        server = scope.get("server") or ("localhost", None)
        host = server[0] if server[1] is None else f"{server[0]}:{server[1]}"
    scheme = "https" if scope.get("scheme") == "https" else "http"
    return f"{scheme}://{host}"


def raw_path(scope: Scope) -> bytes:
    """The path as sent, still percent-encoded, so that it is decoded exactly once."""
    raw: bytes | None = scope.get("raw_path")
    if raw is None:
        from urllib.parse import quote

        return quote(scope["path"]).encode()
    return raw.partition(b"?")[0]


def accepts_json(header: str | None) -> bool:
    """Does an Accept header leave room for JSON?"""
    if not header or "*/*" in header or "application/json" in header:
        return True
    kinds = [part.partition(";")[0].strip().lower() for part in header.split(",")]
    return any(kind in ("", "application/json", "application/*") or kind.endswith("+json") for kind in kinds)


async def send_json(
    send: Send, status: int, body: Any, headers: list[tuple[bytes, bytes]], *, with_body: bool = True
) -> None:
    """One JSON answer; 204 (and HEAD) without a body."""
    content = b"" if status == 204 else orjson.dumps(body)
    start = [*headers] if status == 204 else [_JSON, (b"content-length", str(len(content)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": content if with_body else b""})


async def send_stream(
    send: Send, status: int, stream: Stream, headers: list[tuple[bytes, bytes]], *, with_body: bool = True
) -> bool:
    """An answer that is made while it is sent. False when it broke off: nothing can be told any more, and the server
    cuts the connection, so that nobody takes the beginning for all."""
    length = [(b"content-length", str(stream.length).encode())] if stream.length is not None else []
    async with aclosing(stream.pieces) as pieces:
        await send({"type": "http.response.start", "status": status, "headers": [_JSON, *length, *headers]})
        try:
            if with_body:
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        except ZunError as error:
            LOG.warning("action=request result=broken off reason=%s", error.message)
            return False
    await send({"type": "http.response.body", "body": b""})
    return True


async def send_text(send: Send, status: int, content: bytes, kind: str, *, with_body: bool = True) -> None:
    """One plain answer."""
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content if with_body else b""})
