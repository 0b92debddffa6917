"""The kernel's news of new directories, by its inotify calls; blocking reads belong in a thread."""

from __future__ import annotations

import ctypes
import os
import select
import struct
from collections.abc import Iterator
from pathlib import Path

_IN_CREATE = 0x100
_IN_ONLYDIR = 0x01000000
_IN_CLOEXEC = os.O_CLOEXEC
_IN_NONBLOCK = os.O_NONBLOCK
_HEAD = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class NewDirectories:
    """Names of what is made in the watched folders."""

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
