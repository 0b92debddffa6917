"""Route of a container's log that is followed: what it has, and then each line as it is written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import Any

from zun.api.call import Answer, Call, Events
from zun.api.event_stream import Lease, frame, keep_alive, opening
from zun.api.table import Route
from zun.api.v1.container_find import find
from zun.api.v1.models import container_operations as models
from zun.control.containers_lookup import again
from zun.control.log_streams import Begin, Follower, ended
from zun.domain import log_place
from zun.domain.awaited import Seen
from zun.domain.container import Container
from zun.domain.errors import ContainerHostNotUp, ContainerNotFound, InvalidValue, Unavailable, ZunError
from zun.domain.lifecycle import require

LOG = logging.getLogger(__name__)

_PAUSE = 1.0
"""Seconds until a node that does not answer is asked again."""
_PATIENCE = 1.0
"""Seconds beyond its wait in which the node's answer is expected; then the silence is broken meanwhile."""
_LAST = 1.0
"""Seconds that are waited for more of a container that has ended."""
_GATHER = 0.1
"""Seconds between two questions, so that a program that writes line by line does not make one of each line."""
_UNCHANGED = 5.0
"""Seconds until an ended container is looked at again though its record says nothing new."""


async def follow(call: Call) -> Answer:
    """From the begin that the parameters say, or behind ``Last-Event-ID``; then in whatever status it is."""
    args: models.Logs = call.args
    row = await find(call, "container:logs", members=True)
    streams = tuple(name for name in ("stdout", "stderr") if getattr(args, name))
    if not streams:
        raise InvalidValue("One of stdout and stderr has to be followed.")
    after = (call.headers.get("Last-Event-ID") or "").strip() or None
    if after is None:
        require("logs", row.uuid, row.status)
    else:
        log_place.parse(after)
    stack = AsyncExitStack()
    stack.enter_context(call.control.log_places.place())
    follower = Follower(call.control, call.caller, Begin(streams, after, args.tail, args.since))
    return Answer(Events(_Stream(call, row, follower, timestamps=args.timestamps).pieces(), stack))


class _Stream:
    def __init__(self, call: Call, row: Container, follower: Follower, *, timestamps: bool) -> None:
        self._call = call
        self._row = row
        self._follower = follower
        self._timestamps = timestamps
        self._lease = Lease(call)
        self._silence: float = call.control.conf.api.stream_keepalive
        self._loop = asyncio.get_running_loop()
        self._told = self._loop.time()
        self._waiting = False
        """Was it told that the node does not answer?"""
        self._asking: asyncio.Task[Mapping[str, Any]] | None = None

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        try:
            yield opening(self._follower.place)
            async with aclosing(self._told_pieces()) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            await self._give_up()

    async def _told_pieces(self) -> AsyncGenerator[bytes, None]:
        while True:
            piece, failed = await self._ask()
            if text := self._frames(piece, failed):
                self._told = self._loop.time()
                yield text
            elif self._loop.time() - self._told >= self._silence and self._lease.wait(1) > 0:
                self._told = self._loop.time()
                yield keep_alive(self._follower.place)
            if end := await self._end(piece, failed):
                yield frame("end", end)
                return

    async def _ask(self) -> tuple[Mapping[str, Any] | None, ZunError | None]:
        """The next piece, or why there is none; neither when the record or this process has news, or the answer takes
        long: it is waited for again then. A call that is given up loses nothing: what is taken moves the place."""
        over = ended(self._row)
        seconds = self._lease.wait(_LAST if over else max(0.0, self._told + self._silence - self._loop.time()))
        if self._asking is None:
            self._asking = asyncio.create_task(self._follower.next(self._row, seconds), name="log-piece")
        news: list[asyncio.Task[Any]] = [asyncio.create_task(self._call.stopping.wait())]
        if not over:
            news.append(asyncio.create_task(self._call.waits.wait(self._row.uuid, ended, seconds + 60)))
        try:
            done, _ = await asyncio.wait(
                {self._asking, *news}, timeout=seconds + _PATIENCE, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            await _cancelled(*news)
        if not self._asking.done():
            if done:
                await self._give_up()
            return None, None
        asked, self._asking = self._asking, None
        try:
            piece = asked.result()
        except ZunError as error:
            return None, error
        self._follower.take(piece)
        return piece, None

    async def _give_up(self) -> None:
        asked, self._asking = self._asking, None
        if asked is not None:
            await _cancelled(asked)

    def _frames(self, piece: Mapping[str, Any] | None, failed: ZunError | None) -> bytes:
        if failed is not None:
            told, self._waiting = self._waiting, True
            return b"" if told else frame("waiting", {"reason": "The container's node does not answer."})
        if piece is None:
            return b""
        self._waiting = False
        lost = frame("lost", {"after": piece["after"]}) if piece["lost"] else b""
        return lost + b"".join(frame("log", self._shown(*record), record[0]) for record in piece["records"])

    def _shown(self, place: str, stream: str, line: str, whole: bool, raw: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {"stream": stream, "line": line}
        if self._timestamps:
            found["time"] = log_place.stamp(log_place.parse(place).when)
        if not whole:
            found["partial"] = True
        if raw is not None:
            found["base64"] = raw
        return found

    async def _end(self, piece: Mapping[str, Any] | None, failed: ZunError | None) -> dict[str, Any] | None:
        """Why the stream ends now; None: it goes on, after a pause where the node has nothing to wait for."""
        if self._call.stopping.is_set():
            return {"reason": "shutdown"}
        if reason := await self._lease.ended():
            return {"reason": reason}
        if piece is not None and piece["busy"]:
            await self._until_the_record_changes(_PAUSE)
            return None
        if piece is not None and (piece["records"] or piece["more"] or not piece["over"]):
            if piece["records"] and not piece["more"]:
                await asyncio.sleep(_GATHER)
            return None
        try:
            self._row = await again(self._call.control, self._row.uuid)
        except ContainerNotFound:
            return {"reason": "deleted"}
        except Unavailable:
            return {"reason": "unavailable"}
        if failed is not None:
            return await self._failed(failed)
        if piece is not None and ended(self._row):
            return self._stopped(piece.get("exit_code"))
        if piece is not None:
            await self._until_the_record_changes()
        return None

    async def _failed(self, error: ZunError) -> dict[str, Any] | None:
        if self._row.host is None and ended(self._row):
            return self._stopped(None)
        if self._row.host is not None and not isinstance(error, Unavailable | ContainerHostNotUp):
            LOG.warning("action=log_stream container=%s result=failed reason=%s", self._row.uuid, error.message)
            return {"reason": "unavailable"}
        await self._until_the_record_changes(_PAUSE)
        return None

    def _stopped(self, exit_code: int | None) -> dict[str, Any]:
        row = self._row
        return {
            "reason": "stopped",
            "status": row.status,
            "status_reason": row.status_reason,
            "exit_code": exit_code,
        }

    async def _until_the_record_changes(self, seconds: float = _UNCHANGED) -> None:
        now = _state(self._row)
        await self._call.waits.wait(
            self._row.uuid, lambda seen: seen is None or _state(seen) != now, self._lease.wait(seconds)
        )


async def _cancelled(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _state(row: Container | Seen) -> tuple[object, ...]:
    return (row.status, row.task_state, row.restart_at)


ROUTES: list[Route] = [
    Route(
        "GET", "/containers/{container_ident}/logs/stream", "container.follow_logs", follow, model=models.Logs,
        raises=(404, 409), events=True, headers=("Last-Event-ID",),
        summary="The log, and then what is written, as server-sent events",
    )
]  # fmt: skip
