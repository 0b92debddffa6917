"""The file of a sized volume: sparse, holding one file system. Made whole or not at all."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from zun.volume import filesystem
from zun.volume.command import CommandFailed

_GIB = 1024**3


async def make(path: Path, size_gib: int, fstype: str) -> None:
    """A new sparse file with an empty file system. Raises CommandFailed, OSError; then there is no file."""
    statistics = os.statvfs(path.parent)
    free = statistics.f_bavail * statistics.f_frsize
    if free < size_gib * _GIB:
        raise CommandFailed(f"the disk of {path.parent} has {free // _GIB} GiB left")
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.ftruncate(descriptor, size_gib * _GIB)
        finally:
            os.close(descriptor)
        await filesystem.make(str(path), fstype)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(path)
        raise


@asynccontextmanager
async def locked(path: Path, patience: float = 60.0) -> AsyncIterator[None]:
    """One process at a time mounts or unmounts the file: two loop devices over it would ruin the file system.

    Raises FileNotFoundError, CommandFailed when another holds it for longer than ``patience`` seconds.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pause = 0.01
        while not _try_lock(descriptor):
            if patience <= 0:
                raise CommandFailed(f"{path} is being mounted by another process for too long")
            await asyncio.sleep(pause)
            patience -= pause
            pause = min(pause * 2, 0.5)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
