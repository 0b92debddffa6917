"""CRI's answers to the port's facts: the engine, sandboxes, members, images. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf import json_format

from zun.domain.observed import Observed
from zun.runtime.base import ImageFacts
from zun.runtime.cri.protocol import message, number
from zun.runtime.docker_facts import MIB, OWNER_LABEL, SPEC_LABEL, UUID_LABEL
from zun.runtime.pods import Sandbox

CAPSULE_LABEL = "org.openstack.zun.capsule"
PART_LABEL = "org.openstack.zun.part"
"""What a thing is of a capsule: CRI finds by equal values only, so all of ours have one in common."""
SANDBOX, MEMBER = "sandbox", "member"

READY = number("PodSandboxState", "SANDBOX_READY")
CREATED = number("ContainerState", "CONTAINER_CREATED")
RUNNING = number("ContainerState", "CONTAINER_RUNNING")
EXITED = number("ContainerState", "CONTAINER_EXITED")
_STATES = {CREATED: "created", RUNNING: "running", EXITED: "exited"}
_EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the engine tells of itself. ``systemd``: handlers whose control groups systemd makes."""

    name: str
    version: str
    handlers: Sequence[str]
    default_handler: str
    systemd: frozenset[str]
    network_config: str
    """Folder of the CNI configuration."""
    registry_config: str
    """Folder of ``hosts.toml`` files; empty where there is none."""
    state: str = ""
    """Folder of what CRI keeps until the machine restarts; below the parent is all that containerd keeps so long."""
    root: str = ""
    """Folder of what CRI keeps for longer."""
    own_namespaces: bool = False
    """Are network namespaces mounted below ``state``, where no other engine puts any?"""


def engine_facts(version: Any, status: Any) -> EngineFacts:
    """From the answers to Version and to a verbose Status."""
    config = _json(status.info.get("config", ""))
    containerd = config.get("containerd") or {}
    runtimes: Mapping[str, Any] = containerd.get("runtimes") or {}
    names = set(runtimes) | {one.name for one in status.runtime_handlers if one.name}
    registry = config.get("registry") or {}
    return EngineFacts(
        name=version.runtime_name,
        version=version.runtime_version.lstrip("v"),
        handlers=tuple(sorted(names)),
        default_handler=containerd.get("defaultRuntimeName") or "runc",
        systemd=frozenset(
            name for name, one in runtimes.items() if ((one or {}).get("options") or {}).get("SystemdCgroup")
        ),
        network_config=(config.get("cni") or {}).get("confDir") or "/etc/cni/net.d",
        registry_config=registry.get("configPath") or "",
        state=config.get("stateDir") or "",
        root=config.get("rootDir") or "",
        own_namespaces=bool(config.get("netnsMountsUnderStateDir")),
    )


def network_trouble(status: Any, facts: EngineFacts) -> str:
    """Why no sandbox can have a network, empty when one can."""
    for one in status.status.conditions:
        if one.type == "NetworkReady" and not one.status:
            said = one.message.strip() or one.reason
            where = f"it reads {facts.network_config}"
            return f"the engine has no network for sandboxes (NetworkReady is false: {said}); {where}"
    return ""


