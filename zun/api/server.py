"""HTTP/1.1 on a socket: uvicorn's protocol, with bounds on what a client may send and how slowly.

The bounds hold before there is a request: a head that is too large or too slow, a connection that says nothing.
What cannot be understood is answered in the contract's error format.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Any
from uuid import uuid4

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from zun import open_files
from zun.api.faults import error_body

LOG = logging.getLogger(__name__)

HEAD_BYTES = 64 * 1024
"""Largest request line with headers."""
HEAD_SECONDS = 30.0
"""Longest time for a head, and for the rest of a body that nobody waits for any more."""


class BoundedHttp(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._in_head = False
        self._in_body = False
        self._fresh = False
        """Did the head begin within the chunk at hand?"""
        self._head_bytes = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._refusal: tuple[int, str] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_alarm()
        link = transport.get_extra_info("socket")
        if link is not None and open_files.kept_back(link.fileno()):
            self._no_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_alarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._fresh = False
        super().data_received(data)
        if self.parser is None or self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes = 0 if self._fresh else self._head_bytes + len(data)
            if self._head_bytes > HEAD_BYTES:
                self._too_large()
                self.send_400_response("")
            elif self._alarm is None:
                self._set_alarm()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._fresh, self._head_bytes = True, True, 0

    def on_headers_complete(self) -> None:
        self._in_head, self._in_body = False, True
        self._clear_alarm()
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > HEAD_BYTES:
            self._too_large()
            raise httptools.HttpParserError("the head is too large")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        self._clear_alarm()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_body and self.cycle.response_complete:
            self._set_alarm()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, or what is too much of it, and close; requests before it are still answered."""
        self._clear_alarm()
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if not self._in_body or cycle.response_started or self.pipeline:
                cycle.keep_alive = False
                self.flow.pause_reading()
                return
            cycle.disconnected = True
        status, text = self._refusal or (400, "The request is not valid HTTP/1.1.")
        self.transport.write(_answer(status, text))
        self.transport.close()

    def _no_room(self) -> None:
        """One client more than the process has files for; told by ``open_files.watch``, not for each."""
        self._clear_alarm()
        self.transport.write(_answer(503, "The API has no room for another connection now. Try again later."))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """An offer of another protocol is ignored, as HTTP allows; nothing worth a line in the log."""

    def _too_large(self) -> None:
        self._refusal = (431, f"The request line and headers are larger than {HEAD_BYTES} bytes.")

    def _set_alarm(self) -> None:
        self._clear_alarm()
        self._alarm = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _clear_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _too_slow(self) -> None:
        self._alarm = None
        if not self._in_head:
            self.transport.close()
            return
        self._refusal = (408, f"The request line and headers did not arrive within {HEAD_SECONDS:g} seconds.")
        self.send_400_response("")


def _answer(status: int, text: str) -> bytes:
    request_id = f"req-{uuid4()}"
    level = logging.DEBUG if status == HTTPStatus.SERVICE_UNAVAILABLE else logging.INFO
    LOG.log(level, "action=request operation=unread status=%d request_id=%s reason=%s", status, request_id, text)
    slugs = {408: "request-timeout", 431: "request-header-fields-too-large"}
    content = orjson.dumps(error_body(status, slugs.get(status, ""), text, text))
    head = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "content-type: application/json",
        f"content-length: {len(content)}",
        f"x-openstack-request-id: {request_id}",
        "connection: close",
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content
