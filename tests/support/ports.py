"""Ports for servers under test: no two test processes choose from the same ones, and no connection going out takes one
while its server is not there (it is not yet started, or it is started again)."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

_CLAIMS = Path(tempfile.gettempdir()) / "zun-test-ports"
_FIRST, _EACH, _COUNT = 20000, 190, 64
"""64 parts of 190 ports, below those that the system gives to connections going out."""


def free_port() -> int:
    """One that this process has not given lately, and nobody listens on now."""
    for port in itertools.islice(_ours(), _EACH):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"all {_EACH} ports of this process are in use")


@functools.cache
def _ours() -> Iterator[int]:
    """The ports of the part that this process claims for its life (a file lock), over and over."""
    _CLAIMS.mkdir(mode=0o777, exist_ok=True)
    for part in random.sample(range(_COUNT), _COUNT):
        descriptor = os.open(_CLAIMS / str(part), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        return itertools.cycle(range(_FIRST + part * _EACH, _FIRST + (part + 1) * _EACH))
    raise AssertionError(f"all {_COUNT} parts of {_CLAIMS} are in use")
