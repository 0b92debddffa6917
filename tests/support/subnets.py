"""Address ranges for products under test: no two on this machine at once, nor a user's own."""

from __future__ import annotations

import fcntl
import os
import random
import tempfile
from pathlib import Path

_CLAIMS = Path(tempfile.gettempdir()) / "zun-test-subnets"
_COUNT = 64


class SubnetClaim:
    """100.64.0.0/16 … 100.127.0.0/16, one of them while this object is open (a file lock)."""

    def __init__(self) -> None:
        _CLAIMS.mkdir(mode=0o777, exist_ok=True)
        for number in random.sample(range(_COUNT), _COUNT):
            descriptor = os.open(_CLAIMS / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            self._descriptor = descriptor
            self.cidr = f"100.{64 + number}.0.0/16"
            return
        raise AssertionError(f"all {_COUNT} test subnets of {_CLAIMS} are in use")

    def close(self) -> None:
        os.close(self._descriptor)
