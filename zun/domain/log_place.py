"""Where in a container's log a record is: the id of events of a log that is followed. Pure.

A record is named by its time (nanoseconds since 1970), its stream, and its number among those of that stream with the
same time. The text, ``1764513123123456789-o-1``, says all: any process can go on behind it.
"""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from zun.domain.errors import InvalidValue

_TEXT = re.compile(r"([0-9]{1,19})-([oe])-([0-9]{1,9})", re.ASCII)
_LETTERS = {"stdout": "o", "stderr": "e"}
_STREAMS = {letter: stream for stream, letter in _LETTERS.items()}


class Place(NamedTuple):
    """Behind this record. ``number`` counts from 1."""

    when: int
    stream: str
    number: int

    def __str__(self) -> str:
        return f"{self.when}-{_LETTERS[self.stream]}-{self.number}"


START = Place(0, "stdout", 0)
"""Before the first record."""


def stamp(when: int) -> str:
    """A time as Docker writes it: UTC, nine digits."""
    seconds, rest = divmod(when, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"


def parse(text: str) -> Place:
    """Raises InvalidValue."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise InvalidValue("Last-Event-ID has to be the id of an event of this log.")
    return Place(int(match[1]), _STREAMS[match[2]], int(match[3]))
