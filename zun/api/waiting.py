"""``?wait_for=<status>&timeout=<seconds>``: an answer that comes when the status does (long poll)."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from zun.api import metrics, paging
from zun.api.call import Call
from zun.api.decoding import ClientDisconnected
from zun.api.text import cut
from zun.domain import awaited
from zun.domain.awaited import Seen
from zun.domain.container import Container
from zun.domain.errors import InvalidValue
from zun.domain.lifecycle import Status

PARAMETERS = ("wait_for", "timeout")
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_USUAL = 30.0
"""Seconds without ``timeout``."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is waited for, at most so many seconds."""

    status: str
    seconds: float


def read(call: Call) -> Wanted | None:
    """None without ``wait_for``; ``timeout`` alone says nothing. More than [api]/max_wait is taken as that. Raises
    InvalidValue."""
    if "wait_for" not in call.query:
        return None
    for name in PARAMETERS:
        if len(call.query.get(name, ())) > 1:
            raise InvalidValue(f"The parameter {name} can be given once only.")
    status = paging.last(call, "wait_for") or ""
    if status not in set(Status):
        raise InvalidValue(f"Invalid value '{cut(status)}' for wait_for: it has to be one of {', '.join(Status)}.")
    text = paging.last(call, "timeout")
    longest = float(call.control.conf.api.max_wait)
    if text is None:
        return Wanted(status, min(_USUAL, longest))
    if not _SECONDS.fullmatch(text):
        raise InvalidValue(f"Invalid value '{cut(text)}' for timeout: it has to be a number of seconds, 0 or more.")
    return Wanted(status, min(float(text), longest))


async def until(call: Call, row: Container, wanted: Wanted) -> bool:
    """Wait until the row has the status, cannot come to it by itself any more, or is gone; at most the time asked for.
    True when the row has to be read again. Raises ClientDisconnected when nobody waits any more."""
    if awaited.over(Seen(row.status, row.task_state, row.auto_remove, row.restart_at), wanted.status):
        return False
    waiting = asyncio.create_task(
        call.waits.wait(row.uuid, lambda seen: awaited.over(seen, wanted.status), wanted.seconds)
    )
    gone = asyncio.create_task(call.gone())
    try:
        with metrics.WAITING.track_inprogress():
            await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise ClientDisconnected
        await waiting
    finally:
        for task in (waiting, gone):
            task.cancel()
        await asyncio.gather(waiting, gone, return_exceptions=True)
    return True
