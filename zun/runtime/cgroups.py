"""Where engines put the processes of a container: its control group, in the layouts of cgroup v1 and v2. Pure but for
reading the file system."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_CONTROLLERS = ("pids", "devices", "memory", "cpu")
_ID = re.compile(r"[0-9a-f]{64}")


def folders(root: Path = _ROOT) -> Sequence[Path]:
    """Folders in which an engine may make a container's group: of the cgroupfs driver and of systemd's."""
    bases = [root] if (root / "cgroup.controllers").exists() else [root / name for name in _CONTROLLERS]
    base = next((one for one in bases if one.is_dir()), root)
    return [base / "docker", base / "system.slice"]


def engine_id(name: str) -> str | None:
    """The container a group of this name belongs to: ``<id>``, ``docker-<id>.scope``."""
    found = _ID.search(name)
    return found.group() if found else None


def processes(ident: str, places: Sequence[Path]) -> Sequence[int]:
    """Process ids of the container's group, as this process sees them; none when there is no group."""
    for place in places:
        for name in (ident, f"docker-{ident}.scope"):
            try:
                return [int(word) for word in (place / name / "cgroup.procs").read_text().split()]
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:  # the group is on its way out
                return []
    return []


def first_process(pids: Sequence[int], own_namespace: tuple[int, int]) -> int | None:
    """The process that is number 1 of a container's and has a network namespace of its own already."""
    for pid in pids:
        try:
            found = os.stat(f"/proc/{pid}/ns/net")
            if (found.st_dev, found.st_ino) != own_namespace and _number_inside(pid) == 1:
                return pid
        except OSError:  # ended meanwhile
            continue
    return None


def _number_inside(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return 0
