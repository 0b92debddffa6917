"""One sample of a member's use. CPU and memory are CRI's; the network (the sandbox's) and block I/O are read from the
kernel: CRI tells neither."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import psutil

from zun.domain.errors import EngineError
from zun.runtime.base import Stats
from zun.runtime.cri import facts
from zun.runtime.cri.client import CriClient
from zun.runtime.cri.errors import conflict
from zun.runtime.docker_facts import MIB

_APART = 1.0
"""Seconds between the two samples, as Docker's."""


async def sample(client: CriClient, row: Any, uuid: str, capsule_bytes: int | None) -> Stats:
    """Of a running member. ``capsule_bytes``: the capsule's own memory limit. Raises EngineConflict when it ends
    meanwhile."""
    before = await _usage(client, row.id, uuid)
    status, sandbox = await asyncio.gather(
        client.call("ContainerStatus", container_id=row.id, verbose=True),
        client.call("PodSandboxStatus", pod_sandbox_id=row.pod_sandbox_id, verbose=True),
    )
    await asyncio.sleep(_APART)
    now = await _usage(client, row.id, uuid)
    pid, outer = int(facts.verbose(status).get("pid") or 0), int(facts.verbose(sandbox).get("pid") or 0)
    received, sent = await asyncio.to_thread(network, outer)
    read, written = await asyncio.to_thread(blocks, pid)
    _, limit = facts.limits(status)
    bounds = [
        psutil.virtual_memory().total,
        *([limit * MIB] if limit else []),
        *([capsule_bytes] if capsule_bytes else []),
    ]
    return Stats(
        cpu_percent=cpu_percent(before.cpu, now.cpu),
        memory_usage_mib=now.memory.working_set_bytes.value / MIB,
        memory_limit_mib=min(bounds) / MIB,
        block_read=read,
        block_write=written,
        net_rx=received,
        net_tx=sent,
    )


def cpu_percent(before: Any, now: Any) -> float:
    """Of one core, between two of CRI's samples of CPU time."""
    apart = now.timestamp - before.timestamp
    used = now.usage_core_nano_seconds.value - before.usage_core_nano_seconds.value
    return max(0.0, used / apart * 100.0) if apart > 0 else 0.0


def network(pid: int) -> tuple[int, int]:
    """Bytes received and sent by all interfaces but loopback in the network of this process; 0 where it is gone."""
    received = sent = 0
    for line in _lines(Path(f"/proc/{pid}/net/dev")) if pid else ():
        name, colon, rest = line.partition(":")
        numbers = rest.split()
        if colon and name.strip() != "lo" and len(numbers) >= 9:
            received, sent = received + int(numbers[0]), sent + int(numbers[8])
    return received, sent


def blocks(pid: int, root: Path = Path("/sys/fs/cgroup")) -> tuple[int, int]:
    """Bytes read and written by the control group of this process, cgroup v1 or v2."""
    for line in _lines(Path(f"/proc/{pid}/cgroup")) if pid else ():
        _, controllers, group = line.split(":", 2)
        folder = group.strip("/")
        if "blkio" in controllers.split(","):
            return _sum_v1(_lines(root / "blkio" / folder / "blkio.throttle.io_service_bytes_recursive"))
        if not controllers and (root / folder / "io.stat").exists():
            return _sum_v2(_lines(root / folder / "io.stat"))
    return 0, 0


def _sum_v1(lines: Iterable[str]) -> tuple[int, int]:
    read = written = 0
    for line in lines:  # 8:0 Read 4096
        words = line.split()
        if len(words) == 3 and words[2].isdigit():
            read += int(words[2]) if words[1] == "Read" else 0
            written += int(words[2]) if words[1] == "Write" else 0
    return read, written


def _sum_v2(lines: Iterable[str]) -> tuple[int, int]:
    read = written = 0
    for line in lines:  # 8:0 rbytes=4096 wbytes=0 …
        fields = dict(word.partition("=")[::2] for word in line.split()[1:])
        read, written = read + int(fields.get("rbytes", 0)), written + int(fields.get("wbytes", 0))
    return read, written


def _lines(path: Path) -> Sequence[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return ()


async def _usage(client: CriClient, engine_id: str, uuid: str) -> Any:
    try:
        answer = await client.call("ContainerStats", container_id=engine_id)
    except EngineError as error:
        # The engine's words for a container without processes are many; what it is tells its state.
        status = await client.call("ContainerStatus", container_id=engine_id)
        if status.status.state == facts.RUNNING:
            raise
        raise conflict(f"Container {uuid} is not running") from error
    return answer.stats
