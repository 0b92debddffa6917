"""The kernel's news of folders, by its inotify calls: of new directories, and that anything in one has changed."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import select
import struct
from collections.abc import Iterator
from pathlib import Path

_IN_MODIFY, _IN_MOVED, _IN_CREATE, _IN_DELETE = 0x2, 0xC0, 0x100, 0x200
_IN_ONLYDIR = 0x01000000
_IN_CLOEXEC = os.O_CLOEXEC
_IN_NONBLOCK = os.O_NONBLOCK
_HEAD = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class NewDirectories:
    """Names of what is made in the watched folders; ``wait`` blocks and belongs in a thread."""

    def __init__(self) -> None:
        """Raises OSError when the kernel gives no more instances."""
        self._handle = _checked(_libc.inotify_init1(_IN_CLOEXEC | _IN_NONBLOCK))
        self._watched: set[Path] = set()

    def watch(self, folder: Path) -> None:
        """From now on; a folder that does not exist is left out, and may be asked for again later."""
        if folder in self._watched or not folder.is_dir():
            return
        _checked(_libc.inotify_add_watch(self._handle, os.fsencode(folder), _IN_CREATE | _IN_ONLYDIR))
        self._watched.add(folder)

    def wait(self, seconds: float, wake: int) -> Iterator[str]:
        """What came within ``seconds``; readable data on the descriptor ``wake`` ends the wait."""
        ready, _, _ = select.select([self._handle, wake], [], [], seconds)
        if self._handle in ready:
            yield from _names(os.read(self._handle, 65536))

    def close(self) -> None:
        os.close(self._handle)


class FolderChanges:
    """Did anything change in a folder since it was asked last? For the event loop."""

    def __init__(self, folder: Path) -> None:
        """From now on. Raises OSError."""
        self._handle = _checked(_libc.inotify_init1(_IN_CLOEXEC | _IN_NONBLOCK))
        try:
            wanted = _IN_MODIFY | _IN_MOVED | _IN_CREATE | _IN_DELETE | _IN_ONLYDIR
            _checked(_libc.inotify_add_watch(self._handle, os.fsencode(folder), wanted))
        except OSError:
            os.close(self._handle)
            raise
        self._changed = asyncio.Event()

    def __enter__(self) -> FolderChanges:
        asyncio.get_running_loop().add_reader(self._handle, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)

    def _read(self) -> None:
        os.read(self._handle, 65536)
        self._changed.set()

    async def wait(self, seconds: float) -> None:
        """Until something has changed, or ``seconds`` are over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()


def _names(data: bytes) -> Iterator[str]:
    at = 0
    while at < len(data):
        *_, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        yield os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
