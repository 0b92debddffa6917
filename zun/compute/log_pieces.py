"""Pieces of a log that somebody follows, as the API asks for them: what is behind a place, or what is written next.

Nothing is kept between calls: the place says all, so an agent that was restarted goes on as well.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from zun.compute.capsules.holdings import engine_of
from zun.compute.node import Node
from zun.domain.errors import EngineNotFound
from zun.domain.log_place import START, Place, parse
from zun.domain.observed import Observed
from zun.domain.operation import CAPSULE
from zun.runtime.base import Runtime
from zun.runtime.log_records import SECOND, LogRecord
from zun.runtime.pods import Pods

_BYTES, _RECORDS = 256 * 1024, 4000
"""Most of a piece."""
_WAITING = 64
"""Calls that wait for something to be written; RabbitMQ brings 256 calls at once, of all kinds."""
_LIVE = frozenset({"running", "paused", "restarting"})
_SETTLE = 0.5
"""Seconds in which the engine has put down what a container wrote at its end."""
_GATHER = 0.05
"""Seconds from the first news to the look at it: a program that writes line by line is not asked for line by line."""
_MARGIN = 64
_MIXED = SECOND // 5
"""Nanoseconds by which records of the two streams may be out of order."""
_MOST = 1 << 20
"""Records counted from the end; beyond, the whole log is read."""


@dataclass(frozen=True, slots=True)
class Wish:
    """``after`` None: from the begin, which ``tail`` (records of both streams) and ``since`` (nanoseconds) say.
    ``behind``: how many records are behind ``after``, as far as known."""

    streams: frozenset[str]
    after: Place | None
    tail: int | None = None
    since: int = 0
    behind: int | None = None

    @property
    def count(self) -> int | None:
        """How many records are to be read at first, from the end; None: all."""
        if self.after is None:
            return self.tail if self.tail is None else max(1, self.tail)
        if self.after == START:
            return None
        return _MARGIN if self.behind is None else self.behind + self.behind // 4 + _MARGIN


@dataclass(slots=True)
class Piece:
    """``place``: behind all that was looked at. ``behind``: how many records follow, at most; None: not known.
    ``lost``: the place asked for is not in the log any more. ``over``: the engine's word for a container that writes
    nothing more, ``gone`` without one; ``exit_code`` is its. ``busy``: too many wait already."""

    place: Place | None
    records: list[tuple[Place, LogRecord]] = field(default_factory=list)
    behind: int | None = 0
    more: bool = False
    lost: bool = False
    over: str | None = None
    exit_code: int | None = None
    busy: bool = False

    @property
    def any(self) -> bool:
        return bool(self.records) or self.more or self.lost


class _Reading:
    """One reading of the newest ``count`` records, for what is behind the place."""

    def __init__(self, wish: Wish, count: int | None) -> None:
        self.piece = Piece(wish.after)
        self.total = 0
        self._wish = wish
        self._count = count
        self._unsure = False
        """May there be records before these that have the time of the place? Then their numbers are not known."""
        self._counting = wish.behind is None or count is None or count != wish.count
        """Is it to be read to the end, so that it is known what follows the piece?"""
        self._found = wish.after is None or wish.after == START
        self._skip = wish.after is None and wish.tail == 0
        self._late = wish.after is not None
        """Are we behind ``since``?"""
        self._last: dict[str, tuple[int, int]] = {}
        self._size = self._given = 0
        self._rest = 0

    @property
    def found(self) -> bool:
        return self._found and (self.whole or not self._unsure)

    @property
    def whole(self) -> bool:
        """Was this all of the log?"""
        return self._count is None or self.total < self._count

    def take(self, batch: Iterable[LogRecord]) -> bool:
        """Is more wanted?"""
        for record in batch:
            place = self._numbered(record)
            self.total += 1
            if self._found:
                self._give(place, record)
                continue
            if self.total == 1 and self._wish.after is not None:
                self._unsure = record.when >= self._wish.after.when - _MIXED
            self._found = place == self._wish.after
        return not self.piece.more or self._counting or self._unsure

    def _numbered(self, record: LogRecord) -> Place:
        when, number = self._last.get(record.stream, (-1, 0))
        number = number + 1 if when == record.when else 1
        self._last[record.stream] = (record.when, number)
        return Place(record.when, record.stream, number)

    def _give(self, place: Place, record: LogRecord) -> None:
        piece = self.piece
        if self._size >= _BYTES or len(piece.records) >= _RECORDS:
            piece.more = True
            self._rest += 1
            return
        piece.place = place
        self._given += 1
        self._late = self._late or record.when >= self._wish.since
        if self._late and not self._skip and record.stream in self._wish.streams:
            piece.records.append((place, record))
            self._size += len(record.data)

    def end(self) -> Piece:
        """After all that was wanted."""
        piece = self.piece
        if piece.place is None:
            piece.place = START
        if piece.more:
            known = self._wish.behind
            piece.behind = self._rest if self._counting or known is None else max(self._rest, known - self._given)
        return piece


async def read(engine: Runtime | Pods, uuid: str, wish: Wish) -> Piece:
    """What is behind the place now. Raises the engine's errors."""
    count, lost = wish.count, False
    while True:
        reading = _Reading(wish, count)
        async with aclosing(engine.log_records(uuid, count)) as batches:
            async for batch in batches:
                if not reading.take(batch):
                    break
        if reading.found:
            piece = reading.end()
            piece.lost = lost
            return piece
        if reading.whole or count is None:
            wish, count, lost = Wish(wish.streams, START), None, True
        else:
            count = None if count >= _MOST else count * 8


