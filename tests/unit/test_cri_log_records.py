"""Log files of CRI engines, record by record: from the end, over files that are turned over and attempts."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from uuid import uuid4

import pytest

from zun.runtime.cri import log_records
from zun.runtime.cri.log_files import LogFiles
from zun.runtime.cri.log_turning import shift
from zun.runtime.log_records import LogRecord

MEMBER = str(uuid4())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = LogFiles(tmp_path)
    return Path(files.make(str(uuid4()), MEMBER))


def row(number: int, stream: str = "stdout", tag: str = "F") -> str:
    return f"2026-01-02T03:04:{number % 60:02d}.{number:09d}Z {stream} {tag} line {number}\n"


def rest(*paths: Path) -> None:
    """Nobody wrote to these lately."""
    for path in paths:
        os.utime(path, (time.time() - 60, time.time() - 60))


async def read(folder: Path, last: int | None = None) -> list[LogRecord]:
    found: list[LogRecord] = []
    async with aclosing(log_records.records(LogFiles(folder.parent.parent), MEMBER, last)) as batches:
        async for batch in batches:
            found += batch
    return found


def numbers(records: Sequence[LogRecord]) -> list[int]:
    return [int(one.data.split()[1]) for one in records]


@pytest.mark.parametrize("block", [1, 50, 1 << 18])
async def test_the_last_rows_of_all_files(folder: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_records, "_BLOCK", block)
    (folder / "0.log.1").write_text("".join(map(row, range(3))))
    (folder / "0.log").write_text("".join(map(row, range(3, 6))))
    (folder / "1.log").write_text("".join(map(row, range(6, 9))))
    rest(folder / "0.log.1", folder / "0.log")
    assert numbers(await read(folder)) == list(range(9))
    for last in range(1, 12):
        assert numbers(await read(folder, last)) == list(range(max(0, 9 - last), 9))


async def test_a_row_that_is_being_written_is_none_yet(folder: Path) -> None:
    (folder / "0.log").write_text(row(1) + row(2) + row(3)[:-5])
    assert numbers(await read(folder)) == [1, 2]
    assert numbers(await read(folder, 1)) == [2]
    assert numbers(await read(folder, 2)) == [1, 2]
    (folder / "0.log").write_text(row(1)[:-3])
    assert await read(folder, 5) == []


async def test_pieces_of_a_line_and_streams(folder: Path) -> None:
    (folder / "0.log").write_bytes(
        row(1, "stderr", "P").encode() + b"2026-01-02T04:04:05.1+01:00 stdout F a\xffb\nodd\n"
    )
    first, second, third = await read(folder)
    assert (first.stream, first.whole, first.data) == ("stderr", False, b"line 1")
    assert (second.data, second.when % 1_000_000_000) == (b"a\xffb", 100_000_000)
    assert third == LogRecord(0, "stdout", b"odd", True)


async def test_a_newer_file_waits_until_the_one_before_has_rested(folder: Path) -> None:
    (folder / "0.log.1").write_text(row(1))
    (folder / "0.log").write_text(row(3))
    assert numbers(await read(folder)) == [1], "the engine may still write to it"
    with (folder / "0.log.1").open("a") as file:
        file.write(row(2))
    rest(folder / "0.log.1")
    assert numbers(await read(folder)) == [1, 2, 3]


async def test_turned_over_between_its_listing_and_its_reading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate(("0.log.2", "0.log.1", "0.log")):
        (folder / name).write_text(row(number))
        rest(folder / name)
    real, turns = LogFiles.of, iter([False, True, False, False])

    def of(self: LogFiles, member: str) -> Sequence[Path] | None:
        found = real(self, member)
        if next(turns, False):  # the files were listed, and are not open yet
            shift(folder / "0.log", 5)
            (folder / "0.log").write_text(row(3))
        return found

    monkeypatch.setattr(LogFiles, "of", of)
    assert numbers(await read(folder)) == [0, 1, 2, 3]


async def test_a_member_without_files_has_no_records(tmp_path: Path) -> None:
    assert await read(tmp_path / "capsule" / "member") == []
