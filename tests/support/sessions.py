"""Interactive sessions under one contract: a container or a member with an open session, on any engine."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psutil

from tests.support.pods import PodsBench
from tests.support.runtimes import Bench
from zun.runtime.base import Runtime
from zun.runtime.pods import Pods
from zun.runtime.sessions import Session

LIMIT = 60.0
"""Longest wait for output, seconds."""


class SessionsBench:
    """``port``: the engine behind; ``real``: with processes on this host."""

    def __init__(self, bench: Bench | PodsBench, *, real: bool) -> None:
        self.bench = bench
        self.real = real
        self.port: Runtime | Pods = bench.runtime if isinstance(bench, Bench) else bench.pods

    async def running(self, *command: str, **fields: Any) -> str:
        """A running container; ``tty`` and ``stdin`` are its own."""
        if isinstance(self.bench, Bench):
            return await self.bench.running(**({"command": command} if command else {}), **fields)
        return await self.bench.running(await self.bench.capsule(), *command, **fields)

    @asynccontextmanager
    async def exec(self, uuid: str, *command: str, tty: bool = False, stdin: bool = True) -> AsyncIterator[Session]:
        exec_id = await self.port.open_exec(uuid, command, tty=tty, stdin=stdin)
        assert len(exec_id) == 64
        async with self.port.exec_session(uuid, exec_id, command, tty=tty, stdin=stdin) as session:
            yield session


class Screen:
    """What a session shows, read in pieces."""

    def __init__(self, session: Session) -> None:
        self._pieces = aiter(session)
        self.shown = b""

    async def until(self, text: bytes) -> bytes:
        """Output up to and with ``text``; what follows is kept for the next call."""
        async with asyncio.timeout(LIMIT):
            while text not in self.shown:
                piece = await anext(self._pieces, None)
                assert piece is not None, f"the session ended without {text!r}: {self.shown!r}"
                self.shown += piece
        found, mark, self.shown = self.shown.partition(text)
        return found + mark

    async def rest(self) -> bytes:
        """Output to the end."""
        async with asyncio.timeout(LIMIT):
            async for piece in self._pieces:
                self.shown += piece
        found, self.shown = self.shown, b""
        return found


def noise(size: int, seed: int = 7) -> bytes:
    """Random bytes, the same for the same seed."""
    return random.Random(seed).randbytes(size)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def long_sleep() -> list[str]:
    """A command that no test beside this one runs, so that its process is told from theirs."""
    return ["sleep", str(random.SystemRandom().randrange(100_000, 10_000_000))]


def processes(command: Sequence[str]) -> list[psutil.Process]:
    """Living ones on this host whose last words are ``command``."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cmdline()[-len(command) :] == list(command) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found
