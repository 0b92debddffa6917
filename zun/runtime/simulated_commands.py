"""The few commands a simulated container knows. Used by ``simulated.py`` only."""

from __future__ import annotations

import math
import shlex
from collections.abc import Awaitable, Callable, Sequence

from zun.domain.clock import Clock
from zun.runtime.base import ExecResult

_SYNTAX = 2
"""What a shell ends with that cannot read a line, or a number in it."""

Handler = Callable[[str, Sequence[str]], Awaitable[ExecResult]]
"""Container uuid and command -> what it gave."""


def words_of(command: Sequence[str]) -> list[str]:
    """What is run: of ``sh -c`` the line's words, ``exit 2`` where that is no line."""
    words = list(command)
    if words[:2] not in (["sh", "-c"], ["/bin/sh", "-c"]):
        return words
    try:
        return shlex.split(words[2])
    except (IndexError, ValueError):
        return ["exit", str(_SYNTAX)]


def exit_code(words: Sequence[str], default: int) -> int:
    """Of ``exit`` with what follows it."""
    try:
        return int(words[0]) & 0xFF if words else default
    except ValueError:
        return _SYNTAX


class SmallShell:
    """echo, true, false, exit, sleep, and ``sh -c`` of one of these."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def run(self, uuid: str, command: Sequence[str]) -> ExecResult:
        """A ``Handler``."""
        verb, *rest = words_of(command) or ["true"]
        if verb == "echo":
            return ExecResult(" ".join(rest) + "\n", 0)
        if verb == "sleep":
            seconds = _seconds(rest)
            if seconds is None:
                return ExecResult(f"sleep: invalid number '{' '.join(rest)}'\n", 1)
            await self._clock.sleep(seconds)
        if verb in ("true", "sleep"):
            return ExecResult("", 0)
        if verb in ("false", "exit"):
            return ExecResult("", exit_code(rest, 1))
        return ExecResult(f'exec: "{verb}": executable file not found in $PATH\n', 126)


def _seconds(words: Sequence[str]) -> float | None:
    try:
        seconds = float(words[0])
    except (IndexError, ValueError):
        return None
    return seconds if 0 <= seconds < math.inf else None
