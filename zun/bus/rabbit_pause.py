"""Exponential back-off with jitter."""

from __future__ import annotations

import random


class Pause:
    """Seconds to wait: doubled each time up to ``longest``; random in the upper half, so that nodes do not march."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = max(first, longest)
        self._now = first

    def next(self) -> float:
        now, self._now = self._now, min(self._now * 2, self._longest)
        return now * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret

    def reset(self) -> None:
        self._now = self._first
