"""Members over CRI: the containers of capsules, each attempt one of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zun.domain.errors import EngineError, EngineNotFound, EngineUnreachable, StartFailed
from zun.domain.observed import HostMount, Observed
from zun.runtime.cri import configs, facts
from zun.runtime.cri.client import CriClient
from zun.runtime.cri.errors import ENGINE, absent, conflict, failed, passes
from zun.runtime.cri.events import Events
from zun.runtime.cri.groups import Groups
from zun.runtime.cri.images import CriImages
from zun.runtime.cri.log_files import LogFiles
from zun.runtime.cri.missed import PATIENCE, Missed, as_ended
from zun.runtime.cri.ongoing import Ongoing
from zun.runtime.cri.sandboxes import Sandboxes
from zun.runtime.cri.turns import Turns
from zun.runtime.docker_facts import UUID_LABEL
from zun.runtime.fingerprint import spec_hash
from zun.runtime.pods import MemberSpec

_GRACE = 10
_HALF_STARTED = re.compile(
    r"task \S+: already exists|failed to start io pipe copy: .*no such file|start shim: mkdir .*: file exists"
)
_LIVE = frozenset({facts.RUNNING})


class Members:
    """All containers with our label."""

    def __init__(
        self,
        client: CriClient,
        sandboxes: Sandboxes,
        images: CriImages,
        logs: LogFiles,
        events: Events,
        ongoing: Ongoing,
        missed: Missed,
    ) -> None:
        self._client = client
        self._sandboxes = sandboxes
        self._images = images
        self._logs = logs
        self._events = events
        self._ongoing = ongoing
        self._missed = missed
        self._turns = Turns()

    async def all(self) -> Sequence[Observed]:
        rows = facts.newest(await self._rows({facts.PART_LABEL: facts.MEMBER}))
        missed = await self._missed.among(_running(rows))
        found = map(facts.listed, rows)
        return [as_ended(one, missed[one.engine_id]) if one.engine_id in missed else one for one in found]

    async def find(self, uuid: str) -> Any:
        """The newest attempt's row. Raises EngineNotFound."""
        rows = await self._of(uuid)
        if not rows:
            raise absent(f"No such container: {uuid}")
        return rows[0]

    async def running(self, uuid: str) -> Any:
        """The newest attempt's row. Raises EngineNotFound, EngineConflict when it does not run."""
        row = await self.find(uuid)
        if row.state not in _LIVE:
            raise conflict(f"Container {uuid} is not running")
        return row

    async def inspect(self, uuid: str) -> Observed | None:
        for row in await self._of(uuid):
            looking = asyncio.gather(self.status(row.id), self._missed.among(_running([row])))
            try:
                answer, missed = await looking
            except EngineNotFound:  # gone meanwhile
                continue
            found = facts.observed(answer, await self._images.config(answer.status.image_ref))
            if answer.status.state != facts.RUNNING:
                return found
            if row.state != facts.RUNNING:  # started since it was listed
                missed = await self._missed.among([row.id])
            return as_ended(found, missed[row.id]) if row.id in missed else found
        return None

    async def status(self, engine_id: str) -> Any:
        """Verbose. Raises EngineNotFound."""
        return await self._client.call("ContainerStatus", container_id=engine_id, verbose=True)

    async def create(self, spec: MemberSpec) -> str:
        """As the port says; another owner's container of that uuid is an EngineConflict and is not touched."""
        return await self._ongoing.to_its_end(self._create(spec), f"create-{spec.uuid}")

    async def _create(self, spec: MemberSpec) -> str:
        async with self._turns.take(spec.uuid):
            return await self._create_in_turn(spec)

    async def _create_in_turn(self, spec: MemberSpec) -> str:
        sandbox, former = await asyncio.gather(self._sandboxes.ready(spec.capsule_uuid), self._of(spec.uuid))
        if sandbox is None:
            raise absent(f"capsule {spec.capsule_uuid} has no sandbox that is ready")
        for row in former:
            found = facts.listed(row)
            if found.owner != spec.owner:
                raise conflict(f"container {spec.uuid} belongs to '{found.owner or 'nobody known'}'")
            same = found.spec_hash == spec_hash(spec) and row.pod_sandbox_id == sandbox.id
            if same and (row.state != facts.RUNNING or await self._missed.has_record(row.id)):
                return found.engine_id
        if former:  # what was not there in this turn nobody else makes
            await self._remove(spec.uuid, force=True)
            former = await self._of(spec.uuid)
        return await self._made(spec, sandbox, ghosts=len(former))

    async def start(self, uuid: str) -> None:
        """As the port says. CRI starts a container once: one that has ended is an EngineConflict, and its next attempt
        is another container."""
        await self._ongoing.to_its_end(self._start(uuid), f"start-{uuid}")

    async def _start(self, uuid: str) -> None:
        async with self._turns.take(uuid):
            await self._start_in_turn(uuid)

    async def _start_in_turn(self, uuid: str) -> None:
        row = await self.find(uuid)
        if row.state == facts.RUNNING:
            return
        if row.state != facts.CREATED and not await self._never_begun(row):
            raise conflict(f"Container {uuid} has ended; a new attempt has to be made")
        try:
            await self._begin(row)
        except (EngineNotFound, EngineUnreachable):
            raise
        except EngineError as error:
            if (await self._settled(uuid)).state == facts.RUNNING:  # by a call that was given up
                return
            raise StartFailed(error.text, engine=ENGINE) from error

    async def stop(self, uuid: str, timeout: int | None) -> None:
        row = await self.find(uuid)
        if row.state in (facts.CREATED, facts.EXITED):
            return
        seconds = _GRACE if timeout is None else timeout
        asked = self._client.repeated("StopContainer", extra=seconds, container_id=row.id, timeout=seconds)
        call = self._ongoing.begin(asked, f"stop-{uuid}")
        done, _ = await asyncio.wait({call}, timeout=seconds + PATIENCE)
        if not done and await self._missed.twice([row.id]):
            call.cancel()  # it waits for an end that was
            return
        await asyncio.shield(call)

    async def remove(self, uuid: str, *, force: bool) -> None:
        async with self._turns.take(uuid):
            await self._remove(uuid, force=force)

    async def _remove(self, uuid: str, *, force: bool) -> None:
        rows = await self._of(uuid)
        if not force and any(row.state in _LIVE for row in rows):
            raise conflict(f"Container {uuid} is running: it has to be stopped first")
        for row in rows:
            await self._missed.end("RemoveContainer", [row.id] if row.state in _LIVE else [], container_id=row.id)
        for capsule in {row.labels.get(facts.CAPSULE_LABEL, "") for row in rows} - {""}:
            groups = await self._sandboxes.groups()
            await self._sandboxes.remove_group(groups, capsule, uuid)

    async def update(self, uuid: str, *, cpu_millicores: int | None, memory_mib: int | None, swap_mib: int) -> None:
        """New limits of the member, and what its capsule needs for them."""
        if memory_mib == 0:
            raise conflict("a memory limit cannot be lifted from an existing container")
        if cpu_millicores is None and memory_mib is None:
            return
        row = await self.find(uuid)
        await self._widen(row, cpu_millicores, memory_mib)
        limits = configs.resources(cpu_millicores=cpu_millicores, memory_mib=memory_mib, swap_mib=swap_mib)
        await self._client.call("UpdateContainerResources", container_id=row.id, linux=limits)

    async def _widen(self, row: Any, cpu_millicores: int | None, memory_mib: int | None) -> None:
        """The capsule's own limit is the sum of its members' at least; it is made wider only, never narrower."""
        capsule = row.labels.get(facts.CAPSULE_LABEL, "")
        siblings = facts.newest(await self._rows({facts.PART_LABEL: facts.MEMBER, facts.CAPSULE_LABEL: capsule}))
        cpu, memory = cpu_millicores, memory_mib
        for other in siblings:
            if other.id == row.id:
                continue
            other_cpu, other_memory = facts.limits(await self.status(other.id))
            cpu = cpu + other_cpu if cpu and other_cpu else (0 if cpu is not None else None)
            memory = memory + other_memory if memory and other_memory else (0 if memory is not None else None)
        groups = await self._sandboxes.groups()
        try:
            await asyncio.to_thread(groups.widen, capsule, cpu_millicores=cpu, memory_mib=memory)
        except OSError as error:
            raise failed(f"the control group of the capsule cannot be changed: {error}") from error

    async def _made(self, spec: MemberSpec, sandbox: Any, ghosts: int) -> str:
        """``ghosts``: former ones that the engine still lists."""
        groups = await self._sandboxes.groups(sandbox.runtime_handler)
        group, folder = await asyncio.to_thread(self._prepare, spec, groups)
        # The engine takes the folder of logs and the control group from what is said here, not from what it keeps.
        within = configs.sandbox_context(
            sandbox, logs=str(Path(folder).parent), group=group, privileged=spec.privileged
        )
        config = configs.member_config(spec, log_path=self._logs.relative(spec.uuid, spec.attempt), ghosts=ghosts)
        try:
            return await self._container(sandbox, config, within)
        except EngineNotFound as error:
            if "sandbox" in error.text.lower():
                raise
            raise failed(f"image {spec.image}: {error.text}") from error

    def _prepare(self, spec: MemberSpec, groups: Groups) -> tuple[str, str]:
        """Its control group, and its folder of logs. Raises EngineError."""
        _check_mounts(spec.mounts)
        try:
            group = groups.ensure_member(spec.capsule_uuid, spec.uuid, spec.pids)
            folder = self._logs.make(spec.capsule_uuid, spec.uuid)
            self._logs.forget_before(spec.capsule_uuid, spec.uuid, spec.attempt)
        except OSError as error:
            raise failed(f"what container {spec.uuid} needs on the node cannot be made: {error}") from error
        return group, folder

    async def _container(self, sandbox: Any, config: Any, within: Any) -> str:
        asked = {"pod_sandbox_id": sandbox.id, "config": config, "sandbox_config": within}
        with self._events.making() as there:
            try:
                made = await self._client.call("CreateContainer", **asked)
            except EngineError as error:
                if not passes(error.text):
                    raise
                made = await self._client.call("CreateContainer", **asked)
            there(made.container_id)
        return str(made.container_id)

    async def _never_begun(self, row: Any) -> bool:
        """Did an engine that was killed find it, when it was back, neither running nor ended?"""
        status = (await self._client.call("ContainerStatus", container_id=row.id)).status
        return not status.started_at and bool(status.reason == "Unknown")

    async def _begin(self, row: Any) -> None:
        if row.state == facts.CREATED:
            try:
                await self._begun(row.id)
                return
            except EngineError as error:
                if not _HALF_STARTED.search(error.text):
                    raise
        await self._begun(await self._once_more(row))

    async def _begun(self, engine_id: str) -> None:
        with self._events.making() as there:
            await self._client.call("StartContainer", container_id=engine_id)
            there(engine_id)

    async def _once_more(self, row: Any) -> str:
        """An engine killed while it started a container can neither start it afterwards nor go on: the same is made
        again, from what the engine keeps of its wish."""
        config = facts.given_config(await self.status(row.id))
        uuid, capsule = row.labels[UUID_LABEL], row.labels[facts.CAPSULE_LABEL]
        sandbox = await self._sandboxes.ready(capsule)
        if sandbox is None:
            raise absent(f"capsule {capsule} has no sandbox that is ready")
        await self._client.repeated("RemoveContainer", container_id=row.id)
        await self._sandboxes.clear(row.id)
        groups = await self._sandboxes.groups(sandbox.runtime_handler)
        within = configs.sandbox_context(
            sandbox,
            logs=await asyncio.to_thread(self._logs.make, capsule),
            group=await asyncio.to_thread(groups.known_member, capsule, uuid),
            privileged=config.linux.security_context.privileged,
        )
        return await self._container(sandbox, config, within)

    async def _settled(self, uuid: str) -> Any:
        """The newest attempt's row once its start is over, if that is soon."""
        for pause in (0.0, 0.05, 0.1, 0.2, 0.4, 0.8):
            await asyncio.sleep(pause)
            row = await self.find(uuid)
            if row.state != facts.CREATED:
                break
        return row

    async def _of(self, uuid: str) -> Sequence[Any]:
        """All attempts, the newest first."""
        rows = await self._rows({facts.PART_LABEL: facts.MEMBER, UUID_LABEL: uuid})
        return sorted(rows, key=lambda row: (row.metadata.attempt, row.created_at), reverse=True)

    async def _rows(self, labels: dict[str, str]) -> Sequence[Any]:
        answer = await self._client.call("ListContainers", filter={"label_selector": labels})
        self._events.remember(answer.containers)
        found: Sequence[Any] = answer.containers
        return found


def _running(rows: Sequence[Any]) -> Sequence[str]:
    return [row.id for row in rows if row.state == facts.RUNNING]


def _check_mounts(mounts: Sequence[HostMount]) -> None:
    """The engine would make a missing source an empty folder. Raises EngineError."""
    for mount in mounts:
        if not Path(mount.source).exists():
            raise failed(f"mount source {mount.source} of {mount.destination} does not exist")
