"""Who may use the testbed now: many tests side by side, or one that takes a service of it away, alone."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(tempfile.gettempdir()) / "zun-test-turns"


@contextmanager
def turn(*, alone: bool, folder: Path = FOLDER) -> Iterator[None]:
    """Waits for it, whichever processes have the others (file locks). Who wants to be alone stands in the door, so that
    nobody enters before."""
    folder.mkdir(mode=0o777, exist_ok=True)
    with _opened(folder / "room") as room:
        with _opened(folder / "door") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Closing gives its lock back."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
