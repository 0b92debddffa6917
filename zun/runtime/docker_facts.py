"""Docker's JSON to facts: containers, images, the node, one sample of use. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from zun.domain.observed import UNHEALTHY, Observed
from zun.runtime.base import EngineInfo, ImageFacts, Stats

UUID_LABEL = "org.openstack.zun.uuid"
OWNER_LABEL = "org.openstack.zun.owner"
SPEC_LABEL = "org.openstack.zun.spec"
NAME_LABEL = "org.openstack.zun.name"
LABELS = (UUID_LABEL, OWNER_LABEL, SPEC_LABEL, NAME_LABEL)

_ENGINE_NAME = re.compile(r"/?zun-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)")
_STATES = frozenset({"created", "running", "paused", "restarting", "removing", "exited", "dead"})
MIB = 1024 * 1024


def uuid_of(name: str) -> str | None:
    """The container uuid in an engine name ``zun-<uuid>``, None for foreign names."""
    match = _ENGINE_NAME.fullmatch(name)
    return match.group(1) if match else None


def parse_time(text: str | None) -> datetime | None:
    """RFC 3339 with up to nine digits -> naive UTC; Docker's zero time ``0001-01-01...`` -> None."""
    match = _TIME.fullmatch(text or "")
    if not match or match.group(1).startswith("0001-01-01"):
        return None
    moment = datetime.fromisoformat(match.group(1))
    moment += timedelta(microseconds=int((match.group(2) or "0")[:6].ljust(6, "0")))
    if match.group(3) != "Z":
        sign = -1 if match.group(3)[0] == "-" else 1
        hours, minutes = match.group(3)[1:].split(":")
        moment -= sign * timedelta(hours=int(hours), minutes=int(minutes))
    return moment


def _state(word: str) -> str:
    return word if word in _STATES else "unknown"


def observed_from_list(row: Mapping[str, Any]) -> Observed | None:
    """One row of the list form, which tells of health that it fails; None when it is not ours by name."""
    uuid = next(filter(None, map(uuid_of, row.get("Names") or ())), None)
    if uuid is None:
        return None
    labels = row.get("Labels") or {}
    return Observed(
        uuid=uuid,
        engine_id=row["Id"],
        state=_state(row.get("State", "")),
        health=UNHEALTHY if str(row.get("Status", "")).endswith(f"({UNHEALTHY})") else None,
        owner=labels.get(OWNER_LABEL, ""),
        spec_hash=labels.get(SPEC_LABEL, ""),
        created_at=_of_epoch(row.get("Created")),
    )


def _of_epoch(seconds: Any) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None) if isinstance(seconds, int) else None


def without_networks(rows: Sequence[Mapping[str, Any]]) -> Iterable[tuple[str, str]]:
    """(uuid, engine id) of those of ours in the list form that the engine gives no network."""
    for row in rows:
        uuid = next(filter(None, map(uuid_of, row.get("Names") or ())), None)
        if uuid is not None and (row.get("HostConfig") or {}).get("NetworkMode") == "none":
            yield uuid, row["Id"]


def observed_from_inspect(uuid: str, facts: Mapping[str, Any]) -> Observed:
    """The inspect form of one container."""
    state, config = facts.get("State") or {}, facts.get("Config") or {}
    labels = config.get("Labels") or {}
    health = (state.get("Health") or {}).get("Status")
    return Observed(
        uuid=uuid,
        engine_id=facts["Id"],
        state=_state(state.get("Status", "")),
        exit_code=state.get("ExitCode"),
        error=state.get("Error") or "",
        oom_killed=bool(state.get("OOMKilled")),
        started_at=parse_time(state.get("StartedAt")),
        finished_at=parse_time(state.get("FinishedAt")),
        health=health if health in ("starting", "healthy", UNHEALTHY) else None,
        owner=labels.get(OWNER_LABEL, ""),
        spec_hash=labels.get(SPEC_LABEL, ""),
        command=tuple(config.get("Cmd") or ()),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        workdir=config.get("WorkingDir") or None,
        hostname=config.get("Hostname") or None,
        ports=tuple(sorted({int(port.partition("/")[0]) for port in config.get("ExposedPorts") or ()})),
        environment=dict(_pairs(config.get("Env") or ())),
    )


def image_facts(facts: Mapping[str, Any]) -> ImageFacts:
    """An image's inspect form."""
    config = facts.get("Config") or {}
    return ImageFacts(
        image_id=facts["Id"],
        size=int(facts.get("Size") or 0),
        command=tuple(config.get("Cmd") or ()),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        repo_digests=tuple(facts.get("RepoDigests") or ()),
        names=tuple(facts.get("RepoTags") or ()),
    )


