"""Sandboxes over CRI: made whole or not at all, found by label, removed with all they held."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from zun.domain.errors import EngineError, EngineNotFound, EngineUnreachable, SandboxFailed
from zun.runtime.cri import configs, facts
from zun.runtime.cri.client import CriClient
from zun.runtime.cri.errors import at_work, conflict, passes, runs_on, unreachable
from zun.runtime.cri.events import Events
from zun.runtime.cri.forgotten import Remains
from zun.runtime.cri.groups import Groups, Slices
from zun.runtime.cri.log_files import LogFiles
from zun.runtime.cri.missed import Missed
from zun.runtime.cri.ongoing import Ongoing
from zun.runtime.cri.turns import Turns
from zun.runtime.docker_facts import UUID_LABEL
from zun.runtime.fingerprint import spec_hash
from zun.runtime.pods import Sandbox, SandboxSpec

LOG = logging.getLogger(__name__)

_LATE_SECONDS = 60.0
"""How much longer than its caller waits a sandbox may take to be made, before the engine is told to stop it."""
_CALLED_OFF_SECONDS = 15.0
"""How long a caller that is cancelled waits for what it has asked for to be undone; that goes on afterwards."""
_PATIENCE_SECONDS = 20.0
"""After which a stop of what is to be killed at once hangs."""
_LONG_ENOUGH = 0.4


class _Making:
    """One ``run``. ``called_off``: nobody waits any more; what is made is removed."""

    def __init__(self, spec: SandboxSpec) -> None:
        self.spec = spec
        self.called_off = False


class Sandboxes:
    """All sandboxes with our label. ``plugging``: seconds the network plug-in may take for one."""

    def __init__(
        self,
        client: CriClient,
        logs: LogFiles,
        events: Events,
        ongoing: Ongoing,
        remains: Remains,
        missed: Missed,
        cgroup_parent: str,
        plugging: float,
    ) -> None:
        self._client = client
        self._logs = logs
        self._ongoing = ongoing
        self._remains = remains
        self._missed = missed
        self._events = events
        self._parent = cgroup_parent
        self._plugging = plugging
        self._turns = Turns()
        self._ghosts: dict[str, tuple[str, int]] = {}
        self._called_off: dict[str, asyncio.Task[Sandbox]] = {}

    async def groups(self, handler: str = "") -> Groups:
        """The control groups of sandboxes of this handler."""
        known = await self._client.connect()
        kind = Slices if (handler or known.default_handler) in known.systemd else Groups
        return kind(self._parent)

    async def all(self) -> Sequence[Sandbox]:
        rows = await self._rows({facts.PART_LABEL: facts.SANDBOX})
        missed = await self._missed.among([row.id for row in rows if row.state == facts.READY])
        found = map(facts.sandbox, rows)
        return [replace(one, ready=one.ready and one.sandbox_id not in missed) for one in found]

    async def find(self, uuid: str) -> Sandbox | None:
        """With addresses; the ready one first, else the youngest. Waits for the end of one that was called off."""
        await self._undone(uuid)
        return await self._first(await self._of(uuid))

    async def _first(self, rows: Sequence[Any]) -> Sandbox | None:
        """Of ``rows``, as ``_of`` tells them, the first that is still there."""
        for row in rows:
            try:
                answer = await self._client.call("PodSandboxStatus", pod_sandbox_id=row.id)
            except EngineNotFound:  # gone meanwhile
                continue
            found = facts.sandbox(answer.status)
            missed = await self._missed.among([row.id]) if found.ready else {}
            return replace(found, ready=found.ready and not missed)
        return None

    async def ready(self, uuid: str) -> Any | None:
        """The ready sandbox as CRI lists it."""
        return next((row for row in await self._of(uuid) if row.state == facts.READY), None)

    async def run(self, spec: SandboxSpec) -> Sandbox:
        """As the port says. Another owner's sandbox of that uuid is an EngineConflict and is not touched. The engine is
        let go on with what it makes though the caller is cancelled, or has waited for too long: then it is removed."""
        making = _Making(spec)
        task = self._ongoing.begin(self._in_turn(making), f"run-sandbox-{spec.uuid}")
        seconds = self._client.deadline + self._plugging
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(task)
        except TimeoutError as error:
            self._call_off(making, task)
            raise unreachable(f"{self._client.endpoint} did not answer within {seconds:g} seconds") from error
        except asyncio.CancelledError:
            self._call_off(making, task)
            await asyncio.wait({task}, timeout=_CALLED_OFF_SECONDS)
            raise

    def _call_off(self, making: _Making, task: asyncio.Task[Sandbox]) -> None:
        making.called_off = True
        if not task.done():
            self._called_off[making.spec.uuid] = task
            task.add_done_callback(partial(self._forget, making.spec.uuid))

    def _forget(self, uuid: str, task: asyncio.Task[Sandbox]) -> None:
        if self._called_off.get(uuid) is task:
            del self._called_off[uuid]

    async def _undone(self, uuid: str) -> None:
        task = self._called_off.get(uuid)
        if task is not None:
            await asyncio.wait({task})

    async def _in_turn(self, making: _Making) -> Sandbox:
        async with self._turns.take(making.spec.uuid):
            return await self._run(making)

    async def _run(self, making: _Making) -> Sandbox:
        spec = making.spec
        rows, trouble = await asyncio.gather(self._of(spec.uuid), self._network_trouble())
        for row in rows:
            found = facts.sandbox(row)
            if found.owner != spec.owner:
                raise conflict(f"the sandbox of {spec.uuid} belongs to '{found.owner or 'nobody known'}'")
        existing = await self._first(rows)
        if existing is not None and existing.ready and existing.spec_hash == spec_hash(spec):
            return existing
        if existing is not None:
            await self._remove(spec.uuid)
        if trouble:  # the engine would make half a sandbox, and could not remove it
            raise SandboxFailed(trouble)
        loop, pause, stumbled = asyncio.get_running_loop(), 0.05, False
        end = loop.time() + _LATE_SECONDS
        while True:
            try:
                return await self._whole(making)
            except SandboxFailed as error:
                if at_work(error.text) and loop.time() < end:  # on one it was told to stop making: keeps its name
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, 1.0)
                elif passes(error.text) and not stumbled:
                    stumbled = True
                else:
                    raise

    async def _whole(self, making: _Making) -> Sandbox:
        """Made, or nothing of it is there."""
        uuid = making.spec.uuid
        if making.called_off:
            raise asyncio.CancelledError
        try:
            made = await self._made(making.spec)
        except EngineUnreachable:
            if await self._client.answers():  # it was told to stop
                await self._leave_nothing(uuid)
            raise
        except EngineError as error:
            await self._leave_nothing(uuid)
            raise SandboxFailed(error.text) from error
        if making.called_off:
            LOG.info("action=sandbox_undo capsule=%s reason=called off while it was made", uuid)
            await self._leave_nothing(uuid)
        return made

    async def stop(self, uuid: str) -> None:
        for row in await self._of(uuid):
            await self._ended("StopPodSandbox", row)

    async def _ended(self, method: str, row: Any) -> None:
        """Stopped or removed, without grace. Where even what was missed is no reason for a call that hangs, its shim is
        killed, and all ends with it."""
        inside = (await self._client.call("ListContainers", filter={"pod_sandbox_id": row.id})).containers
        ids = [one.id for one in inside if one.state == facts.RUNNING]
        if row.state == facts.READY:
            ids.append(row.id)
        ending = self._missed.end(method, ids, extra=self._plugging, pod_sandbox_id=row.id)
        call = self._ongoing.begin(ending, f"{method}-{row.id[:12]}")
        done, _ = await asyncio.wait({call}, timeout=_PATIENCE_SECONDS)
        if not done and await self._client.answers():
            killed = await self._remains.kill(row.id)
            LOG.warning("action=%s sandbox=%s result=hangs shim_killed=%s", method, row.id, killed)
        await asyncio.shield(call)

    async def remove(self, uuid: str) -> None:
        async with self._turns.take(uuid):
            await self._remove(uuid)

    async def _remove(self, uuid: str) -> None:
        rows = await self._of(uuid)
        await self.stop(uuid)
        for row in rows:
            try:
                await self._ended("RemovePodSandbox", row)
            except EngineError as error:
                if not runs_on(error.text):
                    raise
            await self._razed(row)
        await self._remains.end_of(uuid, [row.id for row in rows])
        for handler in {row.runtime_handler for row in rows} or {""}:
            await self.remove_group(await self.groups(handler), uuid)
        await asyncio.to_thread(self._logs.remove, uuid)

    async def clear(self, member: str) -> None:
        """What an engine that was killed left of a member's start; the engine's record of it is gone."""
        await self._remains.end_bundle(member)

    async def _razed(self, row: Any) -> None:
        """CRI never removes a sandbox with a member whose end it has missed, nor that member: below it all goes."""
        if not await self._missed.has_record(row.id):
            return
        for one in (await self._client.call("ListContainers", filter={"pod_sandbox_id": row.id})).containers:
            await self._missed.drop(one.id)
        await self._missed.drop(row.id)

    async def _ghost(self, row: Any) -> bool:
        """Is it listed only, and was removed? From containerd 2 on no end is missed, and not each has a record."""
        if row.id not in self._ghosts:
            version = (await self._client.connect()).version
            if row.state == facts.READY or not version.startswith("1.") or await self._missed.has_record(row.id):
                return False
            self._ghosts[row.id] = (row.labels.get(UUID_LABEL, ""), row.metadata.attempt)
        return True

    async def remove_group(self, groups: Groups, capsule: str, member: str = "") -> None:
        """Once the last process is gone, which the engine does not always wait for. An engine that was killed at the
        wrong moment has forgotten what it had begun: that is ended here."""
        for pause in (0.02, 0.05, 0.1, 0.2, 0.4, 0.4, 0.4):
            if not await asyncio.to_thread(groups.remove, capsule, member):
                return
            if pause == _LONG_ENOUGH:
                killed = await asyncio.to_thread(groups.kill, capsule, member)
                LOG.warning("action=group_kill group=%s processes=%d", groups.of(capsule, member), killed)
            await asyncio.sleep(pause)
        LOG.warning("action=group_remove group=%s result=kept", groups.of(capsule, member))

    async def _made(self, spec: SandboxSpec) -> Sandbox:
        groups = await self.groups(spec.handler)
        folder = await asyncio.to_thread(self._prepare, spec, groups)
        taken = [attempt for uuid, attempt in self._ghosts.values() if uuid == spec.uuid]
        attempt = max(taken, default=-1) + 1
        config = configs.sandbox_config(spec, logs=folder, group=groups.of(spec.uuid), attempt=attempt)
        with self._events.making() as there:
            made = await self._client.call(
                "RunPodSandbox", extra=self._plugging + _LATE_SECONDS, config=config, runtime_handler=spec.handler
            )
            there(made.pod_sandbox_id)
        answer = await self._client.call("PodSandboxStatus", pod_sandbox_id=made.pod_sandbox_id)
        return facts.sandbox(answer.status)

    def _prepare(self, spec: SandboxSpec, groups: Groups) -> str:
        try:
            groups.ensure(spec.uuid, cpu_millicores=spec.cpu_millicores, memory_mib=spec.memory_mib)
        except OSError as error:
            raise SandboxFailed(f"its control group {groups.of(spec.uuid)} cannot be made: {error}") from error
        try:
            return self._logs.make(spec.uuid)
        except OSError as error:
            raise SandboxFailed(f"its folder of logs cannot be made: {error}") from error

    async def _network_trouble(self) -> str:
        """Why the engine has no network; empty when it has one."""
        known = await self._client.connect()
        return facts.network_trouble(await self._client.call("Status"), known)

    async def _leave_nothing(self, uuid: str) -> None:
        """A RunPodSandbox that failed can leave a sandbox that holds its name and address."""
        try:
            await self._remove(uuid)
        except EngineError as error:
            LOG.warning("action=sandbox_undo capsule=%s result=left reason=%s", uuid, error.text)

    async def _of(self, uuid: str) -> Sequence[Any]:
        rows = await self._rows({facts.PART_LABEL: facts.SANDBOX, UUID_LABEL: uuid})
        return sorted(rows, key=lambda row: (row.state != facts.READY, -row.created_at))

    async def _rows(self, labels: dict[str, str]) -> Sequence[Any]:
        answer = await self._client.call("ListPodSandbox", filter={"label_selector": labels})
        self._events.remember(answer.items)
        return [row for row in answer.items if not await self._ghost(row)]
