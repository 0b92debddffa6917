"""The pods port: sandboxes and the members in them, made by one engine on this node (S2.8, S2.13, S2.14).

What ``zun.runtime.base`` says of all methods holds here. A sandbox is addressed by its capsule's uuid, a member by its
own container uuid; adapters keep both in the engine's labels and find them there again. Interfaces are the network
adapter's affair (``zun.network``): the sandbox is made where ``ensure_ports`` has prepared them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from zun.domain.observed import Attachment, HostMount, Observed
from zun.runtime.base import Event, ExecResult, ImageFacts, PullProgress, RegistryAuth, Stats
from zun.runtime.log_records import Growth, LogRecord
from zun.runtime.sessions import Session


@dataclass(frozen=True, slots=True)
class PodsInfo:
    """The engine behind the port: its name and version, and the runtime handlers it is known to have (empty: it does
    not tell)."""

    name: str
    version: str
    handlers: Sequence[str] = ()
    root_dir: str = ""
    """Folder of the engine; empty where it does not tell."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Facts of one sandbox. ``created_at`` is naive UTC; ``handler`` empty is the engine's default one."""

    uuid: str
    sandbox_id: str
    ready: bool
    owner: str = ""
    spec_hash: str = ""
    handler: str = ""
    addresses: Sequence[str] = ()
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What an engine that was killed, or broken off, has left on the machine and does not know of: ``kind`` and
    ``name`` tell which. ``capsule`` is empty where nothing tells whose it was, and nobody can have it any more."""

    kind: str
    name: str
    capsule: str = ""


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """All an engine needs to make a sandbox. Limits are those of the whole capsule; 0 = none."""

    uuid: str
    owner: str
    name: str
    hostname: str | None = None
    handler: str = ""
    """The runtime handler, unchanged but for ``runc``, which is the engine's default: empty (S2.8, S2.18)."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    name_servers: Sequence[str] = ()
    cpu_millicores: int = 0
    memory_mib: int = 0
    privileged: bool = False
    """Does any member ask for it?"""
    attachments: Sequence[Attachment] = ()
    """For engines that make the interfaces themselves (Docker); those with CNI have them from the plug-in."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """All an engine needs to make one container of a capsule. 0 = no limit."""

    uuid: str
    capsule_uuid: str
    owner: str
    name: str
    image: str
    """The image's id in the engine."""
    attempt: int = 0
    """Counts the starts by restart policy: 0, 1, …"""
    command: Sequence[str] | None = None
    """Command and arguments; None leaves the image's."""
    entrypoint: Sequence[str] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    tty: bool = False
    stdin: bool = False
    cpu_millicores: int = 0
    memory_mib: int = 0
    swap_mib: int = 0
    """Swap beyond memory; -1 = unlimited."""
    pids: int = 0
    privileged: bool = False
    mounts: Sequence[HostMount] = ()
    cpuset: str = ""
    memory_nodes: str = ""


