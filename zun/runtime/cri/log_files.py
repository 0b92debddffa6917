"""Where a member's log files are: a folder for each capsule, in it one for each member, in it a file for each attempt.

Files of an attempt: ``<attempt>.log``, and what was turned over, older with a higher number: ``<attempt>.log.1`` …
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

_FILE = re.compile(r"(\d+)\.log(?:\.(\d+))?")
_ATTEMPTS = 10
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class LogFiles:
    """Blocking; for a thread. ``root``: absolute."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def make(self, capsule: str, member: str = "") -> str:
        """The folder, made if need be: the engine makes files only. Raises OSError."""
        folder = self._root / capsule / member
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        return str(folder)

    @staticmethod
    def relative(member: str, attempt: int) -> str:
        """Of an attempt's file, below the capsule's folder."""
        return f"{member}/{attempt}.log"

    def current(self, capsule: str, member: str, attempt: int) -> Path:
        """The file that an attempt's container is writing."""
        return self._root / capsule / self.relative(member, attempt)

    def forget_before(self, capsule: str, member: str, attempt: int) -> None:
        """Only the last attempts' files are kept: a member may be started again for ever."""
        for path in sorted_files(self._root / capsule / member):
            if int(path.name.partition(".")[0]) <= attempt - _ATTEMPTS:
                path.unlink(missing_ok=True)

    def remove(self, capsule: str) -> None:
        if _UUID.fullmatch(capsule):
            shutil.rmtree(self._root / capsule, ignore_errors=True)

    def folder(self, member: str) -> Path | None:
        """Where the files of the member are; None when there is none."""
        return next(iter(self._root.glob(f"*/{member}")), None) if _UUID.fullmatch(member) else None

    def of(self, member: str) -> Sequence[Path] | None:
        """All files of the member, newest first; None when it has no folder."""
        folder = self.folder(member)
        return sorted_files(folder) if folder is not None else None


def sorted_files(folder: Path) -> Sequence[Path]:
    """Log files of one member, newest first."""
    found = []
    for path in folder.iterdir():
        match = _FILE.fullmatch(path.name)
        if match:
            found.append((-int(match[1]), int(match[2] or 0), path))
    return [path for _, _, path in sorted(found)]
