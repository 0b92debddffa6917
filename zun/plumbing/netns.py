"""Network namespaces: enter one for the length of a block, in the calling thread only."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def inside(namespace: int) -> Iterator[None]:
    """The thread is in ``namespace`` (a file descriptor): sockets made and ``/proc/sys/net`` opened here belong to it.
    For worker threads, never the event loop's. Raises OSError."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(namespace)
        try:
            yield
        finally:
            _enter(own)
    finally:
        os.close(own)


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """The thread is in the process's own namespace, from within ``inside``. Raises OSError."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with inside(own):
            yield
    finally:
        os.close(own)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
