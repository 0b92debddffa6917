"""Network namespaces that a killed engine has mounted for sandboxes it does not have. Blocking; for a thread."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from zun.plumbing.netns import inside

SHARED = Path("/var/run/netns")
"""Where containerd mounts them unless it is told to do so below its own folder."""
_NAMES = "cni-*"
_DETACH = 2
_OF_THE_KERNEL = frozenset({"lo", "tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip6tnl0", "ip6gre0"})
_libc = ctypes.CDLL(None, use_errno=True)


def empty(folder: Path, before: float) -> Sequence[Path]:
    """Those made earlier than ``before`` (seconds since 1970) in which there is no interface and no process."""
    found = [path for path in folder.glob(_NAMES) if _made(path) < before]
    if not found:
        return []
    lived_in = _of_processes()
    return [path for path in found if not _lives(path, lived_in)]


def not_joined(paths: Sequence[Path], specs: Iterable[bytes]) -> Sequence[Path]:
    """Those of ``paths`` that none of these runtime configurations joins."""
    joined = set[str]()
    for spec in specs:
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            linux: Any = json.loads(spec).get("linux") or {}
            for one in linux.get("namespaces") or ():
                if one.get("type") == "network" and one.get("path"):
                    joined.add(os.path.realpath(one["path"]))
    return [path for path in paths if os.path.realpath(path) not in joined]


def unmount(path: Path) -> None:
    """All mounts there; none is success. Raises OSError."""
    while os.path.ismount(path):
        if _libc.umount2(os.fsencode(path), _DETACH) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"umount {path}: {os.strerror(number)}")


def remove(path: Path) -> None:
    """Gone, or never there. Raises OSError."""
    unmount(path)
    path.unlink(missing_ok=True)


def _made(path: Path) -> float:
    try:
        return path.stat().st_ctime
    except OSError:
        return float("inf")


def _lives(path: Path, lived_in: frozenset[int]) -> bool:
    try:
        if not os.path.ismount(path):
            return False
        if path.stat().st_ino in lived_in:
            return True
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with inside(descriptor):
                lines = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
        finally:
            os.close(descriptor)
    except OSError:
        return True
    return bool({line.partition(":")[0].strip() for line in lines} - _OF_THE_KERNEL)


def _of_processes() -> frozenset[int]:
    found = set[int]()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                found.add(os.stat(f"/proc/{name}/ns/net").st_ino)
    return frozenset(found)
