"""The few commands a simulated container knows. Used by ``simulated.py`` only."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Sequence

from zun.domain.clock import Clock
from zun.runtime.base import ExecResult

Handler = Callable[[str, Sequence[str]], Awaitable[ExecResult]]
"""Container uuid and command -> what it gave."""


class SmallShell:
    """echo, true, false, exit, sleep, and ``sh -c`` of one of these."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def run(self, uuid: str, command: Sequence[str]) -> ExecResult:
        """A ``Handler``."""
        words = list(command)
        if words[:2] in (["sh", "-c"], ["/bin/sh", "-c"]):
            words = shlex.split(words[2])
        verb, *rest = words
        if verb == "echo":
            return ExecResult(" ".join(rest) + "\n", 0)
        if verb == "sleep":
            await self._clock.sleep(float(rest[0]))
        if verb in ("true", "sleep"):
            return ExecResult("", 0)
        if verb in ("false", "exit"):
            return ExecResult("", int(rest[0]) if rest else 1)
        return ExecResult(f'exec: "{verb}": executable file not found in $PATH\n', 126)
