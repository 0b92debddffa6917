"""Has the agent of a process that was just started begun to work? What the API tells of its host may be of the process
before."""

from __future__ import annotations

import re
from pathlib import Path

_BEGUN = re.compile(rb"action=start host=\S+ instance=\S+ result=ready")


def size(log: Path) -> int:
    """Bytes of the log before a start."""
    return log.stat().st_size if log.exists() else 0


def agent_began(log: Path, before: int) -> bool:
    """``before``: bytes of the log that are of earlier processes."""
    if not log.exists():
        return False
    with log.open("rb") as file:
        file.seek(before)
        return _BEGUN.search(file.read()) is not None
