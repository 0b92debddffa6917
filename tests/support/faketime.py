"""A machine's wall clock that a test moves, for one process and what that starts; its monotonic clocks go on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

_FOLDERS = ("/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime")
_LIBRARY = "libfaketime.so.1"


class MovedClock:
    """``before`` are words to put before a command, which then has this clock."""

    def __init__(self, folder: Path, seconds: int = 0) -> None:
        self._file = folder / "clock"
        self.move(seconds)

    def move(self, seconds: int) -> None:
        """So far ahead of the real one; behind it when negative."""
        written = self._file.with_suffix(".new")
        written.write_text(f"{seconds:+d}\n")
        os.replace(written, self._file)

    @property
    def before(self) -> Sequence[str]:
        found = [path for path in (Path(folder, _LIBRARY) for folder in _FOLDERS) if path.exists()]
        if not found:
            pytest.fail("libfaketime is not installed; `make test` installs it.")
        return [
            "/usr/bin/env",
            f"LD_PRELOAD={found[0]}",
            f"FAKETIME_TIMESTAMP_FILE={self._file}",
            "FAKETIME_NO_CACHE=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
            "NO_FAKE_STAT=1",
        ]
