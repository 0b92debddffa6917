"""What is behind a place in a log: every record once, whatever was written, turned over or read before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zun.compute import log_pieces
from zun.compute.log_pieces import Piece, Wish, read
from zun.domain.log_place import Place
from zun.runtime.log_records import SECOND, LogRecord

BOTH = frozenset({"stdout", "stderr"})


class Kept:
    """A log in memory, as an engine gives it; ``most`` records are kept."""

    def __init__(self, records: Sequence[LogRecord] = ()) -> None:
        self.records = list(records)
        self.asked: list[int | None] = []

    async def log_records(self, uuid: str, last: int | None) -> AsyncGenerator[Sequence[LogRecord], None]:
        self.asked.append(last)
        found = self.records if last is None else self.records[max(0, len(self.records) - last) :]
        for start in range(0, len(found), 7):
            yield found[start : start + 7]


def record(number: int, stream: str = "stdout", when: int | None = None, *, whole: bool = True) -> LogRecord:
    return LogRecord(number * SECOND if when is None else when, stream, f"line {number}".encode(), whole)


async def rest(log: Kept, wish: Wish) -> tuple[list[LogRecord], Piece]:
    """All that is behind, piece by piece, as the API asks."""
    found: list[LogRecord] = []
    while True:
        piece = await read(log, "one", wish)  # type: ignore[arg-type]
        found += [one for _, one in piece.records]
        if not piece.more:
            return found, piece
        wish = Wish(wish.streams, piece.place, behind=piece.behind)


async def test_from_the_begin_and_then_nothing_twice() -> None:
    log = Kept([record(number) for number in range(1, 4)])
    found, piece = await rest(log, Wish(BOTH, None))
    assert found == log.records
    assert str(piece.place) == "3000000000-o-1"
    assert (await rest(log, Wish(BOTH, piece.place)))[0] == []
    log.records.append(record(4))
    assert (await rest(log, Wish(BOTH, piece.place)))[0] == [record(4)]


async def test_an_empty_log_has_a_place_too() -> None:
    log = Kept()
    found, piece = await rest(log, Wish(BOTH, None, tail=5))
    assert found == []
    log.records.append(record(1))
    found, piece = await rest(log, Wish(BOTH, piece.place))
    assert (found, piece.lost) == ([record(1)], False)


async def test_tail_and_since_say_where_to_begin() -> None:
    log = Kept([record(number) for number in range(1, 11)])
    assert (await rest(log, Wish(BOTH, None, tail=3)))[0] == log.records[-3:]
    assert (await rest(log, Wish(BOTH, None, since=8 * SECOND)))[0] == log.records[-3:]
    assert (await rest(log, Wish(BOTH, None, tail=5, since=9 * SECOND)))[0] == log.records[-2:]
    found, piece = await rest(log, Wish(BOTH, None, tail=0))
    assert found == []
    log.records.append(record(11))
    assert (await rest(log, Wish(BOTH, piece.place)))[0] == [record(11)]


async def test_what_was_turned_over_before_it_was_read_is_told() -> None:
    log = Kept([record(number) for number in range(5, 9)])
    found, piece = await rest(log, Wish(BOTH, Place(2 * SECOND, "stdout", 1)))
    assert (found, piece.lost) == (log.records, True)
    found, piece = await rest(Kept(), Wish(BOTH, Place(2 * SECOND, "stdout", 1)))
    assert (found, piece.lost) == ([], True)


async def test_the_other_stream_moves_the_place_only() -> None:
    log = Kept([record(1), record(2, "stderr"), record(3)])
    found, piece = await rest(log, Wish(frozenset({"stderr"}), None))
    assert (found, str(piece.place)) == ([record(2, "stderr")], "3000000000-o-1")


async def test_a_long_log_is_read_once_and_not_anew_for_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pieces, "_RECORDS", 100)
    log = Kept([record(number) for number in range(1, 5001)])
    found, _ = await rest(log, Wish(BOTH, None))
    assert found == log.records
    assert len(log.asked) == 50
    counts = [last or 5000 for last in log.asked]
    assert counts[1:] == sorted(counts[1:], reverse=True), "each one from further on"
    assert counts[-1] < 400


async def test_an_idle_log_is_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Kept([record(number) for number in range(1, 5001)])
    _, piece = await rest(log, Wish(BOTH, None, tail=1))
    log.asked.clear()
    await rest(log, Wish(BOTH, piece.place, behind=piece.behind))
    assert log.asked == [64]


LOGS = st.lists(
    st.tuples(st.sampled_from(["stdout", "stderr"]), st.sampled_from([0, 0, 0, 1, 1000, SECOND // 10, SECOND])),
    min_size=1,
    max_size=400,
)


def made(steps: Sequence[tuple[str, int]], mixed: Sequence[int]) -> list[LogRecord]:
    """Times of one stream grow or stay; those of the other may be a little behind."""
    now, late, found = 10 * SECOND, {"stdout": 0, "stderr": 0}, list[LogRecord]()
    for number, (stream, step) in enumerate(steps):
        now += step
        when = max(late[stream], now - mixed[number % len(mixed)])
        late[stream] = when
        found.append(LogRecord(when, stream, str(number).encode(), number % 5 > 0))
    return found


@settings(max_examples=150, deadline=None)
@given(LOGS, st.lists(st.sampled_from([0, 0, 5, 50_000]), min_size=1, max_size=7), st.data())
def test_every_record_once_wherever_it_broke_off(steps: Any, mixed: Any, data: st.DataObject) -> None:
    async def story() -> None:
        records = made(steps, mixed)
        first = data.draw(st.integers(0, len(records)))
        log, wish, found = Kept(records[:first]), Wish(BOTH, None), list[LogRecord]()
        while True:
            piece = await read(log, "one", wish)  # type: ignore[arg-type]
            assert not piece.lost
            found += [one for _, one in piece.records]
            behind = piece.behind if data.draw(st.booleans()) else None  # another process does not know it
            wish = Wish(BOTH, piece.place, behind=behind)
            if not piece.more and len(log.records) == len(records):
                break
            log.records = records[: len(log.records) + data.draw(st.integers(1, 200))]
        assert found == records

    most = log_pieces._RECORDS
    log_pieces._RECORDS = data.draw(st.sampled_from([1, 3, 90]))
    try:
        asyncio.run(story())
    finally:
        log_pieces._RECORDS = most