class Pods(Protocol):
    """See the module's docstring."""

    name: str
    """``cri`` or ``docker``."""

    async def connect(self) -> None:
        """Reach the engine and agree on an API version. Raises EngineUnreachable with where it looked, EngineError with
        what to change for an engine too old."""
        ...

    async def close(self) -> None: ...

    async def info(self) -> PodsInfo: ...

    async def sandboxes(self) -> Sequence[Sandbox]:
        """All sandboxes that carry our label, of any owner, ready or not; also what a failed ``run_sandbox`` left."""
        ...

    async def sandbox(self, uuid: str) -> Sandbox | None:
        """The capsule's sandbox, the ready one first; None if the engine, answering, has none."""
        ...

    async def run_sandbox(self, spec: SandboxSpec) -> Sandbox:
        """Make it and start it. A ready one of the same spec_hash and owner is the answer; others of ours are removed
        first. Leaves nothing behind when it fails. Raises SandboxFailed with the engine's (or the network plug-in's)
        words."""
        ...

    async def stop_sandbox(self, uuid: str) -> None:
        """Ends what runs in it, without grace: the caller stops members first. Not there is success."""
        ...

    async def remove_sandbox(self, uuid: str) -> None:
        """It, its members and their logs are gone, interfaces unplugged. Not there is success."""
        ...

    async def forgotten(self) -> Sequence[Forgotten]:
        """What the engine, answering, does not know of; nothing that is another's. To be believed when it is told
        twice, some time apart, and no operation is at work on its capsule. Empty where it cannot be judged."""
        ...

    async def end_forgotten(self, one: Forgotten) -> bool:
        """Looked at once more, and removed from the machine; False when there is nothing to be removed any more."""
        ...

    async def list(self) -> Sequence[Observed]:
        """All members of any owner: uuid, capsule_uuid, engine_id, state, owner, attempt, spec_hash; of each member the
        newest attempt only."""
        ...

    async def inspect(self, uuid: str) -> Observed | None:
        """Facts of a member's newest attempt, None if the engine, answering, does not have it."""
        ...

    async def create(self, spec: MemberSpec) -> str:
        """Make the member (not started) in its ready sandbox; returns the engine's id. One of the same spec_hash, owner
        and attempt is the answer, else former attempts are removed. Raises EngineNotFound without a ready sandbox."""
        ...

    async def start(self, uuid: str) -> None:
        """Blocks until started. Running already is success. Raises StartFailed."""
        ...

    async def stop(self, uuid: str, timeout: int | None) -> None:
        """TERM, after ``timeout`` seconds KILL (None: 10). Blocks until it ended. Not running is success."""
        ...

    async def remove(self, uuid: str, *, force: bool) -> None:
        """Gone (or never there) is success; EngineConflict for a running one without ``force``."""
        ...

    async def update(self, uuid: str, *, cpu_millicores: int | None, memory_mib: int | None, swap_mib: int) -> None: ...

    async def logs(
        self, uuid: str, *, stdout: bool, stderr: bool, timestamps: bool, tail: int | None, since: float | None
    ) -> str: ...

    def log_records(self, uuid: str, last: int | None) -> AsyncGenerator[Sequence[LogRecord], None]:
        """As ``Runtime.log_records``."""
        ...

    def log_growth(self, uuid: str) -> AbstractAsyncContextManager[Growth]:
        """As ``Runtime.log_growth``."""
        ...

    async def execute(self, uuid: str, command: Sequence[str], timeout: float) -> ExecResult:
        """Run and wait at most ``timeout`` seconds; longer raises EngineConflict naming the limit, and the exec'd
        process is ended."""
        ...

    async def open_exec(self, uuid: str, command: Sequence[str], *, tty: bool, stdin: bool) -> str:
        """As ``Runtime.open_exec``."""
        ...

    def exec_session(
        self, uuid: str, exec_id: str, command: Sequence[str], *, tty: bool, stdin: bool
    ) -> AbstractAsyncContextManager[Session]:
        """As ``Runtime.exec_session``."""
        ...

    async def end_exec(self, uuid: str, exec_id: str, command: Sequence[str], began: datetime) -> None:
        """As ``Runtime.end_exec``."""
        ...

    def attach_session(self, uuid: str, *, stdin: bool) -> AbstractAsyncContextManager[Session]:
        """As ``Runtime.attach_session``."""
        ...

    async def resize(self, uuid: str, *, height: int, width: int) -> None:
        """Terminal of the member's own program, in characters. Raises EngineConflict when it does not run."""
        ...

    async def stats(self, uuid: str) -> Stats: ...

    def events(self) -> AsyncIterator[Event]:
        """Endless events of members (their uuid) and sandboxes (the capsule's uuid) from now on; the state has changed
        when one arrives. Ends with EngineUnreachable when the stream is cut; the caller lists and calls again."""
        ...

    async def pull(
        self, reference: str, auth: RegistryAuth | None, progress: Callable[[PullProgress], None]
    ) -> ImageFacts:
        """As ``Runtime.pull``."""
        ...

    async def has_remote_image(self, reference: str, auth: RegistryAuth | None) -> bool:
        """As ``Runtime.has_remote_image``."""
        ...

    async def image(self, reference: str) -> ImageFacts | None:
        """The local image, None if absent."""
        ...

    async def remove_image(self, reference: str) -> None:
        """Absent is success."""
        ...
