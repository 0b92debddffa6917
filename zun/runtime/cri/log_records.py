"""Log files as CRI engines write them, record by record, and when they grow.

Files are turned over by ``log_turning.py``. The engine may still write to one that was, while the next is in use: what
is in the next one waits until the one before has rested.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from zun.runtime.cri.log_files import LogFiles
from zun.runtime.cri.logs import nanoseconds
from zun.runtime.inotify import FolderChanges
from zun.runtime.log_records import Growth, LogRecord, moment

_ROW = re.compile(rb"(\S+) (stdout|stderr) ([FP])(?::\S*)?(?: (.*))?", re.DOTALL)
_BLOCK = 256 * 1024
_RESTED = 1.0
"""Seconds in which the engine has written all that it had for a file that was turned over."""
_TRIES = 5


async def records(files: LogFiles, uuid: str, last: int | None) -> AsyncGenerator[Sequence[LogRecord], None]:
    """See ``zun.runtime.base.Runtime.log_records``. Nothing for a member without files. To be closed."""
    with ExitStack() as stack:
        rows = await asyncio.to_thread(_from, files, uuid, last, stack)
        while batch := await asyncio.to_thread(_batch, rows):
            yield batch


@asynccontextmanager
async def growth(files: LogFiles, uuid: str) -> AsyncIterator[Growth]:
    """See ``zun.runtime.base.Runtime.log_growth``."""
    folder = await asyncio.to_thread(files.folder, uuid)
    with ExitStack() as stack:
        changes = stack.enter_context(FolderChanges(folder)) if folder is not None else None

        async def grown(seconds: float) -> None:
            if await asyncio.to_thread(_turned_lately, files, uuid):
                seconds = min(seconds, _RESTED)
            if changes is None:
                await asyncio.sleep(min(seconds, _RESTED))
            else:
                await changes.wait(seconds)

        yield grown


def _turned_lately(files: LogFiles, uuid: str) -> bool:
    """Is anything held back by a file that has not rested yet? Also just after it has, for what came in between."""
    try:
        return any(_age(path.stat().st_mtime) < 2 * _RESTED for path in (files.of(uuid) or ())[1:])
    except FileNotFoundError:  # turned over right now
        return True


def _age(mtime: float) -> float:
    """A clock that was set back makes nothing wait."""
    age = time.time() - mtime
    return age if age >= 0 else _RESTED


def _from(files: LogFiles, uuid: str, last: int | None, stack: ExitStack) -> Iterator[bytes]:
    """The last rows, oldest first; files that are opened are the stack's to close. Blocking. Raises OSError."""
    opened = [file for _, file in _settled(_opened(files, uuid, stack))]
    ends = [_whole_end(file) for file in opened]
    starts = [0] * len(opened)
    if last is not None:
        for at in range(len(opened) - 1, -1, -1):
            starts[at], last = _back(opened[at], ends[at], last)
    return _rows(list(zip(opened, starts, ends, strict=True)))


def _opened(files: LogFiles, uuid: str, stack: ExitStack) -> list[tuple[Path, BinaryIO]]:
    """All files, oldest first, at one moment: none twice, none left out that was turned over meanwhile."""
    for attempt in range(_TRIES):
        with ExitStack() as trying:
            try:
                before = _listed(files, uuid)
                found: list[tuple[Path, BinaryIO]] = [
                    (path, trying.enter_context(path.open("rb"))) for path in reversed(files.of(uuid) or ())
                ]
                same = [os.fstat(file.fileno()).st_ino for _, file in found] == before == _listed(files, uuid)
            except FileNotFoundError:
                if attempt + 1 == _TRIES:
                    raise
                continue
            if same or attempt + 1 == _TRIES:
                stack.push(trying.pop_all())
                return found
    return []


def _listed(files: LogFiles, uuid: str) -> list[int]:
    return [path.stat().st_ino for path in reversed(files.of(uuid) or ())]


def _settled(opened: Sequence[tuple[Path, BinaryIO]]) -> Sequence[tuple[Path, BinaryIO]]:
    """Up to the first file of an attempt that may still be written to though there is a newer one."""
    for at, (path, file) in enumerate(opened[:-1]):
        newer = opened[at + 1][0]
        same = path.name.partition(".")[0] == newer.name.partition(".")[0]
        if same and _age(os.fstat(file.fileno()).st_mtime) < _RESTED:
            return opened[: at + 1]
    return opened


def _whole_end(file: BinaryIO) -> int:
    """Behind the last whole row: the engine may be writing the next one."""
    at = file.seek(0, os.SEEK_END)
    while at > 0:
        begin = max(0, at - _BLOCK)
        file.seek(begin)
        place = file.read(at - begin).rfind(b"\n")
        if place >= 0:
            return begin + place + 1
        at = begin
    return 0


def _back(file: BinaryIO, end: int, count: int) -> tuple[int, int]:
    """Where the last ``count`` rows of a file begin, and how many there are fewer."""
    if count <= 0:
        return end, 0
    at = end
    while at > 0:
        begin = max(0, at - _BLOCK)
        file.seek(begin)
        block = file.read(at - begin)
        # A line feed at the end closes the last row; each one before it begins a row behind it.
        place = len(block)
        while (place := block.rfind(b"\n", 0, place)) >= 0:
            if begin + place + 1 == end:
                continue
            count -= 1
            if not count:
                return begin + place + 1, 0
        at = begin
    return 0, count - (1 if end else 0)


def _rows(parts: Sequence[tuple[BinaryIO, int, int]]) -> Iterator[bytes]:
    """The rows of these parts of files."""
    for file, start, end in parts:
        file.seek(start)
        while start < end:
            row = file.readline()
            if not row:  # cut by somebody
                break
            start += len(row)
            yield row


def _batch(rows: Iterator[bytes]) -> list[LogRecord]:
    """The next records, some 256 KiB of them; none at the end. Blocking."""
    found, size = list[LogRecord](), 0
    for row in rows:
        found.append(_record(row))
        size += len(row)
        if size >= _BLOCK:
            break
    return found


def _record(row: bytes) -> LogRecord:
    """What is no row is given as it is: nothing is left out."""
    match = _ROW.fullmatch(row.removesuffix(b"\n"))
    if match is None:
        return LogRecord(0, "stdout", row.removesuffix(b"\n"), whole=True)
    when = moment(match[1]) or nanoseconds(match[1].decode("ascii", "replace")) or 0
    return LogRecord(when, match[2].decode(), match[4] or b"", match[3] == b"F")
