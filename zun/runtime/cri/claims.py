"""Which process on this host is whose: the engine does not tell what it started for a session.

Sessions of one container start one after another, each until its process is seen, so that none takes another's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import WeakValueDictionary

import psutil

from zun.runtime.cri.commands import alive, kill

LOG = logging.getLogger(__name__)

_SEEN_WITHIN = 2.0
"""Seconds that the engine has to start a command, once it was asked to."""
_SETTLES = 0.3
"""Seconds that what has entered the container has to become the command: it begins as the engine's own helper."""


class Claim:
    """The process of one session."""

    def __init__(
        self, engine_id: str, pid: int, command: Sequence[str], before: frozenset[int], let_go: Callable[[], None]
    ) -> None:
        self._engine_id = engine_id
        self._pid = pid
        self._command = list(command)
        self._before = before
        self._let_go = let_go
        self._process: psutil.Process | None = None
        self._search: asyncio.Task[None] | None = None
        self.settled = asyncio.Event()

    @property
    def found(self) -> bool:
        """Was its process seen?"""
        return self._process is not None

    def begin(self) -> None:
        """The engine was asked."""
        self._search = asyncio.create_task(self._find(), name="cri-claim")

    async def kill(self) -> None:
        """The command and all below it. Never raises; what cannot be seen from this host is left, and told."""
        await self._known()
        if self._process is None:
            LOG.warning("action=exec_end container=%s result=left_running reason=process not seen", self._engine_id)
            return
        killed = await asyncio.to_thread(_kill_tree, self._process)
        LOG.info("action=exec_end container=%s pid=%d killed=%d", self._engine_id, self._process.pid, killed)

    async def end(self) -> None:
        """No longer looked for."""
        if self._search is not None:
            self._search.cancel()
            await asyncio.gather(self._search, return_exceptions=True)

    async def _known(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SEEN_WITHIN):
                await self.settled.wait()

    async def _find(self) -> None:
        loop, pause = asyncio.get_running_loop(), 0.005
        begun = loop.time()
        try:
            while loop.time() < begun + _SEEN_WITHIN:
                strict = loop.time() < begun + _SETTLES
                self._process = await asyncio.to_thread(self._look, strict=strict)
                if self._process is not None:
                    return
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, 0.1)
        finally:
            self.settled.set()
            self._let_go()

    def _look(self, *, strict: bool) -> psutil.Process | None:
        """What has entered the container since: the one that runs the command, or else the only one."""
        found = []
        for pid in roots(self._pid) - self._before:
            with contextlib.suppress(psutil.Error):
                found.append(psutil.Process(pid))
        for one in found:
            with contextlib.suppress(psutil.Error):
                if one.cmdline() == self._command:
                    return one
        return found[0] if len(found) == 1 and not strict else None


class Claims:
    """Of all containers."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._blind: set[str] = set()
        """Containers whose commands were never seen on this host, as those of a sandbox with a kernel of its own."""
        self._seen: set[str] = set()

    @asynccontextmanager
    async def starting(self, engine_id: str, pid: int, command: Sequence[str]) -> AsyncIterator[Claim]:
        """To be entered before the engine is asked. The next session of the container waits until the process of this
        one is seen."""
        async with self._turn(engine_id) as let_go:
            claim = Claim(engine_id, pid, command, await asyncio.to_thread(roots, pid), let_go)
            try:
                yield claim
            finally:
                self._note(engine_id, claim)
                await claim.end()

    @asynccontextmanager
    async def _turn(self, engine_id: str) -> AsyncIterator[Callable[[], None]]:
        """Gives what is to be called when the next one may start."""
        turn = self._turns.setdefault(engine_id, asyncio.Lock())
        if engine_id in self._blind:
            yield lambda: None
            return
        await turn.acquire()
        held = [turn]

        def let_go() -> None:
            if held:
                held.pop().release()

        try:
            yield let_go
        finally:
            let_go()

    def _note(self, engine_id: str, claim: Claim) -> None:
        if claim.found:
            self._seen.add(engine_id)
            self._blind.discard(engine_id)
        elif claim.settled.is_set() and engine_id not in self._seen:
            self._blind.add(engine_id)

    def forget(self, engine_id: str) -> None:
        """The container is gone."""
        self._seen.discard(engine_id)
        self._blind.discard(engine_id)


def roots(pid: int) -> frozenset[int]:
    """All that the engine started in the container of ``pid`` beside its first process: what entered it from outside
    has a parent outside. Empty where processes cannot be seen."""
    if not pid:
        return frozenset()
    try:
        inside = os.stat(f"/proc/{pid}/ns/pid").st_ino
        shim = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return frozenset()
    found = set()
    for child in _children(shim):
        with contextlib.suppress(OSError):
            if child != pid and os.stat(f"/proc/{child}/ns/pid").st_ino == inside:
                found.add(child)
    return frozenset(found)


def _children(pid: int) -> set[int]:
    found: set[int] = set()
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found.update(map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split()))
    except OSError:
        return found
    return found


def _kill_tree(root: psutil.Process) -> int:
    """Those below it first seen, then all at once. A number that was given anew is not touched."""
    family = [root]
    with contextlib.suppress(psutil.Error):
        family += root.children(recursive=True)
    return kill([one for one in family if alive(one)])
