"""Input that a program has not read when it ended.

containerd tells the end of a session when its own copy of the input is taken; the shim, which takes it, holds both ends
of the pipe in which the rest of it stands (containerd 1.6). So nobody ever takes it: it is taken here, and thrown away.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from zun.domain.errors import EngineError
from zun.runtime.cri.task_execs import Pipes, TaskExecs

LOG = logging.getLogger(__name__)

_PIPE = 64 * 1024
"""Bytes that a pipe holds. Who was given less waits for nobody."""
_AT_ONCE = 16
_LETS_GO = 5.0
"""Seconds that the engine has to end a session whose program is over."""
_PAUSES = (0.05, 1.0)
"""The first one and the longest, seconds."""


class UnreadInput:
    """Of one session. ``exec_id`` tells the shim's id of its command: empty for the container's own program, None when
    it is not known."""

    def __init__(
        self, execs: TaskExecs, engine_id: str, exec_id: Callable[[], Awaitable[str | None]], *, tty: bool
    ) -> None:
        self._execs = execs
        self._engine_id = engine_id
        self._exec_id = exec_id
        self._tty = tty
        self._given = 0
        self._over = False
        self._task: asyncio.Task[None] | None = None

    def given(self, size: int) -> None:
        """So many bytes more are about to be."""
        self._given += size
        if self._task is None and self._given >= _PIPE:
            self._task = asyncio.create_task(self._take(), name="cri-unread-input")

    def killed(self) -> None:
        """The command was, and will have ended in a moment."""
        self._over = True

    async def close(self) -> None:
        """The session is closed. Where its program is over, the engine is waited for, which otherwise would keep what
        it has of the session."""
        if self._task is None:
            return
        try:
            if self._over:
                await asyncio.wait({self._task}, timeout=_LETS_GO)
        finally:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _take(self) -> None:
        exec_id = await self._exec_id()
        if exec_id is None:
            return
        pause, longest = _PAUSES
        try:
            if await self._pipes(exec_id) is None:
                return
            await self._execs.ended(self._engine_id, exec_id)
            self._over = True
            while (pipes := await self._pipes(exec_id)) is not None:
                if await asyncio.to_thread(_taken, pipes):
                    return
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, longest)
        except (EngineError, OSError) as error:  # the engine went, and its sessions with it
            LOG.info("action=unread_input container=%s exec=%s result=left reason=%s", self._engine_id, exec_id, error)

    async def _pipes(self, exec_id: str) -> Pipes | None:
        return await self._execs.pipes(self._engine_id, exec_id, tty=self._tty)


def _taken(pipes: Pipes) -> bool:
    """Is nobody there any more who gives? Nothing is taken while somebody may still show something: what the program
    has started may read on."""
    if any(_is_read(one) for one in pipes.shown):
        return False
    with contextlib.suppress(FileNotFoundError):
        reader = os.open(pipes.given, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return not all(os.read(reader, _PIPE) for _ in range(_AT_ONCE))
        except BlockingIOError:
            return False
        finally:
            os.close(reader)
    return True


def _is_read(pipe: Path) -> bool:
    """The engine reads what is shown to its end."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return False
        raise
    return True
