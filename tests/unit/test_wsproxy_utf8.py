"""Characters stay whole, wherever the output is cut; bytes that are none pass unchanged."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.wsproxy.utf8 import WholeCharacters

CUTS = st.lists(st.integers(0, 400), max_size=40)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    at = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    return [data[begin:end] for begin, end in pairwise(at)]


@given(st.text(max_size=120), CUTS)
def test_every_piece_of_a_text_is_text(text: str, cuts: list[int]) -> None:
    whole = WholeCharacters()
    given_on = [whole.feed(piece) for piece in pieces(text.encode(), cuts)]
    assert "".join(piece.decode() for piece in given_on) == text
    assert whole.flush() == b""


@given(st.binary(max_size=400), CUTS)
def test_all_bytes_come_in_order_and_at_most_three_are_held(data: bytes, cuts: list[int]) -> None:
    whole, found = WholeCharacters(), b""
    for piece in pieces(data, cuts):
        found += whole.feed(piece)
        assert len(whole.held) <= 3
    assert found + whole.flush() == data


@given(st.text(max_size=20), st.integers(0, 0x10FFFF).filter(lambda code: not 0xD800 <= code <= 0xDFFF), st.data())
def test_what_is_held_is_what_the_character_lacks(text: str, code: int, data: st.DataObject) -> None:
    character = chr(code).encode()
    cut = data.draw(st.integers(1, len(character)))
    whole = WholeCharacters()
    assert whole.feed(text.encode() + character[:cut]) == text.encode() + (character if cut == len(character) else b"")
    assert whole.feed(character[cut:]) == (character if cut < len(character) else b"")


@pytest.mark.parametrize("data", [bytes(range(128)), b"\xff\xfe", b"\x80\x80\x80\x80", b"\xc0", b"\xf5", b"\xc3\xc3("])
def test_what_no_character_begins_is_not_held(data: bytes) -> None:
    whole = WholeCharacters()
    assert whole.feed(data) == data
