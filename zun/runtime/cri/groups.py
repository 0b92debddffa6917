"""The control groups that capsules live in, with the limits of the whole capsule, and the pids limit of each member.

CRI engines put containers below the parent they are told, and limit nothing there. cgroup v1 and v2, by plain files:
the node's agent is root beside the engine.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from zun.runtime.docker_facts import MIB
from zun.runtime.docker_spec import CPU_PERIOD, cpu_limits

_ROOT = Path("/sys/fs/cgroup")
_CONTROLLERS = ("cpu", "memory", "pids")
_V1 = {"memory": "memory.limit_in_bytes", "pids": "pids.max"}
_V2 = {"memory": "memory.max", "pids": "pids.max"}


class Groups:
    """Groups below ``parent`` (``/zun``; empty: none are made and the engine's own choice holds)."""

    def __init__(self, parent: str, root: Path = _ROOT) -> None:
        self._parent = parent.strip("/")
        self._root = root
        self._unified = (root / "cgroup.controllers").exists()

    def of(self, capsule: str, member: str = "") -> str:
        """The group's name as CRI takes it."""
        return "/" + "/".join(filter(None, (self._parent, capsule, member))) if self._parent else ""

    def ensure(self, capsule: str, *, cpu_millicores: int, memory_mib: int) -> None:
        """Make the capsule's group with these limits, 0 = none. Raises OSError."""
        if not self._parent:
            return
        self._make(self.of(capsule))
        self._limit_cpu(self.of(capsule), cpu_millicores)
        self._write(self.of(capsule), "memory", memory_mib * MIB if memory_mib else None)

    def ensure_member(self, capsule: str, member: str, pids: int) -> str:
        """The group that a member's containers are to be put below: its own where it needs a limit. Raises OSError."""
        if not pids or not self._parent:
            return self.of(capsule)
        self._make(self.of(capsule, member))
        self._write(self.of(capsule, member), "pids", pids)
        return self.of(capsule, member)

    def known_member(self, capsule: str, member: str) -> str:
        """As ``ensure_member`` answered for a member that was made before."""
        own = self.of(capsule, member)
        return own if own and self._folder(own, "pids").is_dir() else self.of(capsule)

    def widen(self, capsule: str, *, cpu_millicores: int | None, memory_mib: int | None) -> None:
        """The capsule gets at least so much, where it has a limit; 0 lifts the limit. A kernel refuses a member more
        than its capsule has. Raises OSError."""
        group = self.of(capsule)
        if cpu_millicores is not None:
            now = self._cpu(group)
            if now is not None and (not cpu_millicores or cpu_millicores > now):
                self._limit_cpu(group, cpu_millicores)
        if memory_mib is not None:
            limit = self.memory(capsule)
            if limit is not None and (not memory_mib or memory_mib * MIB > limit):
                self._write(group, "memory", memory_mib * MIB if memory_mib else None)

    def memory(self, capsule: str) -> int | None:
        """The capsule's limit in bytes, None without one."""
        text = self._read(self.of(capsule), "memory")
        # v1 tells no limit as the largest multiple of a page.
        return int(text) if text.isdigit() and int(text) < 1 << 62 else None

    def remove(self, capsule: str, member: str = "") -> bool:
        """The group and all below it, in every hierarchy. True: something is left, it still has processes."""
        name, left = self.of(capsule, member), False
        if not name:
            return False
        for base in self._hierarchies():
            for folder, _, _ in sorted(os.walk(base / name.strip("/"), topdown=False), key=_deepest):
                try:
                    os.rmdir(folder)
                except FileNotFoundError:
                    continue
                except OSError:
                    left = True
        return left

    def kill(self, capsule: str, member: str = "") -> int:
        """Everything that still runs in the group, of whom the engine knows nothing any more; returns how many."""
        name, found = self.of(capsule, member), set[int]()
        for base in self._hierarchies() if name else ():
            for folder, _, _ in os.walk(base / name.strip("/")):
                with contextlib.suppress(OSError, ValueError):
                    found |= {int(word) for word in (Path(folder) / "cgroup.procs").read_text().split()}
        for pid in found - {0}:  # 0: of a namespace of processes that is not seen from here
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return len(found)

    def _hierarchies(self) -> Iterable[Path]:
        if self._unified:
            return [self._root]
        with contextlib.suppress(OSError):
            return {path.resolve() for path in self._root.iterdir() if path.is_dir()}
        return []

    def _folder(self, group: str, controller: str) -> Path:
        base = self._root if self._unified else self._root / controller
        return base / group.strip("/")

    def _make(self, group: str) -> None:
        for controller in _CONTROLLERS:
            folder = self._folder(group, controller)
            if not folder.parents[len(group.strip("/").split("/")) - 1].is_dir():
                raise FileNotFoundError(f"no control groups of {controller} at {folder.parent}")
            folder.mkdir(parents=True, exist_ok=True)
            if self._unified:
                break
        if self._unified:
            self._delegate(group)

    def _delegate(self, group: str) -> None:
        """v2: a group has the controllers that its parent passes on."""
        words = " ".join(f"+{name}" for name in _CONTROLLERS)
        folder = self._root
        for part in group.strip("/").split("/"):
            (folder / "cgroup.subtree_control").write_text(words)
            folder = folder / part

    def _limit_cpu(self, group: str, millicores: int) -> None:
        limits = cpu_limits(millicores)
        folder = self._folder(group, "cpu")
        if self._unified:
            quota = "max" if limits["CpuQuota"] < 0 else str(limits["CpuQuota"])
            (folder / "cpu.max").write_text(f"{quota} {CPU_PERIOD}")
            (folder / "cpu.weight").write_text(str(_weight(limits["CpuShares"])))
            return
        (folder / "cpu.cfs_period_us").write_text(str(CPU_PERIOD))
        (folder / "cpu.cfs_quota_us").write_text(str(limits["CpuQuota"]))
        (folder / "cpu.shares").write_text(str(limits["CpuShares"]))

    def _cpu(self, group: str) -> float | None:
        """The limit in thousandths of a core, None without one."""
        folder = self._folder(group, "cpu")
        with contextlib.suppress(OSError, ValueError):
            if self._unified:
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota, period = ((folder / name).read_text() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
            if quota != "max" and int(quota) > 0:
                return int(quota) * 1000 / int(period)
        return None

    def _file(self, group: str, controller: str) -> Path:
        names: Mapping[str, str] = _V2 if self._unified else _V1
        return self._folder(group, controller) / names[controller]

    def _write(self, group: str, controller: str, value: int | None) -> None:
        none = "max" if self._unified or controller == "pids" else "-1"
        self._file(group, controller).write_text(none if value is None else str(value))

    def _read(self, group: str, controller: str) -> str:
        try:
            return self._file(group, controller).read_text().strip() if self._parent else ""
        except OSError:
            return ""


class Slices(Groups):
    """Where systemd makes the engine's control groups: each capsule in a slice, which systemd makes and removes. Limits
    of a whole capsule and of pids cannot be set there from outside."""

    def of(self, capsule: str, member: str = "") -> str:
        stem = "-".join(filter(None, self._parent.split("/")))
        return f"{stem}-{capsule.replace('-', '')}.slice" if stem else ""

    def ensure(self, capsule: str, *, cpu_millicores: int, memory_mib: int) -> None:
        return

    def ensure_member(self, capsule: str, member: str, pids: int) -> str:
        return self.of(capsule)

    def known_member(self, capsule: str, member: str) -> str:
        return self.of(capsule)

    def widen(self, capsule: str, *, cpu_millicores: int | None, memory_mib: int | None) -> None:
        return

    def memory(self, capsule: str) -> int | None:
        return None

    def remove(self, capsule: str, member: str = "") -> bool:
        return False

    def kill(self, capsule: str, member: str = "") -> int:
        return 0


def _weight(shares: int) -> int:
    """cgroup v1's 2 … 262144 as v2's 1 … 10000."""
    return max(1, min(10000, 1 + (shares - 2) * 9999 // 262142))


def _deepest(row: tuple[str, Sequence[str], Sequence[str]]) -> int:
    return -row[0].count("/")
