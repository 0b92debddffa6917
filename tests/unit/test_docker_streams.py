"""Frames, lines and bounded text."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.runtime.docker_streams import Demultiplexer, Tail, collect, json_lines


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def framed(parts: Iterable[tuple[int, bytes]]) -> bytes:
    return b"".join(bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data for stream, data in parts)


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40))), st.integers(1, 60))
def test_frames_may_be_split_anywhere(parts: list[tuple[int, bytes]], size: int) -> None:
    wire, frames = framed(parts), Demultiplexer()
    found = b"".join(frames.feed(wire[at : at + size]) for at in range(0, len(wire), size))
    assert found == b"".join(data for _, data in parts)


async def test_collect_with_and_without_frames() -> None:
    plain, multiplexed = Tail(), Tail()
    await collect(pieces(b"as it is", 3), plain, framed=False)
    await collect(pieces(framed([(1, b"out "), (2, b"err")]), 5), multiplexed, framed=True)
    assert (plain.text(), multiplexed.text()) == ("as it is", "out err")


@given(st.lists(st.binary(max_size=30)), st.integers(1, 40))
def test_tail_keeps_no_more_than_its_limit(chunks: list[bytes], limit: int) -> None:
    tail = Tail(limit)
    for chunk in chunks:
        tail.add(chunk)
    whole = b"".join(chunks)
    assert whole.decode("utf-8", "replace").endswith(tail.text()) or len(whole) > limit
    assert len(tail.text()) <= limit


def test_tail_begins_with_a_whole_line() -> None:
    tail = Tail(10)
    tail.add(b"first\nsecond\nthird\n")
    assert tail.text() == "third\n"
    endless = Tail(4)
    endless.add(b"abcdefgh")
    assert endless.text() == "efgh"


def test_short_text_is_whole() -> None:
    tail = Tail(100)
    tail.add(b"a\n\xff")
    assert tail.text() == "a\n\ufffd"


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_json_lines_of_any_length(size: int) -> None:
    rows = [{"a": 1}, {"b": "x" * 500}, {"c": None}]
    wire = "\r\n".join(map(json.dumps, rows)).encode()
    assert [row async for row in json_lines(pieces(wire, size))] == rows


async def test_lines_that_are_no_objects_are_refused() -> None:
    for wire in (b"[]\n", b"{broken\n"):
        with pytest.raises(ValueError):
            await anext(json_lines(pieces(wire, 100)))
