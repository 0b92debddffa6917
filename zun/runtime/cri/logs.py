"""Log files as CRI engines write them, to the text that ``logs`` gives.

A line of a file is ``<time> <stdout|stderr> <P|F> <text>``: P tells that the line goes on in the next piece of its
stream (the engine cuts at 16 KiB), and so is a last line without its end. Read from the end: a file may be large, an
answer is not.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from zun.domain.log_place import stamp
from zun.runtime.docker_streams import KEPT, Tail

_ROW = re.compile(rb"(\S+) (stdout|stderr) ([FP])(?::\S*)?(?: (.*))?", re.DOTALL)
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))")
_FIRST_WINDOW = 256 * 1024
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output; ``when`` in nanoseconds since 1970, ``data`` with its line feed if it has one."""

    when: int
    stream: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines: ``tail`` counts them from the end (None: all), ``since`` in seconds since 1970."""

    stdout: bool = True
    stderr: bool = True
    timestamps: bool = False
    tail: int | None = None
    since: float | None = None


def read(files: Sequence[Path], wanted: Wanted) -> str:
    """The newest lines that are wanted, at most 1 MiB of them, oldest first. ``files``: newest first; those of one
    attempt are one stream. Blocking. Raises OSError, FileNotFoundError when a file was turned over meanwhile."""
    if wanted.tail is not None and wanted.tail <= 0:
        return ""
    with ExitStack() as stack:
        opened = [(_attempt(path), stack.enter_context(path.open("rb"))) for path in files]
        sizes = [file.seek(0, 2) for _, file in opened]
        window, total = _FIRST_WINDOW, sum(sizes)
        while True:
            whole = window >= total
            lines = list(parsed(_rows(opened, sizes, window)))
            if not whole:
                lines = _without_first(lines)
            if whole or _enough(lines, wanted):
                return _text(lines, wanted)
            window *= 4


def parsed(attempts: Iterable[Iterable[bytes]]) -> Iterator[Line]:
    """Whole lines out of the rows of each attempt; what is no row (it is being written) is left out."""
    for rows in attempts:
        open_lines: dict[str, tuple[int, list[bytes]]] = {}
        for row in rows:
            match = _ROW.fullmatch(row.rstrip(b"\n"))
            when = nanoseconds(match[1].decode("ascii", "replace")) if match else None
            if match is None or when is None or not row.endswith(b"\n"):
                continue
            stream, text = match[2].decode(), match[4] or b""
            begun, pieces = open_lines.pop(stream, (when, []))
            pieces.append(text)
            if match[3] == b"P":
                open_lines[stream] = (begun, pieces)
            else:
                yield Line(begun, stream, b"".join(pieces) + b"\n")
        for stream, (begun, pieces) in open_lines.items():
            yield Line(begun, stream, b"".join(pieces))


def nanoseconds(text: str) -> int | None:
    """RFC 3339, with up to nine digits -> nanoseconds since 1970; None for what is no time."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    try:
        seconds = calendar.timegm(time.strptime(match[1], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None
    if match[3]:
        offset = int(match[4]) * 3600 + int(match[5]) * 60
        seconds -= offset if match[3] == "+" else -offset
    return seconds * _SECOND + int((match[2] or "0").ljust(9, "0"))


def _attempt(path: Path) -> str:
    return path.name.partition(".")[0]


def _rows(opened: Sequence[tuple[str, BinaryIO]], sizes: Sequence[int], window: int) -> Iterator[Iterator[bytes]]:
    """Rows within the last ``window`` bytes of all files, by attempt, oldest first, without a first one that is cut."""
    parts: list[tuple[str, BinaryIO, int]] = []
    for (attempt, file), size in zip(opened, sizes, strict=True):
        taken = min(size, window)
        parts.insert(0, (attempt, file, size - taken))
        window -= taken
        if not window:
            break
    attempts: dict[str, list[tuple[BinaryIO, int]]] = {}
    for attempt, file, start in parts:
        attempts.setdefault(attempt, []).append((file, start))
    for files in attempts.values():
        yield _lines_of(files)


def _lines_of(files: Sequence[tuple[BinaryIO, int]]) -> Iterator[bytes]:
    for file, start in files:
        file.seek(start)
        if start:
            file.readline()
        yield from file


def _without_first(lines: Sequence[Line]) -> list[Line]:
    """Without the first line of each stream: its begin may be before the window."""
    seen: set[str] = set()
    kept = []
    for line in lines:
        if line.stream in seen:
            kept.append(line)
        seen.add(line.stream)
    return kept


def _chosen(lines: Iterable[Line], wanted: Wanted) -> Iterator[Line]:
    streams = {name for name, asked in (("stdout", wanted.stdout), ("stderr", wanted.stderr)) if asked}
    since = 0 if wanted.since is None else int(wanted.since * _SECOND)
    return (line for line in lines if line.stream in streams and line.when >= since)


def _enough(lines: Sequence[Line], wanted: Wanted) -> bool:
    if wanted.since is not None and lines and lines[0].when < int(wanted.since * _SECOND):
        return True
    chosen = list(_chosen(lines, wanted))
    if wanted.tail is not None and len(chosen) >= wanted.tail:
        return True
    return sum(len(line.data) for line in chosen) >= KEPT


def _text(lines: Sequence[Line], wanted: Wanted) -> str:
    chosen = list(_chosen(lines, wanted))
    if wanted.tail is not None:
        chosen = chosen[-wanted.tail :]
    kept = Tail()
    for line in chosen:
        kept.add(f"{stamp(line.when)} ".encode() + line.data if wanted.timestamps else line.data)
    return kept.text()
