"""Which process is whose: the engine does not tell what it started for a session.

Sessions of one container start one after another, each until its process is seen, so that none takes another's. Where
a sandbox has a kernel of its own there is none on this host, and the shim's id of the command is looked for instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

import psutil

from zun.domain.errors import EngineError
from zun.runtime.cri.inside import kill_tree, roots
from zun.runtime.cri.task_execs import TaskExecs

LOG = logging.getLogger(__name__)

_SEEN_WITHIN = 2.0
"""Seconds that the engine has to start a command, once it was asked to."""
_SETTLES = 0.3
"""Seconds that what has entered the container has to become the command: it begins as the engine's own helper."""


@dataclass(frozen=True, slots=True)
class _Before:
    """What ran in the container when the session began: processes of this host, and ids of its shim; None: not told."""

    processes: frozenset[int]
    ids: frozenset[str] | None


class Claim:
    """The process of one session."""

    def __init__(
        self,
        engine_id: str,
        pid: int,
        command: Sequence[str],
        before: _Before,
        execs: TaskExecs,
        let_go: Callable[[], None],
        *,
        blind: bool,
        reading: bool,
    ) -> None:
        self._engine_id = engine_id
        self._pid = pid
        self._command = list(command)
        self._before = before
        self._execs = execs
        self._let_go = let_go
        self._blind = blind
        self._reading = reading
        self._process: psutil.Process | None = None
        self._exec_id: str | None = None
        self._search: asyncio.Task[None] | None = None
        self.settled = asyncio.Event()

    @property
    def found(self) -> bool:
        """Was its process seen on this host?"""
        return self._process is not None

    async def exec_id(self) -> str | None:
        """The shim's id of it, once it has begun; None: not known."""
        await self.settled.wait()
        return self._exec_id

    def begin(self) -> None:
        """The engine was asked."""
        self._search = asyncio.create_task(self._find(), name="cri-claim")

    async def kill(self) -> None:
        """The command and all below it. Never raises; what cannot be seen from this host is left, and told."""
        await self._known()
        if self._process is not None:
            killed = await asyncio.to_thread(kill_tree, self._process)
            LOG.info("action=exec_end container=%s pid=%d killed=%d", self._engine_id, self._process.pid, killed)
        elif self._exec_id is None:
            LOG.warning("action=exec_end container=%s result=left_running reason=process not seen", self._engine_id)
        else:
            await end_by_shim(self._execs, self._engine_id, self._exec_id)

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
                await self._look_for_id()
                if self._blind and self._exec_id is not None:
                    return
                strict = loop.time() < begun + _SETTLES
                self._process = await asyncio.to_thread(self._look, strict=strict)
                if self._process is not None:
                    await self._look_for_id()  # it may have begun since
                    return
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, 0.1)
        finally:
            self.settled.set()
            self._let_go()

    async def _look_for_id(self) -> None:
        """What the shim runs since, if it is one."""
        if self._before.ids is None or self._exec_id is not None:
            return
        with contextlib.suppress(EngineError):  # it is looked for again
            new = set(await self._execs.of(self._engine_id, reading=self._reading) or ()) - self._before.ids
            self._exec_id = new.pop() if len(new) == 1 else None

    def _look(self, *, strict: bool) -> psutil.Process | None:
        """What has entered the container since: the one that runs the command, or else the only one."""
        found = []
        for pid in roots(self._pid) - self._before.processes:
            with contextlib.suppress(psutil.Error):
                found.append(psutil.Process(pid))
        for one in found:
            with contextlib.suppress(psutil.Error):
                if one.cmdline() == self._command:
                    return one
        return found[0] if len(found) == 1 and not strict else None


class Claims:
    """Of all containers."""

    def __init__(self, execs: TaskExecs) -> None:
        self._execs = execs
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._blind: set[str] = set()
        """Containers whose commands were never seen on this host, as those of a sandbox with a kernel of its own."""
        self._seen: set[str] = set()

    @asynccontextmanager
    async def starting(
        self, engine_id: str, pid: int, command: Sequence[str], *, reading: bool
    ) -> AsyncIterator[Claim]:
        """To be entered before the engine is asked. ``reading``: the command is given input. The next session of the
        container waits until the process of this one is seen. Raises EngineUnreachable."""
        blind = engine_id in self._blind
        async with self._turn(engine_id, waits=not blind or await self._execs.of(engine_id) is not None) as let_go:
            ids = await self._execs.of(engine_id, reading=reading)
            before = _Before(await asyncio.to_thread(roots, pid), None if ids is None else frozenset(ids))
            claim = Claim(engine_id, pid, command, before, self._execs, let_go, blind=blind, reading=reading)
            try:
                yield claim
            finally:
                self._note(engine_id, claim)
                await claim.end()

    @asynccontextmanager
    async def _turn(self, engine_id: str, *, waits: bool) -> AsyncIterator[Callable[[], None]]:
        """Gives what is to be called when the next one may start."""
        turn = self._turns.setdefault(engine_id, asyncio.Lock())
        if not waits:
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


async def end_by_shim(execs: TaskExecs, engine_id: str, exec_id: str) -> None:
    """The command alone: what it has started there is its sandbox's. Never raises."""
    ended = await execs.end(engine_id, exec_id)
    level, result = (logging.INFO, "ended") if ended else (logging.WARNING, "left_running")
    LOG.log(level, "action=exec_end container=%s exec=%s result=%s", engine_id, exec_id, result)
