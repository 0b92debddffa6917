"""A capsule: from a checked template to the rows of the capsule and its members. Pure.

Times are naive UTC, cpu in cores, memory in MiB, volumes in GiB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from zun.domain.container import Container, Type
from zun.domain.lifecycle import Status

POLICIES = {"Always": "always", "OnFailure": "on-failure", "Never": "no"}
"""Words of templates, and what they are called everywhere else."""

INIT_TRIES = 10
"""Restarts of an init container where its capsule is restarted always."""

NAME_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Volume:
    """One entry of ``volumes``: an existing one by id, or a new one of ``size``."""

    name: str
    mapping_uuid: str
    volume_id: str | None = None
    size: int | None = None
    auto_remove: bool = False


@dataclass(frozen=True, slots=True)
class Mount:
    """One entry of ``volumeMounts``."""

    volume: str
    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One container of a template; no cpu or memory is no limit."""

    image: str
    command: Sequence[str] = ()
    environment: Mapping[str, str] | None = None
    workdir: str | None = None
    pull_policy: str = "always"
    interactive: bool = False
    tty: bool = False
    cpu: float = 0.0
    memory: int = 0
    ports: Sequence[str] = ()
    """``80/tcp``."""
    mounts: Sequence[Mount] = ()


@dataclass(frozen=True, slots=True)
class Template:
    """What a request asks for, checked and in normal form. ``restart`` is one of the words of ``POLICIES``."""

    containers: Sequence[Entry]
    inits: Sequence[Entry] = ()
    volumes: Sequence[Volume] = ()
    name: str | None = None
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    restart: str = "Always"
    availability_zone: str | None = None
    runtime: str | None = None


def size(containers: Sequence[Entry], inits: Sequence[Entry]) -> tuple[float, int]:
    """(cores, MiB) of a capsule: all its containers together, or its largest init container, whichever is more: init
    containers run alone, before the others (S2.3)."""
    cpu = max([sum(one.cpu for one in containers), *(one.cpu for one in inits)])
    memory = max([sum(one.memory for one in containers), *(one.memory for one in inits)])
    return round(cpu, 6), memory


def restart_policies(word: str) -> tuple[dict[str, str], dict[str, str]]:
    """(of the capsule and its containers, of its init containers). A capsule that always runs cannot run its init
    containers always: they are tried again a number of times."""
    policy = {"Name": POLICIES[word], "MaximumRetryCount": "0"}
    if word == "Always":
        return policy, {"Name": "on-failure", "MaximumRetryCount": str(INIT_TRIES)}
    return policy, policy


def member_name(capsule: str, suffix: str) -> str:
    """``capsule-<name or uuid>-<greek>-<n>``, cut to what a name may be long."""
    room = NAME_LENGTH - len("capsule--") - len(suffix)
    return f"capsule-{capsule[:room]}-{suffix}"


def rows(
    template: Template,
    *,
    project_id: str,
    user_id: str,
    new_uuid: Callable[[], str],
    suffix: Callable[[], str],
    networks: Sequence[Mapping[str, Any]],
    now: datetime,
) -> tuple[Container, Sequence[Container]]:
    """The capsule, and its members in the order they are shown and started: init containers first (S2.2)."""
    policy, init_policy = restart_policies(template.restart)
    cpu, memory = size(template.containers, template.inits)
    uuid = new_uuid()
    everyone = [*template.inits, *template.containers]
    ports = {port: dict[str, Any]() for entry in everyone for port in entry.ports}
    capsule = Container(
        uuid=uuid,
        name=template.name or "",
        project_id=project_id,
        user_id=user_id,
        image="",
        image_driver="",
        status=Status.CREATING,
        cpu=cpu,
        memory=memory,
        labels=template.labels,
        annotations=template.annotations,
        restart_policy=policy,
        runtime=template.runtime,
        availability_zone=template.availability_zone,
        exposed_ports=ports or None,
        requested_networks=networks,
        container_type=Type.CAPSULE,
        created_at=now,
    )
    mappings = {volume.name: volume.mapping_uuid for volume in template.volumes}

    def member(entry: Entry, kind: Type, restart: Mapping[str, str]) -> Container:
        return Container(
            uuid=new_uuid(),
            name=member_name(template.name or uuid, suffix()),
            project_id=project_id,
            user_id=user_id,
            image=entry.image,
            image_driver="",
            status=Status.CREATING,
            command=list(entry.command) or None,
            environment=entry.environment,
            workdir=entry.workdir,
            cpu=entry.cpu,
            memory=entry.memory,
            interactive=entry.interactive,
            tty=entry.tty,
            image_pull_policy=entry.pull_policy,
            restart_policy=restart,
            exposed_ports={port: {} for port in entry.ports} or None,
            volume_mounts=[
                {"mapping": mappings[mount.volume], "destination": mount.path, "read_only": mount.read_only}
                for mount in entry.mounts
                if mount.volume in mappings
            ],
            container_type=kind,
            capsule_uuid=uuid,
            created_at=now,
        )

    members = [member(entry, Type.INIT, init_policy) for entry in template.inits]
    members += [member(entry, Type.MEMBER, policy) for entry in template.containers]
    return capsule, members
