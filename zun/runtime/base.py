"""The runtime port: one engine on this node.

Every method is a coroutine with its own deadline and may be cancelled. Unless said otherwise a method is
idempotent and raises ``EngineNotFound`` (the engine answers and does not have it), ``EngineConflict`` (its state
does not permit the call), ``EngineUnreachable`` (no answer: nothing may be concluded) or ``EngineError``.
Containers are addressed by the product's container uuid; adapters find them by the engine name ``zun-<uuid>``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from zun.domain.observed import Attachment, EngineNetwork, EngineSpec, Observed
from zun.runtime.log_records import Growth, LogRecord
from zun.runtime.sessions import Session


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What the node can do. Memory MiB, disk GiB."""

    cpus: int
    memory_mib: int
    architecture: str
    os_type: str
    os: str
    kernel_version: str
    labels: Mapping[str, str]
    runtimes: Sequence[str]
    default_runtime: str
    total_containers: int
    root_dir: str
    disk_quota_supported: bool
    version: str = ""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """An image in the engine. ``size`` in bytes."""

    image_id: str
    size: int
    command: Sequence[str] = ()
    entrypoint: Sequence[str] = ()
    repo_digests: Sequence[str] = ()
    names: Sequence[str] = ()
    """With tags, as the engine writes them."""


@dataclass(frozen=True, slots=True)
class PullProgress:
    """Bytes done and total (0 = not known yet) and the engine's word for the phase."""

    done: int
    total: int
    phase: str


