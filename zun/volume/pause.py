"""Pauses between looks at something that takes its time: short first, then backing off."""

from __future__ import annotations

from collections.abc import Iterator


def pauses(first: float = 0.1, longest: float = 2.0, factor: float = 1.5) -> Iterator[float]:
    """Seconds, for ever."""
    pause = first
    while True:
        yield pause
        pause = min(pause * factor, longest)
