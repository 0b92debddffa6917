"""Processes of this host that the engine started in a container beside its first one. Blocking; for a thread."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil

from zun.runtime.cri.commands import alive, kill


def roots(pid: int) -> frozenset[int]:
    """All that the engine started in the container of ``pid`` beside its first process: what entered it from outside
    has a parent outside. Empty where processes cannot be seen: a sandbox with a kernel of its own has none here, and
    what stands for it is among the host's."""
    if not pid:
        return frozenset()
    try:
        inside = os.stat(f"/proc/{pid}/ns/pid").st_ino
        shim = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if os.stat(f"/proc/{shim}/ns/pid").st_ino == inside:
            return frozenset()
    except (OSError, ValueError, IndexError):
        return frozenset()
    found = set()
    for child in _children(shim):
        with contextlib.suppress(OSError):
            if child != pid and os.stat(f"/proc/{child}/ns/pid").st_ino == inside:
                found.add(child)
    return frozenset(found)


def _children(pid: int) -> set[int]:
    found: set[int] = set()
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found.update(map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split()))
    except OSError:
        return found
    return found


def kill_tree(root: psutil.Process) -> int:
    """Those below it first seen, then all at once. A number that was given anew is not touched."""
    family = [root]
    with contextlib.suppress(psutil.Error):
        family += root.children(recursive=True)
    return kill([one for one in family if alive(one)])
