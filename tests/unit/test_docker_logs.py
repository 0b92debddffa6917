"""Docker's logs, record by record: frames, and what a terminal has instead of them, split anywhere."""

from __future__ import annotations

import pytest

from zun.runtime.docker_logs import Frames, Terminal
from zun.runtime.log_records import SECOND, LogRecord, moment

EARLY, LATER = "2026-11-30T14:39:12.399161099Z", "2026-11-30T14:39:14.530953201Z"


def when(stamp: str) -> int:
    found = moment(stamp.encode())
    assert found is not None
    return found


def frame(stream: int, text: str) -> bytes:
    data = text.encode()
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def fed(parser: Frames | Terminal, data: bytes, step: int) -> list[LogRecord]:
    found = [one for start in range(0, len(data), step) for one in parser.feed(data[start : start + step])]
    return found + parser.end()


def test_times_are_exact_to_the_nanosecond() -> None:
    assert moment(b"1970-01-01T00:00:01.000000002Z") == SECOND + 2
    for text in (b"", b"1970-01-01T00:00:01Z", b"1970-13-01T00:00:01.000000002Z", b"1970-01-01T00:00:01.00000000xZ"):
        assert moment(text) is None


@pytest.mark.parametrize("step", [1, 7, 31, 10_000])
def test_each_frame_is_a_record(step: int) -> None:
    data = frame(1, f"{EARLY} one\n") + frame(2, f"{LATER} two ü\n") + frame(1, f"{LATER} end")
    assert fed(Frames(), data, step) == [
        LogRecord(when(EARLY), "stdout", b"one", True),
        LogRecord(when(LATER), "stderr", "two ü".encode(), True),
        LogRecord(when(LATER), "stdout", b"end", False),
    ]


def test_a_frame_that_broke_off_is_none() -> None:
    assert fed(Frames(), frame(1, f"{EARLY} one\n") + frame(1, f"{LATER} two\n")[:-3], 5) == [
        LogRecord(when(EARLY), "stdout", b"one", True)
    ]


@pytest.mark.parametrize("step", [1, 7, 31, 10_000])
def test_a_terminal_has_lines(step: int) -> None:
    data = f"{EARLY} one\r\n{EARLY} aaa{EARLY} bbb\r\n{LATER} prompt".encode()
    assert fed(Terminal(), data, step) == [
        LogRecord(when(EARLY), "stdout", b"one\r", True),
        LogRecord(when(EARLY), "stdout", b"aaa", False),
        LogRecord(when(EARLY), "stdout", b"bbb\r", True),
        LogRecord(when(LATER), "stdout", b"prompt", False),
    ]


def test_a_prompt_and_what_the_next_run_writes_are_two() -> None:
    data = f"{EARLY} prompt{LATER} next\n".encode()
    assert [one.data for one in fed(Terminal(), data, 9)] == [b"prompt", b"next"]


def test_a_time_that_a_program_writes_is_text() -> None:
    data = f"{LATER} it is {EARLY} now\n".encode()
    assert [one.data.decode() for one in fed(Terminal(), data, 9)] == [f"it is {EARLY} now"]


def test_a_terminal_without_any_line_feed_does_not_pile_up() -> None:
    data = (f"{EARLY} " + "a" * 16384).encode() * 40
    parser = Terminal()
    early = [one for start in range(0, len(data), 9000) for one in parser.feed(data[start : start + 9000])]
    assert len(early) >= 15
    found = early + parser.end()
    assert {(one.when, one.whole) for one in found} == {(when(EARLY), False)}
    assert b"".join(one.data for one in found) == b"a" * 16384 * 40


def test_what_has_no_time_is_text_too() -> None:
    assert fed(Frames(), frame(1, "no time\n"), 3) == [LogRecord(0, "stdout", b"no time", True)]
