"""Sandboxes and members in memory, with the pods port's behaviour: for tests and for scale, as ``simulated.py`` is.

Members run until told otherwise, unless their command says that they end (``SimulatedPods.on_start``). ``faults`` makes
calls slow, failing or silent; ``crash``, ``vanish``, ``vanish_sandbox`` and ``kill_sandbox`` act behind the product's
back; ``cut_events`` ends the streams of events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import uuid4

from zun.domain.clock import Clock
from zun.domain.errors import EngineConflict, EngineNotFound
from zun.domain.image import parse_reference
from zun.domain.observed import Observed
from zun.runtime.base import Event, ExecResult, ImageFacts, Stats
from zun.runtime.fingerprint import spec_hash
from zun.runtime.pods import Forgotten, MemberSpec, PodsInfo, Sandbox, SandboxSpec
from zun.runtime.simulated_commands import exit_code, words_of
from zun.runtime.simulated_engine import Line, SimulatedEngine, log_text, written
from zun.runtime.simulated_faults import faulty
from zun.runtime.simulated_sessions import SessionCalls, SimulatedSessions


@dataclass(slots=True)
class _Box:
    spec: SandboxSpec
    fingerprint: str
    created_at: datetime
    sandbox_id: str = field(default_factory=lambda: uuid4().hex * 2)
    ready: bool = True


@dataclass(slots=True)
class _Member:
    spec: MemberSpec
    fingerprint: str
    engine_id: str = field(default_factory=lambda: uuid4().hex * 2)
    state: str = "created"
    exit_code: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    lines: list[Line] = field(default_factory=list)


def ends_at_once(spec: MemberSpec) -> int | None:
    """The exit code of a command that ends: ``true``, ``false``, ``exit N``, also within ``sh -c``; else None."""
    verb, *rest = words_of([*(spec.entrypoint or ()), *(spec.command or ())]) or [""]
    if verb not in ("true", "false", "exit"):
        return None
    return {"true": 0, "false": 1}.get(verb, exit_code(rest, 0))


class SimulatedPods(SessionCalls, SimulatedEngine):
    """``zun.runtime.pods.Pods`` without an engine."""

    name = "simulated"

    def __init__(self, *, clock: Clock | None = None, handlers: Sequence[str] = ()) -> None:
        super().__init__(clock)
        self.on_start: Callable[[MemberSpec], int | None] = ends_at_once
        """With which exit code does a member end as soon as it runs? None: it runs on."""
        self.sessions = SimulatedSessions(lambda: self.on_execute)
        self.log: list[str] = []
        """What was done, in order: ``start <member's name>/<attempt>``, ``run <capsule>``, ``stop …``."""
        self.left: set[Forgotten] = set()
        """What it has forgotten."""
        self._handlers = tuple(handlers)
        self._boxes: dict[str, _Box] = {}
        self._members: dict[str, _Member] = {}

    # -- behind the product's back ---------------------------------------------------------------

    def crash(self, uuid: str, exit_code: int = 1) -> None:
        """The member's process ends by itself."""
        self._end(self._get(uuid), exit_code)

    def vanish(self, uuid: str) -> None:
        """Somebody removed the member by hand."""
        self._tell(self._members.pop(uuid), "delete")

    def kill_sandbox(self, uuid: str) -> None:
        """The sandbox's own process died; members go on."""
        self._boxes[uuid].ready = False
        self._tell_box(self._boxes[uuid], "exit")

    def vanish_sandbox(self, uuid: str) -> None:
        """Somebody removed the sandbox by hand, with all that was in it."""
        box = self._boxes.pop(uuid)
        for member in self._of(uuid):
            del self._members[member.spec.uuid]
        self._tell_box(box, "delete")

    def write(self, uuid: str, text: str, *, stream: str = "stdout") -> None:
        """The member writes to its log."""
        self._get(uuid).lines.extend(written(self.clock.now(), text, stream))
        self._log_changed()

    def spec_of(self, uuid: str) -> MemberSpec:
        """What a member was made from."""
        return self._get(uuid).spec

    def sandbox_spec_of(self, uuid: str) -> SandboxSpec:
        """What a capsule's sandbox was made from."""
        return self._boxes[uuid].spec

    def adopt(self, spec: SandboxSpec) -> None:
        """A sandbox that somebody else made."""
        self._boxes[spec.uuid] = _Box(spec, spec_hash(spec), self.clock.now())

    # -- sandboxes -------------------------------------------------------------------------------

    @faulty
    async def info(self) -> PodsInfo:
        return PodsInfo(self.name, "0", self._handlers)

    @faulty
    async def sandboxes(self) -> Sequence[Sandbox]:
        return [_facts(box) for box in self._boxes.values()]

    @faulty
    async def sandbox(self, uuid: str) -> Sandbox | None:
        box = self._boxes.get(uuid)
        return _facts(box) if box is not None else None

    @faulty
    async def run_sandbox(self, spec: SandboxSpec) -> Sandbox:
        old = self._boxes.get(spec.uuid)
        if old is not None and old.spec.owner != spec.owner:
            raise EngineConflict(f"the sandbox of capsule {spec.uuid} belongs to '{old.spec.owner}'")
        if old is not None and old.ready and old.fingerprint == spec_hash(spec):
            return _facts(old)
        if old is not None:
            self.vanish_sandbox(spec.uuid)
        box = self._boxes[spec.uuid] = _Box(spec, spec_hash(spec), self.clock.now())
        self.log.append(f"run {spec.uuid}")
        self._tell_box(box, "start")
        return _facts(box)

    @faulty
    async def stop_sandbox(self, uuid: str) -> None:
        box = self._boxes.get(uuid)
        if box is None:
            return
        for member in self._of(uuid):
            if member.state == "running":
                self._end(member, 137)
        box.ready = False
        self._tell_box(box, "exit")

    @faulty
    async def remove_sandbox(self, uuid: str) -> None:
        if uuid in self._boxes:
            self.log.append(f"remove {uuid}")
            self.vanish_sandbox(uuid)

    @faulty
    async def forgotten(self) -> Sequence[Forgotten]:
        return sorted(self.left, key=lambda one: one.name)

    @faulty
    async def end_forgotten(self, one: Forgotten) -> bool:
        if one not in self.left:
            return False
        self.left.remove(one)
        self.log.append(f"end {one.kind} {one.name}")
        return True

    # -- members ---------------------------------------------------------------------------------

    @faulty
    async def list(self) -> Sequence[Observed]:
        return [self._observed(member) for member in self._members.values()]

    @faulty
    async def inspect(self, uuid: str) -> Observed | None:
        member = self._members.get(uuid)
        return self._observed(member) if member is not None else None

    @faulty
    async def create(self, spec: MemberSpec) -> str:
        box = self._boxes.get(spec.capsule_uuid)
        if box is None or not box.ready:
            raise EngineNotFound(f"No ready sandbox of capsule {spec.capsule_uuid}")
        if spec.image not in {facts.image_id for facts in self._images.values()}:
            raise EngineNotFound(f"No such image: {spec.image}")
        old = self._members.get(spec.uuid)
        if old is not None and old.spec.owner != spec.owner:
            raise EngineConflict(f"container {spec.uuid} belongs to '{old.spec.owner}'")
        if old is not None and old.fingerprint == spec_hash(spec):
            return old.engine_id
        member = self._members[spec.uuid] = _Member(spec, spec_hash(spec))
        self._tell(member, "create")
        return member.engine_id

    @faulty
    async def start(self, uuid: str) -> None:
        member = self._get(uuid)
        if member.state == "running":
            return
        if member.state == "exited":
            raise EngineConflict(f"Member {uuid} has ended")
        member.state, member.started_at = "running", self.clock.now()
        self.log.append(f"start {member.spec.name}/{member.spec.attempt}")
        self._tell(member, "start")
        code = self.on_start(member.spec)
        if code is not None:
            self._end(member, code)

    @faulty
    async def stop(self, uuid: str, timeout: int | None) -> None:
        member = self._get(uuid)
        if member.state == "running":
            self.log.append(f"stop {member.spec.name} {timeout}")
            self._end(member, 143 if timeout else 137)

    @faulty
    async def remove(self, uuid: str, *, force: bool) -> None:
        member = self._members.get(uuid)
        if member is None:
            return
        if member.state == "running" and not force:
            raise EngineConflict(f"Member {uuid} is running")
        self.vanish(uuid)

    @faulty
    async def update(self, uuid: str, *, cpu_millicores: int | None, memory_mib: int | None, swap_mib: int) -> None:
        self._get(uuid)

    @faulty
    async def logs(
        self, uuid: str, *, stdout: bool, stderr: bool, timestamps: bool, tail: int | None, since: float | None
    ) -> str:
        return log_text(
            self._get(uuid).lines, stdout=stdout, stderr=stderr, timestamps=timestamps, tail=tail, since=since
        )

    @faulty
    async def execute(self, uuid: str, command: Sequence[str], timeout: float) -> ExecResult:
        self._running(uuid)
        try:
            async with asyncio.timeout(timeout):
                return await self.on_execute(uuid, command)
        except TimeoutError:
            raise EngineConflict(f"the command ran longer than the limit of {timeout:g} seconds") from None

    @faulty
    async def resize(self, uuid: str, *, height: int, width: int) -> None:
        self._running(uuid)
        self.sessions.resize(uuid, height, width)

    @faulty
    async def stats(self, uuid: str) -> Stats:
        member = self._running(uuid)
        return Stats(1.0, 8.0, float(member.spec.memory_mib or 1024), 0, 0, 0, 0)

    # -- images ----------------------------------------------------------------------------------

    @faulty
    async def image(self, reference: str) -> ImageFacts | None:
        return self._images.get(str(parse_reference(reference)))

    @faulty
    async def remove_image(self, reference: str) -> None:
        self._images.pop(str(parse_reference(reference)), None)

    # -- within ----------------------------------------------------------------------------------

    def _log_of(self, uuid: str) -> Sequence[Line]:
        return self._get(uuid).lines

    def _get(self, uuid: str) -> _Member:
        if uuid not in self._members:
            raise EngineNotFound(f"No such container: {uuid}")
        return self._members[uuid]

    def _running(self, uuid: str) -> _Member:
        member = self._get(uuid)
        if member.state != "running":
            raise EngineConflict(f"Container {uuid} is not running")
        return member

    def _may_exec(self, uuid: str) -> None:
        self._running(uuid)

    def _own_terminal(self, uuid: str) -> bool:
        return self._running(uuid).spec.tty

    def _of(self, capsule_uuid: str) -> Sequence[_Member]:
        return [member for member in self._members.values() if member.spec.capsule_uuid == capsule_uuid]

    def _end(self, member: _Member, exit_code: int) -> None:
        member.state, member.exit_code, member.finished_at = "exited", exit_code, self.clock.now()
        self.sessions.ended(member.spec.uuid)
        self._tell(member, "exit")

    def _tell(self, member: _Member, action: str) -> None:
        self._send(Event(member.spec.uuid, action, member.spec.owner))

    def _tell_box(self, box: _Box, action: str) -> None:
        self._send(Event(box.spec.uuid, action, box.spec.owner))

    def _observed(self, member: _Member) -> Observed:
        spec = member.spec
        return Observed(
            uuid=spec.uuid,
            engine_id=member.engine_id,
            state=member.state,
            exit_code=member.exit_code,
            started_at=member.started_at,
            finished_at=member.finished_at,
            owner=spec.owner,
            spec_hash=member.fingerprint,
            command=tuple(spec.command or ("sh",)),
            entrypoint=tuple(spec.entrypoint or ()),
            workdir=spec.workdir,
            capsule_uuid=spec.capsule_uuid,
            attempt=spec.attempt,
        )


def _facts(box: _Box) -> Sandbox:
    spec = box.spec
    return Sandbox(
        spec.uuid, box.sandbox_id, box.ready, spec.owner, box.fingerprint, spec.handler, created_at=box.created_at
    )