def engine_info(facts: Mapping[str, Any], *, quota: bool) -> EngineInfo:
    """The engine's ``/info``; ``quota`` as found by ``disk_quota``."""
    return EngineInfo(
        cpus=int(facts["NCPU"]),
        memory_mib=int(facts["MemTotal"]) // MIB,
        architecture=facts.get("Architecture", ""),
        os_type=facts.get("OSType", ""),
        os=facts.get("OperatingSystem", ""),
        kernel_version=facts.get("KernelVersion", ""),
        labels=dict(_pairs(facts.get("Labels") or ())),
        runtimes=tuple(sorted(facts.get("Runtimes") or ())),
        default_runtime=facts.get("DefaultRuntime", ""),
        total_containers=int(facts.get("Containers") or 0),
        root_dir=facts.get("DockerRootDir", ""),
        disk_quota_supported=quota,
        version=facts.get("ServerVersion", ""),
    )


def disk_quota(facts: Mapping[str, Any], mountinfo: str | None) -> bool:
    """Can the storage driver limit a container's disk? ``mountinfo``: the engine host's, None if not readable.

    overlay2 can only on xfs mounted with project quotas; asking it elsewhere fails every create.
    """
    driver = facts.get("Driver", "")
    if driver in ("btrfs", "zfs", "devicemapper"):
        return True
    if driver != "overlay2" or mountinfo is None:
        return False
    status = {row[0]: row[1] for row in facts.get("DriverStatus") or () if len(row) == 2}
    if status.get("Backing Filesystem") != "xfs":
        return False
    options = mount_options(mountinfo, facts.get("DockerRootDir", ""))
    return bool({"pquota", "prjquota"} & set(options))


def mount_options(mountinfo: str, path: str) -> Sequence[str]:
    """Options of the file system that holds ``path``, of the mount and of its super block."""
    best = ""
    found: Sequence[str] = ()
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) < 6 or len(tail) < 3:
            continue
        point = fields[4].replace("\\040", " ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, found = point, fields[5].split(",") + tail[2].split(",")
    return found


def stats(sample: Mapping[str, Any]) -> Stats | None:
    """One sample with its predecessor; None when the container does not run."""
    if parse_time(sample.get("read")) is None:
        return None
    memory = sample.get("memory_stats") or {}
    detail = memory.get("stats") or {}
    # As the docker command does: the page cache that can go at once is not use. cgroup v1 and v2 name it apart.
    cache = int(detail.get("total_inactive_file") or detail.get("inactive_file") or 0)
    usage = int(memory.get("usage") or 0)
    read = write = 0
    for row in (sample.get("blkio_stats") or {}).get("io_service_bytes_recursive") or ():
        kind, value = str(row.get("op", "")).lower(), int(row.get("value") or 0)
        read += value if kind == "read" else 0
        write += value if kind == "write" else 0
    networks = (sample.get("networks") or {}).values()
    return Stats(
        cpu_percent=_cpu_percent(sample),
        memory_usage_mib=max(0, usage - cache if cache < usage else usage) / MIB,
        memory_limit_mib=int(memory.get("limit") or 0) / MIB,
        block_read=read,
        block_write=write,
        net_rx=sum(int(net.get("rx_bytes") or 0) for net in networks),
        net_tx=sum(int(net.get("tx_bytes") or 0) for net in networks),
    )


def _cpu_percent(sample: Mapping[str, Any]) -> float:
    now, before = sample.get("cpu_stats") or {}, sample.get("precpu_stats") or {}

    def used(part: Mapping[str, Any]) -> int:
        return int((part.get("cpu_usage") or {}).get("total_usage") or 0)

    system = int(now.get("system_cpu_usage") or 0) - int(before.get("system_cpu_usage") or 0)
    delta = used(now) - used(before)
    if system <= 0 or delta <= 0 or not before.get("system_cpu_usage"):
        return 0.0
    cores = int(now.get("online_cpus") or 0) or len((now.get("cpu_usage") or {}).get("percpu_usage") or ()) or 1
    return delta / system * cores * 100.0


def _pairs(rows: Iterable[str]) -> Iterable[tuple[str, str]]:
    for row in rows:
        key, _, value = row.partition("=")
        yield key, value


def joined(facts: Mapping[str, Any]) -> frozenset[str]:
    """Networks the container is on. A running one also lists those it was refused by: they have no end point."""
    networks: Mapping[str, Any] = (facts.get("NetworkSettings") or {}).get("Networks") or {}
    running = bool((facts.get("State") or {}).get("Running"))
    return frozenset(name for name, one in networks.items() if one.get("EndpointID") or not running)
