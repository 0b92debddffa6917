"""A whole engine in memory, with the runtime port's behaviour: for scale tests and for tests of the agent.

Containers run until told otherwise. ``faults`` makes calls slow, failing or silent; ``crash``, ``vanish`` and
``set_paused`` act behind the product's back; ``cut_events`` ends the streams of events.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from zun.domain.clock import Clock
from zun.domain.errors import (
    EngineConflict,
    EngineError,
    EngineNotFound,
    ImageFailed,
    InvalidValue,
)
from zun.domain.image import parse_reference
from zun.domain.observed import EngineNetwork, EngineSpec, Observed
from zun.runtime.archive import BadArchive
from zun.runtime.archive_stream import renamed as renamed_archive
from zun.runtime.base import EngineInfo, Event, ExecResult, ImageFacts, PullProgress, Stats
from zun.runtime.fingerprint import spec_hash
from zun.runtime.simulated_archive import archive_of
from zun.runtime.simulated_engine import IMAGE_BYTES, Line, SimulatedEngine, log_text, written
from zun.runtime.simulated_faults import faulty
from zun.runtime.simulated_files import SimulatedFiles
from zun.runtime.simulated_networks import SimulatedNetworks
from zun.runtime.simulated_sessions import SessionCalls, SimulatedSessions


@dataclass(slots=True)
class _Sim:
    spec: EngineSpec
    fingerprint: str
    engine_id: str = field(default_factory=lambda: uuid4().hex * 2)
    state: str = "created"
    exit_code: int = 0
    error: str = ""
    health: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    restarts: int = 0
    window: tuple[int, int] | None = None
    lines: list[Line] = field(default_factory=list)

    @property
    def live(self) -> bool:
        return self.state in ("running", "paused", "restarting")


class SimulatedRuntime(SessionCalls, SimulatedEngine, SimulatedNetworks, SimulatedFiles):
    """``zun.runtime.base.Runtime`` without an engine."""

    name = "simulated"

    def __init__(
        self, *, clock: Clock | None = None, cpus: int = 64, memory_mib: int = 256 * 1024, disk_quota: bool = False
    ) -> None:
        SimulatedEngine.__init__(self, clock)
        SimulatedFiles.__init__(self)
        self.sessions = SimulatedSessions(lambda: self.on_execute)
        self.networks: dict[str, EngineNetwork] = {}
        self.limits: dict[str, tuple[int, int, int]] = {}
        """uuid -> millicores, MiB, MiB of swap now in force."""
        self._facts = (cpus, memory_mib, disk_quota)
        self._containers: dict[str, _Sim] = {}

    # -- behind the product's back ---------------------------------------------------------------

    def fail_next(self, method: str, error: Exception, *, times: int = 1, after: bool = False) -> None:
        """See ``Faults.fail_next``."""
        self.faults.fail_next(method, error, times=times, after=after)

    def crash(self, uuid: str, exit_code: int = 1) -> None:
        """The container's process ends by itself; its restart policy is honoured."""
        sim = self._get(uuid)
        self._end(sim, exit_code)
        name, limit = sim.spec.restart_name, sim.spec.restart_count
        again = name == "on-failure" and exit_code != 0 and (not limit or sim.restarts < limit)
        if name in ("always", "unless-stopped") or again:
            sim.restarts += 1
            self._begin(sim)

    def vanish(self, uuid: str) -> None:
        """Somebody removed the container by hand."""
        sim = self._containers.pop(uuid)
        self.sessions.ended(uuid)
        self.limits.pop(uuid, None)
        self.files.pop(uuid, None)
        self._tell(sim, "destroy")

    def set_paused(self, uuid: str, paused: bool) -> None:
        """Somebody paused or resumed the container by hand."""
        sim = self._get(uuid)
        sim.state = "paused" if paused else "running"
        self._tell(sim, "pause" if paused else "unpause")

    def set_health(self, uuid: str, health: str) -> None:
        """The health check came to a new result."""
        sim = self._get(uuid)
        sim.health = health
        self._tell(sim, f"health_status: {health}")

    def write(self, uuid: str, text: str, *, stream: str = "stdout") -> None:
        """The container writes to its log."""
        self._get(uuid).lines.extend(written(self.clock.now(), text, stream))
        self._log_changed()

    def adopt(self, spec: EngineSpec, *, state: str = "running") -> None:
        """A container that somebody else made."""
        self._containers[spec.uuid] = _Sim(spec, spec_hash(spec), state=state, started_at=self.clock.now())

    # -- the port --------------------------------------------------------------------------------

    @faulty
    async def info(self) -> EngineInfo:
        cpus, memory, quota = self._facts
        runtimes = ("runc",)
        count = len(self._containers)
        return EngineInfo(
            cpus, memory, "x86_64", "linux", "Simulated", "0", {}, runtimes, "runc", count, "/", quota, "simulated"
        )

    @faulty
    async def list(self) -> Sequence[Observed]:
        return [
            Observed(uuid, sim.engine_id, sim.state, owner=sim.spec.owner, spec_hash=sim.fingerprint)
            for uuid, sim in self._containers.items()
        ]

    @faulty
    async def inspect(self, uuid: str) -> Observed | None:
        sim = self._containers.get(uuid)
        return self._observed(sim) if sim is not None else None

    @faulty
    async def create(self, spec: EngineSpec) -> str:
        old = self._containers.get(spec.uuid)
        if old is not None and old.spec.owner != spec.owner:
            raise EngineConflict(f"{spec.engine_name} exists and belongs to '{old.spec.owner}'")
        for attachment in spec.attachments:
            self.networks.setdefault(attachment.engine_network.name, attachment.engine_network)
        if old is not None and old.fingerprint == spec_hash(spec):
            return old.engine_id
        if self._image(spec.image) is None:
            raise EngineNotFound(f"No such image: {spec.image}")
        if old is not None:
            self.vanish(spec.uuid)
        sim = self._containers[spec.uuid] = _Sim(spec, spec_hash(spec))
        self.limits[spec.uuid] = (spec.cpu_millicores, spec.memory_mib, spec.swap_mib)
        self._tell(sim, "create")
        return sim.engine_id

    @faulty
    async def start(self, uuid: str) -> None:
        sim = self._get(uuid)
        if sim.state == "paused":
            raise EngineConflict("cannot start a paused container, try unpause instead")
        if sim.state != "running":
            self._begin(sim)

    @faulty
    async def stop(self, uuid: str, timeout: int | None) -> None:
        sim = self._get(uuid)
        if sim.live:
            self._end(sim, 137)
            self._tell(sim, "stop")

    @faulty
    async def reboot(self, uuid: str, timeout: int | None) -> None:
        sim = self._get(uuid)
        if sim.live:
            self._end(sim, 137)
        self._begin(sim)
        self._tell(sim, "restart")

    @faulty
    async def kill(self, uuid: str, signal: str | None) -> None:
        sim = self._running(uuid)
        self._tell(sim, "kill")
        if (signal or "KILL").upper().removeprefix("SIG") in ("KILL", "9", "TERM", "15", "INT", "2", "QUIT", "3"):
            self._end(sim, 137)

    @faulty
    async def pause(self, uuid: str) -> None:
        if self._running(uuid).state != "paused":
            self.set_paused(uuid, True)

    @faulty
    async def unpause(self, uuid: str) -> None:
        if self._get(uuid).state == "paused":
            self.set_paused(uuid, False)

    @faulty
    async def remove(self, uuid: str, *, force: bool) -> None:
        sim = self._containers.get(uuid)
        if sim is None:
            return
        if sim.live and not force:
            raise EngineConflict(f"You cannot remove a running container {sim.engine_id}")
        if sim.live:
            self._end(sim, 137)
        self.vanish(uuid)

    @faulty
    async def update(self, uuid: str, *, cpu_millicores: int | None, memory_mib: int | None, swap_mib: int) -> None:
        self._get(uuid)
        cpu, memory, swap = self.limits.get(uuid, (0, 0, 0))
        if cpu_millicores is not None:
            cpu = cpu_millicores
        if memory_mib is not None:
            memory, swap = memory_mib, swap_mib
        self.limits[uuid] = (cpu, memory, swap)

    @faulty
    async def logs(
        self, uuid: str, *, stdout: bool, stderr: bool, timestamps: bool, tail: int | None, since: float | None
    ) -> str:
        return log_text(
            self._get(uuid).lines, stdout=stdout, stderr=stderr, timestamps=timestamps, tail=tail, since=since
        )

    @faulty
    async def execute(self, uuid: str, command: Sequence[str], timeout: float) -> ExecResult:
        self._may_exec(uuid)
        work = asyncio.ensure_future(self.on_execute(uuid, command))
        alarm = asyncio.ensure_future(self.clock.sleep(timeout))
        try:
            await asyncio.wait({work, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise EngineConflict(f"the command ran longer than the limit of {timeout:g} seconds")
            return work.result()
        finally:
            work.cancel()
            alarm.cancel()

    @faulty
    async def top(self, uuid: str, ps_args: str | None) -> Mapping[str, Any]:
        sim = self._running(uuid)
        if ps_args and not ps_args.startswith("-") and ps_args not in ("aux", "ax", "u"):
            raise EngineError("ps: error: unsupported option")
        return {"Titles": ["PID", "CMD"], "Processes": [["1", " ".join(sim.spec.command or ("sh",))]]}

    @faulty
    async def stats(self, uuid: str) -> Stats:
        self._running(uuid)
        return Stats(1.0, 8.0, float(self.limits.get(uuid, (0, 0, 0))[1] or self._facts[1]), 0, 0, 0, 0)

    @faulty
    async def resize(self, uuid: str, *, height: int, width: int) -> None:
        self._running(uuid).window = (height, width)

    async def namespace(self, uuid: str) -> int | None:
        """There are none."""
        return None

    async def follow_namespaces(self, listener: Callable[[str, int, Callable[[], None]], None]) -> None:
        """Nothing is ever heard."""

    @faulty
    async def image(self, reference: str) -> ImageFacts | None:
        return self._image(reference)

    @faulty
    async def images_of(self, domain: str) -> Sequence[str]:
        return sorted(name for name in self._images if name.startswith(f"{domain}/"))

    @faulty
    async def search_images(self, term: str) -> Sequence[Mapping[str, Any]]:
        names = sorted({name.rpartition(":")[0] for name in self._images if term in name})
        facts = {"description": "", "star_count": 0, "is_official": False, "is_automated": False}
        return [{"name": name, **facts} for name in names]

    @faulty
    async def commit(self, uuid: str, reference: str) -> ImageFacts:
        sim = self._get(uuid)
        digest = hashlib.sha256(f"{sim.engine_id} {self.clock.now()}".encode()).hexdigest()
        command, entrypoint = tuple(sim.spec.command or ()), tuple(sim.spec.entrypoint or ())
        facts = ImageFacts(f"sha256:{digest}", IMAGE_BYTES, command, entrypoint)
        self._images[str(parse_reference(reference))] = facts
        return facts

    @asynccontextmanager
    async def export_image(self, reference: str, renamed: str) -> AsyncIterator[AsyncIterator[bytes]]:
        error = await self.faults.enter("export_image")
        facts = self._image(reference)
        if facts is None:
            raise EngineNotFound(f"No such image: {reference}")
        async with aclosing(renamed_archive(archive_of(facts), renamed)) as pieces:
            yield pieces
        if error is not None:
            raise error

    @faulty
    async def load_image(
        self, reference: str, archive: AsyncIterable[bytes], progress: Callable[[PullProgress], None]
    ) -> ImageFacts:
        digest, size = hashlib.sha256(), 0
        try:
            async with aclosing(renamed_archive(archive, "simulated:latest")) as pieces:
                async for piece in pieces:
                    digest.update(piece)
                    size += len(piece)
        except BadArchive as error:
            raise ImageFailed(f"Image cannot be loaded: {error}.") from error
        progress(PullProgress(size, size, "Loading layer"))
        facts = ImageFacts(f"sha256:{digest.hexdigest()}", size, ("sh",))
        self._images[str(parse_reference(reference))] = facts
        return facts

    @faulty
    async def images_in_use(self) -> frozenset[str]:
        found = (self._image(sim.spec.image) for sim in self._containers.values())
        return frozenset(facts.image_id for facts in found if facts is not None)

    @faulty
    async def remove_image(self, reference: str) -> None:
        if any(sim.spec.image == reference for sim in self._containers.values()):
            raise EngineConflict(f"image {reference} is in use by a container")
        self._images.pop(str(parse_reference(reference)), None)

    # -- within ----------------------------------------------------------------------------------

    def _log_of(self, uuid: str) -> Sequence[Line]:
        return self._get(uuid).lines

    def _get(self, uuid: str) -> _Sim:
        if uuid not in self._containers:
            raise EngineNotFound(f"No such container: zun-{uuid}")
        return self._containers[uuid]

    def _running(self, uuid: str) -> _Sim:
        sim = self._get(uuid)
        if not sim.live:
            raise EngineConflict(f"Container {uuid} is not running")
        return sim

    def _may_exec(self, uuid: str) -> None:
        if self._running(uuid).state == "paused":
            raise EngineConflict(f"Container {uuid} is paused, unpause the container before exec")

    def _own_terminal(self, uuid: str) -> bool:
        return self._running(uuid).spec.tty

    def _begin(self, sim: _Sim) -> None:
        sim.state, sim.exit_code, sim.error = "running", 0, ""
        sim.started_at = self.clock.now()
        sim.health = "starting" if sim.spec.healthcheck else None
        self._tell(sim, "start")

    def _end(self, sim: _Sim, exit_code: int) -> None:
        sim.state, sim.exit_code, sim.finished_at = "exited", exit_code, self.clock.now()
        self.sessions.ended(sim.spec.uuid)
        self._tell(sim, "die")

    def _tell(self, sim: _Sim, action: str) -> None:
        self._send(Event(sim.spec.uuid, action, sim.spec.owner))

    def _image(self, reference: str) -> ImageFacts | None:
        by_id = {facts.image_id: facts for facts in self._images.values()}
        if reference in by_id:
            return by_id[reference]
        try:
            return self._images.get(str(parse_reference(reference)))
        except InvalidValue:
            return None

    def _observed(self, sim: _Sim) -> Observed:
        spec = sim.spec
        return Observed(
            uuid=spec.uuid,
            engine_id=sim.engine_id,
            state=sim.state,
            exit_code=sim.exit_code,
            error=sim.error,
            started_at=sim.started_at,
            finished_at=sim.finished_at,
            health=sim.health,
            owner=spec.owner,
            spec_hash=sim.fingerprint,
            command=tuple(spec.command or ("sh",)),
            entrypoint=tuple(spec.entrypoint or ()),
            workdir=spec.workdir,
            hostname=spec.hostname or sim.engine_id[:12],
            environment=dict(spec.environment),
        )
