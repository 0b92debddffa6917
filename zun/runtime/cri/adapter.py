"""Capsules on containerd over CRI version 1. Runs in zun-compute; the node's agent is its only caller.

Every call has a deadline of its own. The engine runs on this host: its logs and control groups are ours to read.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from zun.domain.errors import EngineConflict, EngineNotFound
from zun.domain.observed import Observed
from zun.runtime.base import Event, ExecResult, ImageFacts, PullProgress, RegistryAuth, Stats
from zun.runtime.cri import commands, facts, leftovers, log_records, logs, stats, streams
from zun.runtime.cri.claims import Claims
from zun.runtime.cri.client import CriClient
from zun.runtime.cri.events import Events
from zun.runtime.cri.forgotten import Remains
from zun.runtime.cri.images import CriImages
from zun.runtime.cri.log_files import LogFiles
from zun.runtime.cri.log_turning import LogTurning
from zun.runtime.cri.members import Members
from zun.runtime.cri.missed import Missed
from zun.runtime.cri.ongoing import Ongoing
from zun.runtime.cri.sandboxes import Sandboxes
from zun.runtime.cri.task_execs import TaskExecs
from zun.runtime.log_records import Growth, LogRecord
from zun.runtime.pods import Forgotten, MemberSpec, PodsInfo, Sandbox, SandboxSpec
from zun.runtime.sessions import Session

_TURNED_MEANWHILE = 3
"""Tries to read log files that are turned over at the time."""


class CriPods:
    """``zun.runtime.pods.Pods`` over CRI v1."""

    name = "cri"

    def __init__(self, conf: Any) -> None:
        section = conf.cri
        self._client = CriClient(conf)
        self._task_execs = TaskExecs(self._client)
        self._claims = Claims(self._task_execs)
        self._log_files = LogFiles(Path(section.log_directory).absolute())
        # The plug-in answers when the sandbox's ports are active.
        plugging = float(conf.cni_daemon.vif_active_timeout)
        self._events = Events(self._client)
        self._ongoing = Ongoing()
        self._missed = Missed(self._client, self._ongoing)
        self._remains = Remains(self._client, Path(section.log_directory).absolute())
        self._sandboxes = Sandboxes(
            self._client,
            self._log_files,
            self._events,
            self._ongoing,
            self._remains,
            self._missed,
            section.cgroup_parent,
            plugging,
        )
        self._images = CriImages(self._client)
        self._members = Members(
            self._client,
            self._sandboxes,
            self._images,
            self._log_files,
            self._events,
            self._ongoing,
            self._missed,
        )
        self._turning = LogTurning(
            self._client, self._log_files, section.log_max_size * 1024 * 1024, section.log_max_files
        )

    async def connect(self) -> None:
        await self._client.connect()
        self._turning.begin()

    async def close(self) -> None:
        await self._turning.close()
        await self._ongoing.close()
        await self._client.close()

    async def info(self) -> PodsInfo:
        known = await self._client.meet()
        return PodsInfo(known.name, known.version, known.handlers, known.root)

    # -- sandboxes -------------------------------------------------------------------------------

    async def sandboxes(self) -> Sequence[Sandbox]:
        """Without addresses: ``sandbox`` tells those."""
        await self._events.opened()
        return await self._sandboxes.all()

    async def sandbox(self, uuid: str) -> Sandbox | None:
        return await self._sandboxes.find(uuid)

    async def run_sandbox(self, spec: SandboxSpec) -> Sandbox:
        return await self._sandboxes.run(spec)

    async def stop_sandbox(self, uuid: str) -> None:
        await self._sandboxes.stop(uuid)

    async def remove_sandbox(self, uuid: str) -> None:
        await self._sandboxes.remove(uuid)

    async def forgotten(self) -> Sequence[Forgotten]:
        return await self._remains.all()

    async def end_forgotten(self, one: Forgotten) -> bool:
        """With the control group and the logs of a capsule that has no other sandbox."""
        ended = await self._remains.end(one)
        if ended and one.capsule and await self._sandboxes.find(one.capsule) is None:
            await self._sandboxes.remove(one.capsule)
        return ended

    # -- members ---------------------------------------------------------------------------------

    async def list(self) -> Sequence[Observed]:
        """What is listed after a call of ``events`` is of after its begin: nothing is missed in between."""
        await self._events.opened()
        return await self._members.all()

    async def inspect(self, uuid: str) -> Observed | None:
        return await self._members.inspect(uuid)

    async def create(self, spec: MemberSpec) -> str:
        return await self._members.create(spec)

    async def start(self, uuid: str) -> None:
        await self._members.start(uuid)

    async def stop(self, uuid: str, timeout: int | None) -> None:
        await self._members.stop(uuid, timeout)

    async def remove(self, uuid: str, *, force: bool) -> None:
        """The logs stay until the sandbox is removed."""
        await self._members.remove(uuid, force=force)

    async def update(self, uuid: str, *, cpu_millicores: int | None, memory_mib: int | None, swap_mib: int) -> None:
        await self._members.update(uuid, cpu_millicores=cpu_millicores, memory_mib=memory_mib, swap_mib=swap_mib)

    async def logs(
        self, uuid: str, *, stdout: bool, stderr: bool, timestamps: bool, tail: int | None, since: float | None
    ) -> str:
        """Of the last ten attempts, also of those that are removed, at most the newest 1 MiB."""
        wanted = logs.Wanted(stdout, stderr, timestamps, tail, since)
        for attempt in range(_TURNED_MEANWHILE):
            files = await asyncio.to_thread(self._log_files.of, uuid)
            if files is None:
                await self._members.find(uuid)
                return ""
            try:
                return await asyncio.to_thread(logs.read, files, wanted)
            except FileNotFoundError:
                if attempt + 1 == _TURNED_MEANWHILE:
                    raise
        return ""

    async def log_records(self, uuid: str, last: int | None) -> AsyncGenerator[Sequence[LogRecord], None]:
        """Of the last ten attempts, also of those that are removed."""
        if await asyncio.to_thread(self._log_files.folder, uuid) is None:
            await self._members.find(uuid)
        async with aclosing(log_records.records(self._log_files, uuid, last)) as batches:
            async for batch in batches:
                yield batch

    def log_growth(self, uuid: str) -> AbstractAsyncContextManager[Growth]:
        return log_records.growth(self._log_files, uuid)

    async def execute(self, uuid: str, command: Sequence[str], timeout: float) -> ExecResult:
        row = await self._members.running(uuid)
        return await commands.execute(self._client, row.id, await self._pid(row), command, timeout)

    async def open_exec(self, uuid: str, command: Sequence[str], *, tty: bool, stdin: bool) -> str:
        """CRI knows no commands that do not run yet: the id is ours."""
        await self._members.running(uuid)
        return secrets.token_hex(32)

    @asynccontextmanager
    async def exec_session(
        self, uuid: str, exec_id: str, command: Sequence[str], *, tty: bool, stdin: bool
    ) -> AsyncIterator[Session]:
        row = await self._members.running(uuid)
        pid = await self._pid(row)
        made = streams.run(self._client, self._claims, self._task_execs, row.id, pid, command, tty=tty, stdin=stdin)
        async with made as session:
            yield session

    async def end_exec(self, uuid: str, exec_id: str, command: Sequence[str], began: datetime) -> None:
        try:
            row = await self._members.running(uuid)
            pid = await self._pid(row)
        except (EngineNotFound, EngineConflict):  # and all in it has ended
            return
        await leftovers.end(self._task_execs, row.id, pid, command, began)

    @asynccontextmanager
    async def attach_session(self, uuid: str, *, stdin: bool) -> AsyncIterator[Session]:
        row = await self._members.running(uuid)
        tty = facts.given_config(await self._members.status(row.id)).tty
        async with streams.attach(self._client, self._task_execs, row.id, tty=tty, stdin=stdin) as session:
            yield session

    async def resize(self, uuid: str, *, height: int, width: int) -> None:
        row = await self._members.running(uuid)
        if not await self._task_execs.resize(row.id, height=height, width=width):
            async with self.attach_session(uuid, stdin=False) as session:
                await session.resize(height=height, width=width)

    async def stats(self, uuid: str) -> Stats:
        row = await self._members.running(uuid)
        groups = await self._sandboxes.groups()
        limit = await asyncio.to_thread(groups.memory, row.labels.get(facts.CAPSULE_LABEL, ""))
        return await stats.sample(self._client, row, uuid, limit)

    def events(self) -> AsyncIterator[Event]:
        return self._events.follow()

    async def _pid(self, row: Any) -> int:
        """Of the member's first process on this host; 0: not known."""
        return int(facts.verbose(await self._members.status(row.id)).get("pid") or 0)

    # -- images ----------------------------------------------------------------------------------

    async def pull(
        self, reference: str, auth: RegistryAuth | None, progress: Callable[[PullProgress], None]
    ) -> ImageFacts:
        return await self._images.pull(reference, auth, progress)

    async def has_remote_image(self, reference: str, auth: RegistryAuth | None) -> bool:
        return await self._images.has_remote(reference, auth)

    async def image(self, reference: str) -> ImageFacts | None:
        return await self._images.find(reference)

    async def remove_image(self, reference: str) -> None:
        await self._images.remove(reference)
