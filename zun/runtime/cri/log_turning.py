"""Log files that grew too large are turned over: CRI engines write them and leave their size to their caller."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zun.domain.errors import EngineError
from zun.runtime.cri import facts
from zun.runtime.cri.client import CriClient
from zun.runtime.cri.log_files import LogFiles
from zun.runtime.docker_facts import UUID_LABEL

LOG = logging.getLogger(__name__)

_PAUSE = 10.0


class LogTurning:
    """Looks at the files of running members every few seconds. ``largest`` in bytes; of each attempt ``kept`` files."""

    def __init__(self, client: CriClient, files: LogFiles, largest: int, kept: int) -> None:
        self._client = client
        self._files = files
        self._largest = largest
        self._kept = kept
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """From now on, in a task; a second call does nothing."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="cri-logs")

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE)
            try:
                await self.turn()
            except EngineError as error:
                LOG.debug("action=logs_turn result=unknown reason=%s", error.text)
            except OSError as error:
                LOG.warning("action=logs_turn result=failed reason=%s", error)

    async def turn(self) -> int:
        """Turn over what is too large; returns how many files. Raises EngineError, OSError."""
        answer = await self._client.call("ListContainers", filter={"label_selector": {facts.PART_LABEL: facts.MEMBER}})
        running = [row for row in answer.containers if row.state == facts.RUNNING]
        due = await asyncio.to_thread(self._due, running)
        for row, path in due:
            await asyncio.to_thread(shift, path, self._kept)
            await self._client.call("ReopenContainerLog", container_id=row.id)
            LOG.info("action=logs_turn container=%s file=%s", row.labels.get(UUID_LABEL, ""), path.name)
        return len(due)

    def _due(self, rows: Sequence[Any]) -> Sequence[tuple[Any, Path]]:
        """Files too large; and those that are not there, because the engine did not hear that they were turned over."""
        found = []
        for row in rows:
            path = self._files.current(
                row.labels.get(facts.CAPSULE_LABEL, ""), row.labels.get(UUID_LABEL, ""), row.metadata.attempt
            )
            if not path.exists() or path.stat().st_size > self._largest:
                found.append((row, path))
        return found


def shift(path: Path, kept: int) -> None:
    """``0.log`` becomes ``0.log.1``, that becomes ``0.log.2`` …; ``kept`` files remain, with the new one. Raises
    OSError."""
    if not path.exists():
        return
    for number in range(max(kept - 1, 1), 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        newer = path.with_name(f"{path.name}.{number - 1}") if number > 1 else path
        with contextlib.suppress(FileNotFoundError):
            newer.replace(older)
