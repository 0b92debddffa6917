"""Is the engine one of this machine, whose processes and mounts are ours to see and to end? Blocking."""

from __future__ import annotations

import os
import socket
import struct
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

_CREDENTIALS = struct.Struct("3i")
_SECONDS = 2.0
_ENGINES = frozenset({"containerd", "crio", "k3s", "k3s-server", "k3s-agent", "rke2", "kubelite"})


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """``began``: seconds since 1970. ``alone``: no other process here serves CRI."""

    pid: int
    began: float
    alone: bool


class OutOfReach(Exception):
    """Why its processes and mounts cannot be judged from here."""


def engine_process(path: str) -> EngineProcess:
    """The process that listens at this socket. Raises OutOfReach, OSError when nobody does."""
    if os.geteuid():
        raise OutOfReach("this process is not root")
    pid = _listener(path)
    try:
        if not pid or os.stat(f"/proc/{pid}/ns/mnt").st_ino != os.stat("/proc/self/ns/mnt").st_ino:
            raise OutOfReach("it runs in other namespaces, or on another machine")
        process = psutil.Process(pid)
        if not process.name().startswith(tuple(_ENGINES)):
            raise OutOfReach(f"its socket is another program's: {process.name()}")
        return EngineProcess(pid, _began(pid), not _others(pid))
    except (psutil.Error, FileNotFoundError) as error:
        raise ProcessLookupError(f"process {pid} has ended") from error


def _began(pid: int) -> float:
    """Up to a hundredth of a second: psutil's own answer may be a whole one too early."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return _booted() + (ticks + 1) / os.sysconf("SC_CLK_TCK")


def _booted() -> float:
    """By two clocks; where this process is held up between them, they do not belong together. Never too late: what is
    older than an engine may be removed."""
    readings = []
    for _ in range(5):
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        now = time.time()
        after = time.clock_gettime(time.CLOCK_BOOTTIME)
        readings.append((after - before, now - after))
    return min(readings)[1]


def _listener(path: str) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_SECONDS)
        connection.connect(path)
        told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid: int = _CREDENTIALS.unpack(told)[0]
    return pid


def _others(pid: int) -> bool:
    """dockerd's own containerd serves no CRI."""
    for process in psutil.process_iter(["name"]):
        try:
            if process.info["name"] in _ENGINES and process.pid != pid:
                parent = process.parent()
                if parent is None or parent.name() != "dockerd":
                    return True
        except psutil.Error:
            continue
    return False
