"""Logs of Docker containers: as text, record by record, and when they grow.

Records are read from the end, by their count: Docker's own filter by time drops what was written out of order, and its
follow loses records when files are turned over quickly (20.10). The stream that follows only tells when to look.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from zun.domain.errors import EngineError, EngineUnreachable
from zun.runtime.docker_client import DockerClient
from zun.runtime.docker_streams import KEPT, Tail, collect
from zun.runtime.log_records import Growth, LogRecord, moment

_HEADER = 8
_STREAMS = {1: "stdout", 2: "stderr"}
_STAMP = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{9}Z ")
_BLOCK = 256 * 1024
_FIRST_WORD = 0.25
"""Seconds in which the newest record has to come, of a log that has one."""
_UNFOLLOWED = 1.0


async def text(
    client: DockerClient,
    name: str,
    *,
    tty: bool,
    stdout: bool,
    stderr: bool,
    timestamps: bool,
    tail: int | None,
    since: float | None,
) -> str:
    """Both streams in the order they were written; at most the newest 1 MiB."""
    if not (stdout or stderr):
        return ""
    params = {"stdout": str(int(stdout)), "stderr": str(int(stderr)), "timestamps": str(int(timestamps))}
    # A line has a byte at least, so more lines than bytes kept need not be read.
    params["tail"] = str(max(0, min(tail, KEPT)) if tail is not None else KEPT)
    if since is not None:
        params["since"] = f"{since:.9f}"
    kept, limit = Tail(), client.deadline
    try:
        async with asyncio.timeout(limit), client.stream("GET", _path(name), params=params) as content:
            await collect(content.iter_any(), kept, framed=not tty)
    except TimeoutError as error:
        raise _silent(client) from error
    return kept.text()


async def records(
    client: DockerClient, name: str, last: int | None, *, tty: bool
) -> AsyncGenerator[Sequence[LogRecord], None]:
    """The newest ``last`` records (None: all), oldest first, some at a time. To be closed."""
    params = _params("all" if last is None else str(last))
    parser: Frames | Terminal = Terminal() if tty else Frames()
    async with client.stream("GET", _path(name), params=params) as content:
        while piece := await _next(client, content):
            for start in range(0, len(piece), _BLOCK):
                if found := parser.feed(piece[start : start + _BLOCK]):
                    yield found
        if found := parser.end():
            yield found


@asynccontextmanager
async def growth(client: DockerClient, name: str) -> AsyncIterator[Growth]:
    """See ``zun.runtime.base.Runtime.log_growth``. The newest record comes first: with it the engine follows."""
    async with client.stream("GET", _path(name), params={**_params("1"), "follow": "1"}) as content:
        await _some(content, _FIRST_WORD)
        told = False

        async def grown(seconds: float) -> None:
            nonlocal told
            if content.at_eof() and told:  # the engine follows no more: it is looked at now and then
                await asyncio.sleep(min(seconds, _UNFOLLOWED))
                return
            told = content.at_eof()
            await _some(content, seconds)

        yield grown


class Frames:
    """Of a container without a terminal: each frame is a record."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[LogRecord]:
        """The records that are whole by now."""
        rest, found, at = self._rest, list[LogRecord](), 0
        rest += data
        while len(rest) - at >= _HEADER:
            end = at + _HEADER + int.from_bytes(rest[at + 4 : at + 8], "big")
            if end > len(rest):
                break
            found.append(_record(_STREAMS.get(rest[at], "stdout"), bytes(rest[at + _HEADER : end])))
            at = end
        del rest[:at]
        return found

    def end(self) -> list[LogRecord]:
        """A frame that broke off is none."""
        return []


class Terminal:
    """Of a container with one: no frames. A record without a line feed is followed by the next one's time at once."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[LogRecord]:
        self._rest += data
        end = self._rest.rfind(b"\n") + 1
        if not end:
            return self._begun() if len(self._rest) > _BLOCK else []
        lines = bytes(self._rest[: end - 1]).split(b"\n")
        del self._rest[:end]
        return [record for line in lines for record in _split(line + b"\n")]

    def _begun(self) -> list[LogRecord]:
        """Without any line feed: all but the newest record."""
        starts = [match.start() for match in _STAMP.finditer(self._rest, 31)]
        if not starts:
            return []
        taken = bytes(self._rest[: starts[-1]])
        del self._rest[: starts[-1]]
        return list(_split(taken))

    def end(self) -> list[LogRecord]:
        return list(_split(bytes(self._rest))) if self._rest else []


def _split(line: bytes) -> Sequence[LogRecord]:
    """A time within a line begins a record when it is not before the line's own: what a program writes itself was
    before Docker took it."""
    starts, own = [0], line[:31]
    starts += [match.start() for match in _STAMP.finditer(line, 31) if match[0] >= own]
    ends = [*starts[1:], len(line)]
    return [_record("stdout", line[start:end]) for start, end in zip(starts, ends, strict=True)]


def _record(stream: str, payload: bytes) -> LogRecord:
    when = moment(payload[:30])
    whole = payload.endswith(b"\n")
    text = payload[:-1] if whole else payload
    return LogRecord(0, stream, text, whole) if when is None else LogRecord(when, stream, text[31:], whole)


async def _next(client: DockerClient, content: aiohttp.StreamReader) -> bytes:
    try:
        async with asyncio.timeout(client.deadline):
            return await content.readany()
    except TimeoutError as error:
        raise _silent(client) from error


async def _some(content: aiohttp.StreamReader, seconds: float) -> None:
    """Whatever comes within ``seconds``; the end of the stream, too."""
    try:
        async with asyncio.timeout(seconds):
            await content.readany()
    except TimeoutError:
        return


def _silent(client: DockerClient) -> EngineError:
    return EngineUnreachable(f"{client.endpoint} gave no log within {client.deadline:g} seconds")


def _path(name: str) -> str:
    return f"containers/{name}/logs"


def _params(tail: str) -> Mapping[str, Any]:
    return {"stdout": "1", "stderr": "1", "timestamps": "1", "tail": tail}