@dataclass(frozen=True, slots=True)
class RegistryAuth:
    """Credentials for one registry."""

    server: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened to one of the engine's containers; ``action`` is the engine's word."""

    uuid: str
    action: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """Both streams as text (invalid bytes replaced), and the exit code."""

    output: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class PathStat:
    """A path within a container: size in bytes, mode as the engine counts it, ``mtime`` as text (RFC 3339)."""

    name: str
    size: int
    mode: int
    mtime: str
    link_target: str = ""


@dataclass(frozen=True, slots=True)
class Stats:
    """One sample. Percent of one core for cpu; MiB for memory; bytes else."""

    cpu_percent: float
    memory_usage_mib: float
    memory_limit_mib: float
    block_read: int
    block_write: int
    net_rx: int
    net_tx: int


class Runtime(Protocol):
    """See the module's docstring for what all methods share."""

    name: str
    """``docker``; appears in ``No such container: <id> in docker``."""

    async def connect(self) -> None:
        """Reach the engine and agree on an API version; raises EngineUnreachable with where it looked."""
        ...

    async def close(self) -> None: ...

    async def info(self) -> EngineInfo: ...

    async def list(self) -> Sequence[Observed]:
        """All containers named ``zun-<uuid>``, of any owner. Cheap: list form, so only uuid, engine_id, state,
        owner (label) and spec_hash are sure to be filled."""
        ...

    async def inspect(self, uuid: str) -> Observed | None:
        """Facts of one container, None if the engine, answering, does not have it."""
        ...

    async def create(self, spec: EngineSpec) -> str:
        """Make the container (not started) and return the engine's id. If one exists under that name: the same
        spec_hash and owner -> its id, else it is replaced. Networks of ``spec.attachments`` are made first, all
        interfaces are connected."""
        ...

    async def start(self, uuid: str) -> None:
        """Blocks until started. Running already is success. Raises StartFailed."""
        ...

    async def stop(self, uuid: str, timeout: int | None) -> None:
        """TERM (the image's stop signal), after ``timeout`` seconds KILL (None: engine default 10). Blocks until it
        ended. Not running is success."""
        ...

    async def reboot(self, uuid: str, timeout: int | None) -> None: ...

    async def kill(self, uuid: str, signal: str | None) -> None:
        """Raises EngineConflict when not running."""
        ...

    async def pause(self, uuid: str) -> None:
        """Paused already is success; EngineConflict when not running."""
        ...

    async def unpause(self, uuid: str) -> None:
        """Not paused is success."""
        ...

    async def remove(self, uuid: str, *, force: bool) -> None:
        """Gone (or never there) is success. ``force`` kills a running one. Anonymous volumes go too. Waits out an
        engine's "removal already in progress"."""
        ...

    async def update(self, uuid: str, *, cpu_millicores: int | None, memory_mib: int | None, swap_mib: int) -> None: ...

    async def logs(
        self, uuid: str, *, stdout: bool, stderr: bool, timestamps: bool, tail: int | None, since: float | None
    ) -> str: ...

    def log_records(self, uuid: str, last: int | None) -> AsyncGenerator[Sequence[LogRecord], None]:
        """The newest ``last`` records of both streams (None: all that are kept) as the log is at the call, some at a
        time, in the order they were written. Fewer than ``last`` are all. To be closed."""
        ...

    def log_growth(self, uuid: str) -> AbstractAsyncContextManager[Growth]:
        """From entering on: see ``Growth``. Of one that does not run it may return at once."""
        ...

    async def execute(self, uuid: str, command: Sequence[str], timeout: float) -> ExecResult:
        """Run and wait at most ``timeout`` seconds; longer raises EngineConflict naming the limit, and the exec'd
        process is ended."""
        ...

    async def open_exec(self, uuid: str, command: Sequence[str], *, tty: bool, stdin: bool) -> str:
        """An interactive command is to run: its exec id, 64 hexadecimal digits. It runs when ``exec_session`` is
        entered. Raises EngineConflict when the container does not run. Not idempotent."""
        ...

    def exec_session(
        self, uuid: str, exec_id: str, command: Sequence[str], *, tty: bool, stdin: bool
    ) -> AbstractAsyncContextManager[Session]:
        """A session with that command, good for once (S4.8). Leaving lets go of its streams: the command sees the end
        of its input and goes on, unless ``Session.end_command`` was called."""
        ...

    async def end_exec(self, uuid: str, exec_id: str, command: Sequence[str], began: datetime) -> None:
        """End a command whose session was another process's, which was killed: with what it started, as
        ``Session.end_command``. ``began``: when the session did, naive UTC. One that is over, or cannot be told from
        others, is success. Raises EngineUnreachable."""
        ...

    def attach_session(self, uuid: str, *, stdin: bool) -> AbstractAsyncContextManager[Session]:
        """A session with the streams of a running container, from now on: what it wrote before is in its log. Leaving
        does not end it. Raises EngineConflict when it does not run."""
        ...

    async def top(self, uuid: str, ps_args: str | None) -> Mapping[str, Any]:
        """``{"Titles": [...], "Processes": [[...]]}``."""
        ...

    async def stats(self, uuid: str) -> Stats: ...

    async def resize(self, uuid: str, *, height: int, width: int) -> None: ...

    def get_archive(self, uuid: str, path: str) -> AbstractAsyncContextManager[tuple[PathStat, AsyncIterator[bytes]]]:
        """A tar archive of the path within the container, running or not, piece by piece: a file under its base name,
        a folder with all that is below. Links do not lead out of the container. Raises PathRefused. No overall
        deadline: the caller sets one."""
        ...

    async def put_archive(self, uuid: str, path: str, archive: AsyncIterator[bytes]) -> None:
        """Unpack a tar archive into the folder ``path`` of the container, running or not; nothing is written outside
        of the container. Raises PathRefused for a missing or read-only folder and for what is no archive (its first
        members may be there then). No overall deadline: the caller sets one."""
        ...

    async def namespace(self, uuid: str) -> int | None:
        """The network namespace of a running container: a file descriptor, the caller's to close. None when it does not
        run."""
        ...

    async def follow_namespaces(self, listener: Callable[[str, int, Callable[[], None]], None]) -> None:
        """From now on ``listener(uuid, namespace, let_go)`` hears, in the event loop, of each start of a container
        without networks of the engine, whoever asked for it, before its process runs. The process waits, for some time
        at most, until ``let_go()`` is called; the descriptor is the listener's to close. Raises EngineError where the
        engine is not on this host."""
        ...

    def events(self) -> AsyncIterator[Event]:
        """Endless events of containers named ``zun-<uuid>`` from now on. Ends with EngineUnreachable when the
        stream is cut; the caller lists and calls again."""
        ...

    async def pull(
        self, reference: str, auth: RegistryAuth | None, progress: Callable[[PullProgress], None]
    ) -> ImageFacts:
        """Raises ImageFailed (no such image, denied: no retry) or ImagePullFailed (unreachable, broke off: retry).
        No overall deadline: the caller watches progress."""
        ...

    async def has_remote_image(self, reference: str, auth: RegistryAuth | None) -> bool:
        """Does the registry have it, for these credentials? Nothing is pulled. Raises ImagePullFailed when the
        registry cannot tell."""
        ...

    async def image(self, reference: str) -> ImageFacts | None:
        """The local image, None if absent."""
        ...

    async def images_of(self, domain: str) -> Sequence[str]:
        """References of the local images whose names begin with ``domain/``."""
        ...

    async def images_in_use(self) -> frozenset[str]:
        """Ids of the images that containers are made of, whoever made them and whether they run or not."""
        ...

    async def remove_image(self, reference: str) -> None:
        """Absent is success; EngineConflict while a container uses it."""
        ...

    async def search_images(self, term: str) -> Sequence[Mapping[str, Any]]:
        """What the engine's own default registry finds: ``name description star_count is_official is_automated``.
        Raises EngineError when that registry cannot be searched."""
        ...

    async def commit(self, uuid: str, reference: str) -> ImageFacts:
        """Make an image of the container's file system and settings, under ``reference``, which moves to it. The
        engine itself freezes a running container meanwhile and lets it go on, whatever becomes of the caller. Has a
        deadline of half an hour. Not idempotent: a repeat makes a newer image."""
        ...

    def export_image(self, reference: str, renamed: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A local image as an archive, piece by piece, under the name ``renamed`` alone. No overall deadline: the
        caller watches its progress."""
        ...

    async def load_image(
        self, reference: str, archive: AsyncIterable[bytes], progress: Callable[[PullProgress], None]
    ) -> ImageFacts:
        """Take in an archive of one image (gzip, bzip2 and xz are unpacked) under ``reference`` alone: names within
        the archive mean nothing. When ``archive`` raises, nothing is loaded and its error is raised. ``progress``
        hears of the engine's own work. Raises ImageFailed for what is no such archive. No overall deadline: the
        caller watches the progress."""
        ...

    async def ensure_network(self, network: EngineNetwork) -> None: ...

    async def remove_network(self, name: str) -> None:
        """Absent is success; EngineConflict while containers are on it."""
        ...

    async def connect_network(self, uuid: str, attachments: Sequence[Attachment]) -> None:
        """The container, running or not, joins the engine networks of ``attachments``, which are made first. Joined
        already is success."""
        ...

    async def disconnect_network(self, uuid: str, name: str) -> None:
        """The container leaves the engine network. Not joined, or no such network, is success."""
        ...

    async def list_networks(self, prefix: str) -> Sequence[str]:
        """Names of engine networks beginning with ``prefix``."""
        ...
