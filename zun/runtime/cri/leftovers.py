"""Commands of sessions whose agent was killed, found again by where, what and when: CRI knows no more of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from datetime import UTC, datetime

import psutil

from zun.runtime.cri.claims import end_by_shim
from zun.runtime.cri.inside import kill_tree, roots
from zun.runtime.cri.task_execs import TaskExecs

LOG = logging.getLogger(__name__)

_EARLIER, _LATER = 2.0, 30.0
"""Seconds about the session's begin in which its command did: clocks are coarse, and sessions wait for one another."""


async def end(execs: TaskExecs, engine_id: str, pid: int, command: Sequence[str], began: datetime) -> None:
    """In a running container whose first process is ``pid``. Raises EngineUnreachable."""
    since = began.replace(tzinfo=UTC).timestamp()
    found = await asyncio.to_thread(_find, pid, list(command), since)
    if found is not None:
        killed = await asyncio.to_thread(kill_tree, found)
        LOG.info("action=exec_end container=%s pid=%d killed=%d reason=agent_killed", engine_id, found.pid, killed)
        return
    if await asyncio.to_thread(roots, pid):
        return
    for ident, when in (await execs.of(engine_id) or {}).items():
        if since - _EARLIER < when < since + _LATER:
            await end_by_shim(execs, engine_id, ident)


def _find(pid: int, command: list[str], since: float) -> psutil.Process | None:
    """The one that runs the command, or else the only one of that time."""
    found = []
    for one in roots(pid):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(one)
            if since - _EARLIER < process.create_time() < since + _LATER:
                found.append(process)
    for process in found:
        with contextlib.suppress(psutil.Error):
            if process.cmdline() == command:
                return process
    return found[0] if len(found) == 1 else None
