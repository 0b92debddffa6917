"""Interface data of capsules, handed from the node's agent to its CNI daemon as files (S2.7): one a capsule, written
before the sandbox is made. Blocking.

Beside it the daemon notes which sandbox has the interfaces, so that a late DEL of a former one takes nothing away.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from zun.domain.errors import ZunError
from zun.plumbing.vif import Route, Vif

_VERSION = 1
_DATA = ".json"
_SANDBOX = ".sandbox"
_LONGEST = 1 << 20


class HandoverBroken(ZunError):
    """A file that cannot be read as interface data; the text names it."""


@dataclass(frozen=True, slots=True)
class Handover:
    """What one ADD plugs. ``awaited``: the ports are Neutron's, and ADD waits until they are ACTIVE."""

    capsule: str
    vifs: Sequence[Vif]
    awaited: bool = False
    name_servers: Sequence[str] = ()


class Handovers:
    """All of a node, in ``<state_path>/cni``: for root only. ``owner`` marks the devices made for them."""

    def __init__(self, state_path: str) -> None:
        self.root = Path(state_path).resolve() / "cni"
        self._folder = self.root / "capsules"
        self.owner = f"cni/{hashlib.sha256(str(self.root).encode()).hexdigest()[:16]}"

    def put(self, handover: Handover) -> None:
        """Store it, whole or not at all. Raises OSError."""
        data = {"version": _VERSION, **asdict(handover)}
        self._write(handover.capsule, _DATA, json.dumps(data, indent=1))

    def get(self, capsule: str) -> Handover | None:
        """None when there is none. Raises HandoverBroken, OSError."""
        text = self._read(capsule, _DATA)
        if text is None:
            return None
        try:
            return _parsed(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            path = self._path(capsule, _DATA)
            raise HandoverBroken(f"{path} is no interface data of this version: {error!r}.") from error

    def there(self, capsule: str) -> bool:
        """Is it still stored?"""
        return self._path(capsule, _DATA).exists()

    def note(self, capsule: str, sandbox: str) -> None:
        """The interfaces are this sandbox's from now on. Raises OSError."""
        self._write(capsule, _SANDBOX, sandbox)

    def noted(self, capsule: str) -> str | None:
        """The sandbox that has the interfaces, None when none is known to."""
        return self._read(capsule, _SANDBOX) or None

    def forget(self, capsule: str) -> None:
        """No sandbox has the interfaces any more."""
        self._path(capsule, _SANDBOX).unlink(missing_ok=True)

    def remove(self, capsule: str) -> None:
        """Nothing is stored of the capsule."""
        self._path(capsule, _DATA).unlink(missing_ok=True)
        self.forget(capsule)

    def capsules(self) -> frozenset[str]:
        """Capsules of which anything is stored."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return frozenset()
        return frozenset(stem for stem, suffix in map(os.path.splitext, names) if suffix in (_DATA, _SANDBOX))

    def _path(self, capsule: str, suffix: str) -> Path:
        """Raises ValueError: what becomes a name of a file has to be a uuid."""
        return self._folder / f"{UUID(capsule)}{suffix}"

    def _read(self, capsule: str, suffix: str) -> str | None:
        try:
            with self._path(capsule, suffix).open(encoding="utf-8", errors="replace") as file:
                return file.read(_LONGEST)
        except FileNotFoundError:
            return None

    def _write(self, capsule: str, suffix: str, text: str) -> None:
        path = self._path(capsule, suffix)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._folder, prefix="~")  # 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).replace(path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise


def _parsed(data: Any) -> Handover:
    if data["version"] != _VERSION:
        raise ValueError(f"version {data['version']}")
    return Handover(
        capsule=str(UUID(data["capsule"])),
        vifs=tuple(_vif(dict(row)) for row in data["vifs"]),
        awaited=bool(data["awaited"]),
        name_servers=tuple(data["name_servers"]),
    )


def _vif(row: dict[str, Any]) -> Vif:
    routes = tuple(Route(**route) for route in row.pop("routes"))
    return Vif(**{**row, "addresses": tuple(row["addresses"]), "routes": routes})
