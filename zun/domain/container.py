"""A container as recorded: what was asked (spec) and what was last seen. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class RequestedNetwork:
    """One entry of ``nets`` after resolution; ids, not names."""

    network_id: str
    port_id: str | None = None
    v4_fixed_ip: str | None = None
    v6_fixed_ip: str | None = None
    preserve_on_delete: bool = False


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
    engine_image: str | None = None
    """Image id in the engine the container was made from."""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    started_at: datetime | None = None


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
