"""A container as recorded: what was asked (spec) and what was last seen. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class RequestedNetwork:
    """One entry of ``nets`` after resolution; ids, not names."""

    network_id: str
    port_id: str | None = None
    v4_fixed_ip: str | None = None
    v6_fixed_ip: str | None = None
    preserve_on_delete: bool = False


class Type(StrEnum):
    """What a row of ``containers`` is."""

    CONTAINER = "container"
    CAPSULE = "capsule"
    MEMBER = "capsule_container"
    INIT = "capsule_init_container"


HOLDERS = (Type.CONTAINER, Type.CAPSULE)
"""What holds an allocation, volumes and ports; a capsule does so for its members."""
MEMBERS = (Type.MEMBER, Type.INIT)


@dataclass(frozen=True, slots=True)
class Container:
    """One row of ``containers``; field names are the column names."""

    uuid: str
    name: str
    project_id: str
    user_id: str
    image: str
    image_driver: str
    status: str
    id: int = 0
    generation: int = 0
    """Counts writes; guarded writes name the one they expect."""
    command: Sequence[str] | None = None
    entrypoint: Sequence[str] | None = None
    cpu: float = 0.0
    """Cores; 0 = no limit."""
    cpu_policy: str = "shared"
    memory: int = 0
    """MiB; 0 = no limit."""
    disk: int = 0
    """GiB; 0 = no limit."""
    workdir: str | None = None
    hostname: str | None = None
    environment: Mapping[str, str] | None = None
    labels: Mapping[str, str] | None = None
    restart_policy: Mapping[str, str] | None = None
    interactive: bool = False
    tty: bool = False
    auto_remove: bool = False
    auto_heal: bool = False
    privileged: bool = False
    runtime: str | None = None
    image_pull_policy: str | None = None
    availability_zone: str | None = None
    hints: Mapping[str, Any] | None = None
    healthcheck: Mapping[str, Any] | None = None
    """``{test, interval, retries, timeout}``; seconds."""
    exposed_ports: Mapping[str, Any] | None = None
    security_groups: Sequence[str] | None = None
    requested_networks: Sequence[Mapping[str, Any]] | None = None
    """``RequestedNetwork`` as JSON objects, in the order asked."""
    registry_id: int | None = None
    host: str | None = None
    container_id: str | None = None
    """The engine's id; None until made."""
    status_reason: str | None = None
    status_detail: str | None = None
    task_state: str | None = None
    ports: Sequence[int] | None = None
    addresses: Mapping[str, Any] | None = None
    """network id -> list of ``{addr, version, port, subnet_id, preserve_on_delete}``."""
    image_uuid: str | None = None
    """The image's id where its driver has ids (Glance), found with the rights of who asked."""
    engine_image: str | None = None
    """Image id in the engine the container was made from."""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    started_at: datetime | None = None
    counted: bool = True
    """Does it count against the quota? Not any more once it is deleted while its host is down."""
    container_type: str = Type.CONTAINER
    capsule_uuid: str | None = None
    """Of a member: its capsule."""
    annotations: Mapping[str, str] | None = None
    volume_mounts: Sequence[Mapping[str, Any]] | None = None
    """Of a member: ``{mapping, destination, read_only}``; ``mapping`` is the uuid of its capsule's volume mapping."""
    restarts: int = 0
    """Of a member: how often its restart policy started it again."""
    back_off: int = 0
    """Of a member: seconds it waited before it was last started again."""
    restart_at: datetime | None = None
    """Of a member: when it is started again; None when it is not to be."""
    exit_code: int | None = None
    """Of a member: how it last ended."""

    @property
    def quota(self) -> dict[str, int]:
        """What the row counts against its project: containers, millicores, MiB, GiB; nothing once that was given back.
        Of a capsule each member is a container, and the size is the capsule's."""
        if not self.counted:
            return {}
        if self.container_type in MEMBERS:
            return {"containers": 1}
        containers = 0 if self.container_type == Type.CAPSULE else 1
        return {"containers": containers, "cpu": round(self.cpu * 1000), "memory": self.memory, "disk": self.disk}


@dataclass(frozen=True, slots=True)
class VolumeMapping:
    """One mount of a container. ``volume_id`` None for ``bind`` (content in ``contents``)."""

    uuid: str
    container_uuid: str
    project_id: str
    user_id: str
    kind: str
    """``volume`` or ``bind``."""
    driver: str
    """``local`` or ``cinder``."""
    destination: str
    volume_id: str | None = None
    auto_remove: bool = False
    contents: str | None = None
    """base64 file content of a ``bind`` mount."""
    connection: Mapping[str, Any] = field(default_factory=dict)
    """What the adapter stored at attach."""
