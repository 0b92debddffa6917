"""What an engine says of a container, and what it is asked to make. Pure data shared by all runtimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

UNHEALTHY = "unhealthy"
"""A health check's last word; also the parameter of a rebuild that it caused."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Facts of one engine container. Times are naive UTC; None where it never happened."""

    uuid: str
    engine_id: str
    state: str
    """``created running paused restarting removing exited dead``, else ``unknown``."""
    exit_code: int | None = None
    error: str = ""
    oom_killed: bool = False
    started_at: datetime | None = None
    finished_at: datetime | None = None
    health: str | None = None
    """``starting``, ``healthy`` or ``UNHEALTHY``; None without a health check."""
    owner: str = ""
    """Who made it: ``<deployment id>/<host>``. An agent touches its own only."""
    spec_hash: str = ""
    """Fingerprint of the EngineSpec it was made from."""
    command: Sequence[str] = ()
    entrypoint: Sequence[str] = ()
    workdir: str | None = None
    hostname: str | None = None
    ports: Sequence[int] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    capsule_uuid: str = ""
    """Of a capsule's member: whose it is."""
    attempt: int = 0
    """Of a capsule's member: how often it was started by its restart policy."""
    created_at: datetime | None = None
    """Naive UTC; told in the list form of Docker's containers."""


@dataclass(frozen=True, slots=True)
class EngineNetwork:
    """A network the engine must have before a container joins it."""

    name: str
    subnet: str | None = None
    gateway: str | None = None
    driver: str = "bridge"
    options: Mapping[str, str] = field(default_factory=dict)
    more_subnets: Sequence[tuple[str, str | None]] = ()
    """Subnets beside the first one, each with its gateway."""
    ipam_driver: str = "default"
    ipam_options: Mapping[str, str] = field(default_factory=dict)


NO_ENGINE_NETWORK = EngineNetwork("none", driver="none")


@dataclass(frozen=True, slots=True)
class Attachment:
    """One interface of a container. ``preserve_on_delete``: the user's own port, kept on delete."""

    network_id: str
    port_id: str
    subnet_id: str
    address: str
    mac: str
    version: int
    preserve_on_delete: bool
    engine_network: EngineNetwork
    """``NO_ENGINE_NETWORK``: the engine has no part in it, the node plugs the interface."""
    dns: Sequence[str] = ()
    """Name servers of the subnet, for what has no resolver of the engine's."""


@dataclass(frozen=True, slots=True)
class HostMount:
    """A path of the host placed in the container."""

    source: str
    destination: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """Shell command and its timing in seconds; None leaves the engine's default."""

    command: str
    interval: int | None = None
    timeout: int | None = None
    retries: int | None = None


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """All an engine needs to make a container."""

    uuid: str
    owner: str
    image: str
    name: str
    command: Sequence[str] | None = None
    entrypoint: Sequence[str] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    hostname: str | None = None
    tty: bool = False
    stdin: bool = False
    cpu_millicores: int = 0
    """0 = no limit."""
    memory_mib: int = 0
    """0 = no limit."""
    swap_mib: int = 0
    """Swap beyond memory; -1 = unlimited."""
    pids: int = 0
    disk_gib: int = 0
    restart_name: str = "no"
    restart_count: int = 0
    runtime: str | None = None
    privileged: bool = False
    healthcheck: HealthCheck | None = None
    mounts: Sequence[HostMount] = ()
    attachments: Sequence[Attachment] = ()
    """Interfaces that the engine makes."""
    name_servers: Sequence[str] = ()
    """Instead of the engine's own choice."""
    own_address: str | None = None
    """Address of the hostname, where the engine cannot know it."""
    exposed_ports: Sequence[str] = ()
    cpuset: str = ""
    """CPUs it may run on (``2,3``); empty = all."""
    memory_nodes: str = ""
    """NUMA nodes of its memory; empty = all."""
    """``80/tcp``; for show, nothing is opened by them."""

    @property
    def engine_name(self) -> str:
        """The name in the engine: ``zun-<uuid>``."""
        return f"zun-{self.uuid}"
