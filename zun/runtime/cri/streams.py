"""Interactive sessions with a member: a command in it, or its own streams, over the engine's streaming address.

The engine gives an address on this host that is good for one use, within a minute, and for this run of the engine only.
Its streams have names (Kubernetes' ``v4.channel.k8s.io``): of the input, of each output, of the terminal's size, and of
the status at the end.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import orjson

from zun.domain.errors import EngineUnreachable
from zun.runtime.cri.claims import Claim, Claims
from zun.runtime.cri.client import CriClient
from zun.runtime.cri.errors import conflict, unreachable
from zun.runtime.cri.spdy import PROTOCOL, Spdy
from zun.runtime.cri.task_execs import TaskExecs
from zun.runtime.cri.unread import UnreadInput
from zun.runtime.detach import DetachKeys
from zun.runtime.upgrade import Refused, upgrade
from zun.runtime.wire import Wire, WireClosed

_CHANNELS = "v4.channel.k8s.io"
_STATUS_LENGTH = 64 * 1024


class CriSession:
    """``zun.runtime.sessions.Session`` over CRI."""

    def __init__(
        self, spdy: Spdy, endpoint: str, streams: dict[str, int], claim: Claim | None, unread: UnreadInput
    ) -> None:
        self._spdy = spdy
        self._endpoint = endpoint
        self._streams = streams
        self._claim = claim
        self._unread = unread
        self._command = claim is not None
        self._status = bytearray()
        self._input_ended = "stdin" not in streams
        self._over = False
        self._turn = asyncio.Lock()  # input, sizes and answers to pings share the connection
        self.exit_code: int | None = None
        self.failure = ""
        self.detached = False
        self._keys = DetachKeys() if claim is None and "resize" in streams else None

    async def write(self, data: bytes) -> None:
        if self._keys is not None:
            data, typed = self._keys.pass_on(data)
            self.detached = self.detached or typed
        if not self._input_ended and data:
            self._unread.given(len(data))
            await self._send("stdin", data)
        if self.detached:
            await self._spdy.close()

    async def close_stdin(self) -> None:
        if not self._input_ended:
            self._input_ended = True
            await self._send("stdin", b"", last=True)

    async def resize(self, *, height: int, width: int) -> None:
        if "resize" in self._streams and not self._over:
            await self._send("resize", orjson.dumps({"Width": width, "Height": height}))

    async def end_command(self) -> None:
        if self._claim is not None and not self._over:
            await self._claim.kill()
            self._unread.killed()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        outputs = {self._streams[name] for name in ("stdout", "stderr") if name in self._streams}
        try:
            async with aclosing(self._spdy.received()) as pieces:
                async for piece in pieces:
                    if piece.stream in outputs and piece.data:
                        yield piece.data
                    elif piece.stream == self._streams["error"] and self._ends(piece.data, last=piece.last):
                        return
        except WireClosed as error:
            if self.detached:
                return
            raise unreachable(f"{self._endpoint} broke off the session: {error}") from error
        if not self.detached:
            raise unreachable(f"{self._endpoint} broke off the session")

    def _ends(self, data: bytes, *, last: bool) -> bool:
        """Has the engine told the end? It says so when all output was sent."""
        self._status += data
        if not last and len(self._status) < _STATUS_LENGTH:
            try:
                status = orjson.loads(self._status)
            except ValueError:
                return False
        else:
            status = orjson.loads(self._status) if self._status else {}
        if not status:
            return False
        self._over = True
        if self._command:  # of an attached container a success is told, whatever its end was
            self._take(status)
        return True

    def _take(self, status: dict[str, Any]) -> None:
        if status.get("status") == "Success":
            self.exit_code = 0
            return
        for cause in (status.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode":
                self.exit_code = int(cause["message"])
        if self.exit_code is None:
            self.failure = str(status.get("message") or "unknown")

    async def _send(self, name: str, data: bytes, *, last: bool = False) -> None:
        try:
            async with self._turn:
                await self._spdy.send(self._streams[name], data, last=last)
        except WireClosed as error:
            raise unreachable(f"{self._endpoint} has ended the session") from error


@asynccontextmanager
async def run(
    client: CriClient,
    claims: Claims,
    execs: TaskExecs,
    engine_id: str,
    pid: int,
    command: Sequence[str],
    *,
    tty: bool,
    stdin: bool,
) -> AsyncIterator[CriSession]:
    """A session with a command in a running container, whose first process is ``pid`` on this host. Leaving ends the
    session; the command sees the end of its input and goes on. Raises EngineNotFound, EngineConflict (it does not run),
    EngineUnreachable."""
    async with claims.starting(engine_id, pid, command, reading=stdin) as claim:
        asked = await client.call(
            "Exec", container_id=engine_id, cmd=list(command), tty=tty, stdin=stdin, stdout=True, stderr=not tty
        )
        unread = UnreadInput(execs, engine_id, claim.exec_id, tty=tty)
        async with _opened(client, asked.url, claim, unread, tty=tty, stdin=stdin) as session:
            yield session


@asynccontextmanager
async def attach(
    client: CriClient, execs: TaskExecs, engine_id: str, *, tty: bool, stdin: bool
) -> AsyncIterator[CriSession]:
    """A session with the container's own program, which has to have been made with such streams. What it wrote before
    is in its log. Leaving does not end it. Raises as ``run``."""
    asked = await client.call("Attach", container_id=engine_id, tty=tty, stdin=stdin, stdout=True, stderr=not tty)
    unread = UnreadInput(execs, engine_id, _own, tty=tty)
    async with _opened(client, asked.url, None, unread, tty=tty, stdin=stdin) as session:
        yield session


@asynccontextmanager
async def _opened(
    client: CriClient, url: str, claim: Claim | None, unread: UnreadInput, *, tty: bool, stdin: bool
) -> AsyncIterator[CriSession]:
    names = ["error", *(["stdin"] if stdin else []), "stdout", "resize" if tty else "stderr"]
    wire: Wire | None = None
    try:
        try:
            async with asyncio.timeout(client.deadline):
                wire = await _dial(url)
                address = urlsplit(url)
                channels = {"X-Stream-Protocol-Version": _CHANNELS}
                await upgrade(wire, address.path, host=address.netloc, protocol=PROTOCOL, headers=channels)
                spdy = Spdy(wire)
                streams = {name: await spdy.open(streamtype=name) for name in names}
                await spdy.taken(streams.values())
        except Refused as error:
            raise conflict(f"the engine refuses the session: {error}") from error
        except (WireClosed, OSError, TimeoutError) as error:
            raise _silent(client, error) from error
        if claim is not None:
            claim.begin()
        yield CriSession(spdy, client.endpoint, streams, claim, unread)
    finally:
        if wire is not None:
            await wire.close()
        await unread.close()


async def _own() -> str:
    """The container's own program has no id."""
    return ""


async def _dial(url: str) -> Wire:
    """The address was told by the engine's own socket, which is root's: its certificate, if any, is made by itself."""
    address = urlsplit(url)
    tls = None
    if address.scheme == "https":
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return await Wire.tcp(address.hostname or "", address.port or (443 if tls else 80), tls)


def _silent(client: CriClient, error: Exception) -> EngineUnreachable:
    return unreachable(f"the streams of {client.endpoint} cannot be reached: {error or type(error).__name__}")
