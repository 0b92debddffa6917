"""containerd's shims on this machine, and their bundles: the folders of what they run. Blocking; for a thread."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from zun.runtime.cri.configs import NAMESPACE

ENGINE_NAMESPACE = "k8s.io"
"""containerd's name for all that is made over CRI."""
_ID = re.compile(r"[0-9a-f]{64}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_GONE = " (deleted)"


@dataclass(frozen=True, slots=True)
class Shim:
    """``ident``: the sandbox whose processes it keeps. ``bundle``: where it works, there or not."""

    ident: str
    process: psutil.Process
    program: str
    address: str
    bundle: Path

    @property
    def idle(self) -> bool:
        """Does nothing run below it?"""
        with contextlib.suppress(psutil.Error):
            return not self.process.children()
        return True


def running(socket: str) -> Sequence[Shim]:
    """Shims of the engine with this socket, also those that are just being started."""
    return [shim for shim in map(_shim, _processes()) if shim is not None and _same(shim.address, socket)]


def bundles(folder: Path) -> Sequence[Path]:
    """Of everything that containerd's CRI runs, or has forgotten."""
    try:
        return [path for path in folder.iterdir() if _ID.fullmatch(path.name)]
    except OSError:
        return []


def sandbox_of(bundle: Path) -> str:
    """The id of the sandbox that the bundle is of, or belongs to; empty when it does not tell."""
    return str(_annotations(bundle).get("io.kubernetes.cri.sandbox-id") or "")


def capsule_of(bundle: Path, logs: Path) -> str:
    """The capsule whose sandbox the bundle is: only of an agent that keeps its capsules' logs below ``logs``; else
    empty. An owner's label is not told there, the folder of logs is, and no two agents have the same one."""
    told = _annotations(bundle)
    folder = Path(str(told.get("io.kubernetes.cri.sandbox-log-directory") or "/"))
    ours = told.get("io.kubernetes.cri.sandbox-namespace") == NAMESPACE and folder.parent == logs
    return folder.name if ours and _UUID.fullmatch(folder.name) else ""


def namespace_of(bundle: Path) -> str:
    """The path of the network namespace that it joins; empty when it does not tell."""
    for one in (_config(bundle).get("linux") or {}).get("namespaces") or ():
        if one.get("type") == "network":
            return str(one.get("path") or "")
    return ""


def _annotations(bundle: Path) -> Mapping[str, Any]:
    return _config(bundle).get("annotations") or {}


def _config(bundle: Path) -> Mapping[str, Any]:
    try:
        found = json.loads((bundle / "config.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _processes() -> Sequence[tuple[int, list[str]]]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                words = Path("/proc", name, "cmdline").read_bytes().decode(errors="replace").split("\0")
                if "containerd-shim" in words[0]:
                    found.append((int(name), words))
    return found


def _shim(found: tuple[int, list[str]]) -> Shim | None:
    pid, words = found
    given = {word.lstrip("-"): value for word, value in pairwise(words) if word.startswith("-")}
    if given.get("namespace") != ENGINE_NAMESPACE or not _ID.fullmatch(given.get("id", "")):
        return None
    try:
        bundle = os.readlink(f"/proc/{pid}/cwd").removesuffix(_GONE)
        program = os.readlink(f"/proc/{pid}/exe").removesuffix(_GONE)
        process = psutil.Process(pid)
    except (OSError, psutil.Error):
        return None
    return Shim(given["id"], process, program, given.get("address", ""), Path(bundle))


def _same(address: str, socket: str) -> bool:
    return os.path.realpath(address.removeprefix("unix://")) == os.path.realpath(socket)
