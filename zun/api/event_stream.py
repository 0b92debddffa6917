"""Server-sent events: how an answer without end is sent, and what ends it.

A stream ends when its client leaves or takes nothing for a minute, when its token does, after [api]/stream_seconds, and
when the process stops. The last three are told by an event ``end``, so that a client knows whether to come again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import orjson
from starlette.types import Receive, Send

from zun.api.call import Call, Events
from zun.domain.caller import Caller
from zun.domain.errors import Forbidden, InvalidValue, Unauthorized, Unavailable, ZunError

LOG = logging.getLogger(__name__)

KIND = "text/event-stream"
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-store"),
    (b"x-accel-buffering", b"no"),  # nginx in between sends on what it gets at once
]
STALLED = 60.0
"""Seconds in which a client has to take something."""
_CHECK_EVERY = 30.0
_UNTOLD = 10
"""Checks in a row that the identity service may leave unanswered."""
_RETRY = 2000
"""Milliseconds after which a client comes again."""


def accepts(header: str | None) -> bool:
    """Does an Accept header ask for events?"""
    return header is not None and any(
        part.partition(";")[0].strip().lower() in (KIND, "text/*") for part in header.split(",")
    )


def frame(name: str, data: Any, ident: str | None = None) -> bytes:
    """One event. JSON has no line breaks, so ``data`` is one line."""
    head = f"id: {ident}\n" if ident is not None else ""
    return f"{head}event: {name}\ndata: ".encode() + orjson.dumps(data) + b"\n\n"


def opening(ident: str | None) -> bytes:
    """Before all events: when to come again, and where to go on from if there was none."""
    head = "" if ident is None else f"id: {ident}\n"
    return f"retry: {_RETRY}\n{head}\n".encode()


def keep_alive(ident: str | None) -> bytes:
    """A comment, so that nothing in between takes the connection for dead; moves the id on, without an event."""
    return (": keep-alive\n\n" if ident is None else f": keep-alive\nid: {ident}\n\n").encode()


class Lease:
    """How long a stream may go on. ``ended`` is asked between events; costs nothing most times."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        longest: float = call.control.conf.api.stream_seconds
        self._end = self._loop.time() + longest if longest else None
        self._check = self._loop.time() + _CHECK_EVERY
        self._untold = 0

    def wait(self, seconds: float) -> float:
        """``seconds``, or less when the stream has to look up earlier."""
        until = self._check if self._end is None else min(self._check, self._end)
        return max(0.0, min(seconds, until - self._loop.time()))

    async def ended(self) -> str | None:
        """Why the stream ends now; None: it goes on."""
        now = self._loop.time()
        if self._end is not None and now >= self._end:
            return "time"
        if now < self._check:
            return None
        self._check = now + _CHECK_EVERY
        try:
            caller = await self._call.again()
        except (Unauthorized, Forbidden):
            return "token"
        except Unavailable as error:
            self._untold += 1
            LOG.warning("action=stream result=token not checked reason=%s", error.message)
            return "token" if self._untold >= _UNTOLD else None
        self._untold = 0
        return None if _same(caller, self._call.caller) else "token"


def _same(one: Caller, other: Caller) -> bool:
    """Still the same rights: policy rules have been asked for these."""
    return (one.user_id, one.project_id, one.roles, one.is_admin) == (
        other.user_id, other.project_id, other.roles, other.is_admin,
    )  # fmt: skip


def last_event_id(text: str | None) -> int | None:
    """The number in ``Last-Event-ID``; None when there is none. Raises InvalidValue."""
    if text is None or not text.strip():
        return None
    found = text.strip()
    if not (found.isascii() and found.isdigit() and len(found) < 19):
        raise InvalidValue("Last-Event-ID has to be the id of an event, a whole number.")
    return int(found)


async def send_events(
    receive: Receive, send: Send, status: int, stream: Events, headers: Sequence[tuple[bytes, bytes]]
) -> None:
    """Send until the stream ends or its client leaves; ``pieces`` is closed in any case."""
    tasks = [
        asyncio.create_task(_pump(send, status, stream.pieces, headers), name="stream"),
        asyncio.create_task(_left(receive), name="stream-client"),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    pump = tasks[0]
    if not pump.cancelled() and (error := pump.exception()) is not None:
        if not isinstance(error, ZunError | TimeoutError):
            raise error
        LOG.warning("action=stream result=broken off reason=%s", error)


async def _pump(
    send: Send, status: int, pieces: AsyncGenerator[bytes, None], headers: Sequence[tuple[bytes, bytes]]
) -> None:
    async with aclosing(pieces):
        await send({"type": "http.response.start", "status": status, "headers": [*_HEADERS, *headers]})
        async for piece in pieces:
            async with asyncio.timeout(STALLED):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
