"""Following a container's log from the API: the node is asked for one piece after the other.

A piece is asked for when the one before was taken, so a stream holds one at most. Which process asks, and which agent
answers, is all the same: the place in the log says where to go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter

from zun.control.base import Control
from zun.control.containers_lookup import require_host
from zun.domain.awaited import Seen
from zun.domain.caller import Caller
from zun.domain.container import Container
from zun.domain.lifecycle import Status
from zun.domain.operation import CAPSULE

_LONGEST = 20.0
"""Seconds that the node waits for something to be written."""
_ANSWER = 10.0
"""Seconds beyond that which its answer may take."""
_MANY = 10_000
"""Records to be read from which on it may take as long as any call of a node."""
_ENDED = frozenset({Status.STOPPED, Status.ERROR, Status.DEAD, Status.DELETED})

_TOLD = Counter("zun_api_log_records_told", "Records of logs given to streams.")


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a stream begins: behind ``after``, a place as text; else ``tail`` records from the end, of those since
    ``since`` (seconds)."""

    streams: tuple[str, ...]
    after: str | None = None
    tail: int | None = None
    since: float | None = None


class Follower:
    """One stream. ``place``: behind all that was taken, as text; None while that is not known."""

    def __init__(self, control: Control, caller: Caller, begin: Begin) -> None:
        self.place = begin.after
        self._control = control
        self._caller = caller
        self._begin = begin
        self._behind: int | None = None

    async def next(self, row: Container, seconds: float) -> Mapping[str, Any]:
        """The next piece (``zun.compute.log_pieces.shown``, and ``after``: behind which place it is), empty when
        nothing is written within ``seconds``, or earlier. Raises ContainerHostNotUp, HostUnreachable, or the node's
        error."""
        host = await require_host(self._control, self._caller, row)
        wait = 0.0 if self.place is None else min(seconds, _LONGEST)  # a call given up before would lose the begin
        params = {
            "uuid": row.uuid,
            "streams": self._begin.streams,
            "after": self.place,
            "tail": self._begin.tail,
            "since": self._begin.since,
            "behind": self._behind,
            "wait": wait,
            **({CAPSULE: True} if row.capsule_uuid else {}),
        }
        quick = self._behind is not None and self._behind < _MANY
        answer = _ANSWER if quick else max(_ANSWER, float(self._control.conf.rpc_response_timeout))
        after = self.place
        piece: Mapping[str, Any] = await self._control.bus.call(host, "log_piece", params, wait + answer)
        return {**piece, "after": after}

    def take(self, piece: Mapping[str, Any]) -> None:
        """The piece is told to the client: the next one is what follows it."""
        self.place, self._behind = piece["place"], piece["behind"]
        _TOLD.inc(len(piece["records"]))


def ended(row: Container | Seen | None) -> bool:
    """Does the record say that nothing more will be written, unless somebody starts the container anew?"""
    if row is None:
        return True
    return row.status in _ENDED and row.task_state is None and row.restart_at is None
