"""What is watched of the product while it is fuzzed: its log and its memory."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from statistics import median

import psutil

from tests.support.live import Live

WARM_UP = 0.2
"""Part of a run after which memory is to be flat."""
GROWTH = 48
"""MiB by which memory may still grow: what an allocator keeps of bodies of megabytes, and caches that are bounded."""
_BAD = re.compile(r"^.*(?: ERROR | CRITICAL |Traceback \(most recent call last\)|Exception in |never awaited).*$", re.M)
_FAILED = re.compile(r"action=request operation=\S+ status=5\d\d.*")
_REQUEST = re.compile(r"operation=(\S+) status=(\d+)")
_MIB = 1024 * 1024


class Log:
    """The product's log from here on."""

    def __init__(self, zun: Live) -> None:
        self._file = zun.state.log_file
        self._start = self._file.stat().st_size

    def text(self) -> str:
        """What was written since."""
        with self._file.open("rb") as file:
            file.seek(self._start)
            return file.read().decode(errors="replace")

    def faults(self) -> list[str]:
        """Lines of level ERROR and above, tracebacks, and answers of 5xx."""
        text = self.text()
        return [found[0].strip()[:400] for pattern in (_BAD, _FAILED) for found in pattern.finditer(text)]

    def requests(self) -> list[tuple[str, str]]:
        """Operation and status of every request."""
        return _REQUEST.findall(self.text())


@dataclass
class Memory:
    """The resident memory of the product, looked at every second by a thread of its own."""

    zun: Live
    samples: list[float] = field(default_factory=list)
    """MiB."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Memory:
        assert self.zun.process is not None
        self._process = psutil.Process(self.zun.process.pid)
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.is_set():
            self.samples.append(self._process.memory_info().rss / _MIB)
            self._stop.wait(1)

    @property
    def ends(self) -> tuple[float, float]:
        """MiB after the warm-up and at the end: medians of a tenth of the run each."""
        tenth = max(1, len(self.samples) // 10)
        start = int(len(self.samples) * WARM_UP)
        return median(self.samples[start : start + tenth]), median(self.samples[-tenth:])

    def faults(self) -> list[str]:
        """Empty, when memory was flat."""
        warm, last = self.ends
        if last - warm <= GROWTH:
            return []
        return [f"memory grew from {warm:.0f} to {last:.0f} MiB, by more than {GROWTH} MiB"]
