"""Log files as CRI engines write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.runtime.cri import log_turning, logs
from zun.runtime.cri.log_files import LogFiles, sorted_files
from zun.runtime.cri.logs import Line, Wanted, nanoseconds, parsed, stamp
from zun.runtime.docker_streams import KEPT

MEMBER = "0d8c0f04-2cf5-4e3b-9ef4-0e2c3e1b6a01"
CAPSULE = "5b1f9f6e-50b6-4ad0-9d1c-5f3b5b0d2c02"


def row(second: int, text: str, *, stream: str = "stdout", tag: str = "F") -> str:
    return f"2026-01-02T03:{second // 60:02d}:{second % 60:02d}.5Z {stream} {tag} {text}\n"


def file(folder: Path, name: str, *rows: str) -> Path:
    path = folder / name
    path.write_text("".join(rows))
    return path


def test_pieces_make_one_line_of_their_stream(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        "0.log",
        row(1, "a", tag="P"),
        row(2, "x", stream="stderr"),
        row(3, "b", tag="P"),
        row(4, "c"),
        row(5, "rest", tag="P"),
    )
    assert logs.read([path], Wanted()) == "x\nabc\nrest"
    assert logs.read([path], Wanted(stderr=False, tail=2)) == "abc\nrest"
    assert logs.read([path], Wanted(timestamps=True, stdout=False)) == "2026-01-02T03:00:02.500000000Z x\n"


def test_empty_lines_and_spaces_are_kept(tmp_path: Path) -> None:
    path = file(tmp_path, "0.log", row(1, ""), row(2, "  two  "), "2026-01-02T03:04:05Z stdout F\n")
    assert logs.read([path], Wanted()) == "\n  two  \n\n"


def test_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = file(tmp_path, "0.log", row(1, "whole"), "2026-01-02T03:04:05.5Z stdout F half")
    assert logs.read([path], Wanted()) == "whole\n"
    path = file(tmp_path, "1.log", "no row at all\n", row(1, "whole"), "2026-99-02T03:04:05Z stdout F bad time\n")
    assert logs.read([path], Wanted()) == "whole\n"


def test_line_goes_on_in_the_next_file_and_not_in_the_next_attempt(tmp_path: Path) -> None:
    older = file(tmp_path, "0.log.1", row(1, "one"), row(2, "tw", tag="P"))
    newer = file(tmp_path, "0.log", row(3, "o"), row(4, "cut", tag="P"))
    restarted = file(tmp_path, "1.log", row(5, "again"))
    assert logs.read([restarted, newer, older], Wanted()) == "one\ntwo\ncutagain\n"


def test_since_is_inclusive(tmp_path: Path) -> None:
    path = file(tmp_path, "0.log", row(1, "a"), row(2, "b"), row(3, "c"))
    moment = nanoseconds("2026-01-02T03:00:02.5Z")
    assert moment is not None
    assert logs.read([path], Wanted(since=moment / 1e9)) == "b\nc\n"


@pytest.mark.parametrize("tail", [1, 2, 3000, 30_000])
def test_tail_of_a_large_file_is_the_same_as_of_all_of_it(tmp_path: Path, tail: int) -> None:
    rows = [
        row(number % 3600, f"line {number}", stream=("stdout", "stderr")[number % 7 == 0]) for number in range(20_000)
    ]
    path = file(tmp_path, "0.log", *rows)
    text = logs.read([path], Wanted(tail=tail))
    assert text.splitlines() == [f"line {number}" for number in range(20_000)][-tail:]


def test_rare_stream_is_found_far_from_the_end(tmp_path: Path) -> None:
    rows = [row(1, "rare", stream="stderr"), *(row(2, f"line {number}") for number in range(20_000))]
    path = file(tmp_path, "0.log", *rows)
    assert logs.read([path], Wanted(stdout=False, tail=5)) == "rare\n"


def test_newest_mebibyte_begins_with_a_whole_line(tmp_path: Path) -> None:
    path = file(tmp_path, "0.log", *(row(1, f"{number} {'.' * 90}") for number in range(30_000)))
    text = logs.read([path], Wanted())
    assert KEPT - 200 < len(text) <= KEPT
    assert text.splitlines()[-1].startswith("29999 ")
    assert all(len(line) >= 92 for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01T00:00:01.25Z", 1.25),
        ("1970-01-01T01:00:01.5+01:00", 1.5),
        ("1969-12-31T19:30:01-04:30", 1.0),
    ],
)
def test_times_of_any_zone(text: str, seconds: float) -> None:
    assert nanoseconds(text) == int(seconds * 1e9)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00"])
def test_what_is_no_time(text: str) -> None:
    assert nanoseconds(text) is None


@given(st.integers(0, 4_000_000_000_000_000_000))
def test_stamps_are_read_as_written(when: int) -> None:
    assert nanoseconds(stamp(when)) == when


@given(
    st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=40).filter(lambda b: b"\n" not in b)))
)
def test_any_bytes_come_back(lines: list[tuple[str, bytes]]) -> None:
    rows = [f"1970-01-01T00:00:01Z {stream} F ".encode() + data + b"\n" for stream, data in lines]
    found = list(parsed([rows]))
    assert found == [Line(1_000_000_000, stream, data + b"\n") for stream, data in lines]


def test_files_are_those_of_the_member_newest_first(tmp_path: Path) -> None:
    files = LogFiles(tmp_path)
    folder = Path(files.make(CAPSULE, MEMBER))
    for name in ("0.log", "0.log.1", "1.log", "1.log.2", "1.log.1", "10.log", "note", "x.log", ".0.log"):
        file(folder, name)
    names = [path.name for path in files.of(MEMBER) or ()]
    assert names == ["10.log", "1.log", "1.log.1", "1.log.2", "0.log", "0.log.1"]
    assert files.of(CAPSULE) is None
    assert files.of("*") is None
    files.remove("..")
    files.remove(CAPSULE)
    assert list(tmp_path.iterdir()) == []


def test_log_of_the_last_ten_attempts_is_kept(tmp_path: Path) -> None:
    files = LogFiles(tmp_path)
    folder = Path(files.make(CAPSULE, MEMBER))
    for attempt in range(15):
        file(folder, f"{attempt}.log")
        file(folder, f"{attempt}.log.1")
    files.forget_before(CAPSULE, MEMBER, 15)
    assert {int(path.name.partition(".")[0]) for path in files.of(MEMBER) or ()} == set(range(6, 15))
    files.forget_before(CAPSULE, MEMBER, 0)
    assert len(files.of(MEMBER) or ()) == 18


def test_turning_keeps_so_many_files(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    for number in range(5):
        path.write_text(str(number))
        log_turning.shift(path, 3)
    assert [(one.name, one.read_text()) for one in sorted_files(tmp_path)] == [("0.log.1", "4"), ("0.log.2", "3")]