def moment(nanoseconds: int) -> datetime | None:
    """Nanoseconds since 1970 -> naive UTC; 0 -> None."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds > 0 else None


def sandbox(found: Any) -> Sandbox:
    """A row of the list, or a status: only that has addresses."""
    network = getattr(found, "network", None)
    addresses: list[str] = []
    if network is not None and network.ip:
        addresses = [network.ip, *(one.ip for one in network.additional_ips)]
    return Sandbox(
        uuid=found.labels.get(UUID_LABEL, ""),
        sandbox_id=found.id,
        ready=found.state == READY,
        owner=found.labels.get(OWNER_LABEL, ""),
        spec_hash=found.labels.get(SPEC_LABEL, ""),
        handler=found.runtime_handler,
        addresses=tuple(addresses),
        created_at=moment(found.created_at),
    )


def listed(row: Any) -> Observed:
    """A member, from a row of the list."""
    return Observed(
        uuid=row.labels.get(UUID_LABEL, ""),
        engine_id=row.id,
        state=_STATES.get(row.state, "unknown"),
        owner=row.labels.get(OWNER_LABEL, ""),
        spec_hash=row.labels.get(SPEC_LABEL, ""),
        capsule_uuid=row.labels.get(CAPSULE_LABEL, ""),
        attempt=row.metadata.attempt,
    )


def newest(rows: Iterable[Any]) -> Sequence[Any]:
    """Of each member the row of its last attempt."""
    found: dict[str, Any] = {}
    for row in rows:
        uuid = row.labels.get(UUID_LABEL, "")
        if uuid not in found or _age(row) > _age(found[uuid]):
            found[uuid] = row
    return tuple(found.values())


def _age(row: Any) -> tuple[int, int]:
    return row.metadata.attempt, row.created_at


def verbose(answer: Any) -> Mapping[str, Any]:
    """What a verbose status tells beyond CRI: an object of JSON, empty when it cannot be read."""
    return _json(answer.info.get("info", ""))


def observed(answer: Any, image: ImageConfig) -> Observed:
    """A member, from a verbose status. ``image``: of the image it was made from."""
    status, more = answer.status, verbose(answer)
    given: Mapping[str, Any] = more.get("config") or {}
    process: Mapping[str, Any] = (more.get("runtimeSpec") or {}).get("process") or {}
    environment = dict(_pairs(process.get("env") or ()))
    ended = status.state == EXITED
    entrypoint, command = tuple(given.get("command") or ()), tuple(given.get("args") or ())
    if not entrypoint:
        entrypoint, command = tuple(image.entrypoint), command or tuple(image.command)
    return Observed(
        uuid=status.labels.get(UUID_LABEL, ""),
        engine_id=status.id,
        state=_STATES.get(status.state, "unknown"),
        exit_code=status.exit_code if ended else None,
        error=status.message if ended and status.reason not in ("Completed", "OOMKilled") else "",
        oom_killed=status.reason == "OOMKilled",
        started_at=moment(status.started_at),
        finished_at=moment(status.finished_at),
        owner=status.labels.get(OWNER_LABEL, ""),
        spec_hash=status.labels.get(SPEC_LABEL, ""),
        command=command,
        entrypoint=entrypoint,
        workdir=process.get("cwd") or None,
        hostname=environment.get("HOSTNAME"),
        ports=tuple(image.ports),
        environment=environment,
        capsule_uuid=status.labels.get(CAPSULE_LABEL, ""),
        attempt=status.metadata.attempt,
    )


def given_config(answer: Any) -> Any:
    """What a member was made from, from a verbose status: the engine tells it in the names of the protocol."""
    return json_format.ParseDict(
        verbose(answer).get("config") or {}, message("ContainerConfig")(), ignore_unknown_fields=True
    )


def limits(answer: Any) -> tuple[int, int]:
    """A member's limits in force, thousandths of a core and MiB, from a verbose status; 0 = none."""
    resources = ((verbose(answer).get("runtimeSpec") or {}).get("linux") or {}).get("resources") or {}
    cpu, memory = resources.get("cpu") or {}, resources.get("memory") or {}
    quota, period = int(cpu.get("quota") or 0), int(cpu.get("period") or 0)
    limit = int(memory.get("limit") or 0)
    return (quota * 1000 // period if quota > 0 and period else 0), (limit // MIB if limit > 0 else 0)


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What an image says of its containers."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    ports: Sequence[int] = ()


def image_config(answer: Any) -> ImageConfig:
    """From a verbose ImageStatus."""
    config = (verbose(answer).get("imageSpec") or {}).get("config") or {}
    return ImageConfig(
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
        ports=tuple(sorted({int(port.partition("/")[0]) for port in config.get("ExposedPorts") or ()})),
    )


def image_facts(answer: Any) -> ImageFacts:
    """From a verbose ImageStatus of an image that is there."""
    config = image_config(answer)
    return ImageFacts(
        image_id=answer.image.id,
        size=answer.image.size,
        command=config.command,
        entrypoint=config.entrypoint,
        repo_digests=tuple(answer.image.repo_digests),
    )


def _json(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _pairs(rows: Iterable[str]) -> Iterable[tuple[str, str]]:
    for row in rows:
        key, _, value = row.partition("=")
        yield key, value
