"""Records of a log, as every engine keeps them: a line, or a piece of a long one, with its time to the nanosecond."""

from __future__ import annotations

import calendar
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import NamedTuple

SECOND = 1_000_000_000
Growth = Callable[[float], Awaitable[None]]
"""Returns when the log may have grown or its container may have ended; after so many seconds at the latest."""


class LogRecord(NamedTuple):
    """``when``: nanoseconds since 1970, 0 if the engine did not tell. ``data`` is without its line feed; there was none
    when not ``whole``: the line goes on in the next record of its stream, or was never ended."""

    when: int
    stream: str
    data: bytes
    whole: bool


def moment(stamp: bytes) -> int | None:
    """``2026-01-02T03:04:05.678901234Z`` (UTC, nine digits) as nanoseconds; None for another form."""
    if len(stamp) != 30 or stamp[19:20] != b"." or stamp[29:] != b"Z" or not stamp[20:29].isdigit():
        return None
    seconds = _seconds(stamp[:19])
    return None if seconds is None else seconds * SECOND + int(stamp[20:29])


@lru_cache(maxsize=256)
def _seconds(text: bytes) -> int | None:
    try:
        return calendar.timegm(time.strptime(text.decode("ascii"), "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None
