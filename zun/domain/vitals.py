"""Is a process well? Its loops say so, each with the longest it may be silent; one slow container is no loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


class Vitals:
    """The loops of one process. May be read from any thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._until: dict[str, float] = {}

    def beat(self, loop: str, within: float) -> None:
        """The loop is well, and will say so again within so many seconds."""
        self._until[loop] = self._monotonic() + within

    def silent(self) -> Sequence[str]:
        """Loops that should have said so by now, in alphabetical order; empty when all is well."""
        now = self._monotonic()
        return sorted(loop for loop, until in tuple(self._until.items()) if until < now)