class LogPieces:
    """The handler for ``Bus.serve``."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting = 0

    async def log_piece(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Of ``uuid``, behind the place ``after`` (text; None: see ``tail``, ``since`` in seconds), of ``streams``;
        when there is nothing yet, what is written within ``wait`` seconds. ``behind`` is the last piece's. See
        ``shown``."""
        engine: Runtime | Pods = engine_of(self._node) if params.get(CAPSULE) else self._node.runtime
        wish = Wish(
            frozenset(params["streams"]),
            parse(params["after"]) if params["after"] is not None else None,
            params["tail"],
            int((params["since"] or 0) * SECOND),
            params["behind"],
        )
        try:
            return shown(await self._piece(engine, params["uuid"], wish, float(params["wait"])))
        except EngineNotFound:
            return shown(Piece(wish.after, over="gone"))

    async def _piece(self, engine: Runtime | Pods, uuid: str, wish: Wish, wait: float) -> Piece:
        piece = await read(engine, uuid, wish)
        if piece.any or wait <= 0:
            return piece
        if self._waiting >= _WAITING:
            return await self._unawaited(engine, uuid, _behind(wish, piece))
        self._waiting += 1
        try:
            return await self._next(engine, uuid, _behind(wish, piece), wait)
        finally:
            self._waiting -= 1

    async def _unawaited(self, engine: Runtime | Pods, uuid: str, wish: Wish) -> Piece:
        found = await engine.inspect(uuid)
        if found is None or found.state not in _LIVE:
            return await self._last(engine, uuid, wish, found)
        return Piece(wish.after, behind=wish.behind, busy=True)

    async def _next(self, engine: Runtime | Pods, uuid: str, wish: Wish, wait: float) -> Piece:
        loop = asyncio.get_running_loop()
        end = loop.time() + wait
        async with engine.log_growth(uuid) as grown:
            while True:
                piece = await read(engine, uuid, wish)
                wish = _behind(wish, piece)
                if piece.any or loop.time() >= end:
                    return piece
                found = await engine.inspect(uuid)
                if found is None or found.state not in _LIVE:
                    return await self._last(engine, uuid, wish, found)
                await grown(max(0.0, end - loop.time()))
                if loop.time() < end:
                    await asyncio.sleep(_GATHER)

    async def _last(self, engine: Runtime | Pods, uuid: str, wish: Wish, found: Observed | None) -> Piece:
        await asyncio.sleep(_SETTLE)
        piece = await read(engine, uuid, wish)
        if not piece.any:
            piece.over = "gone" if found is None else found.state
            piece.exit_code = None if found is None else found.exit_code
        return piece


def _behind(wish: Wish, piece: Piece) -> Wish:
    return Wish(wish.streams, piece.place, behind=piece.behind)


def shown(piece: Piece) -> dict[str, Any]:
    """As JSON. A record is ``[place, stream, text, whole, base64]``, the last one null where the text is all of it."""
    return {
        "place": None if piece.place is None else str(piece.place),
        "records": [_shown(place, record) for place, record in piece.records],
        "behind": piece.behind,
        "more": piece.more,
        "lost": piece.lost,
        "over": piece.over,
        "exit_code": piece.exit_code,
        "busy": piece.busy,
    }


def _shown(place: Place, record: LogRecord) -> Sequence[Any]:
    try:
        return [str(place), record.stream, record.data.decode(), record.whole, None]
    except UnicodeDecodeError:
        text = record.data.decode("utf-8", "replace")
        return [str(place), record.stream, text, record.whole, base64.b64encode(record.data).decode()]
