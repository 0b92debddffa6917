"""Pauses between two tries to follow an engine's events."""

from __future__ import annotations

import random

SHORTEST = 0.2
LONGEST = 5.0
"""Seconds: what happened to containers, and that the node takes capsules again, is known so long after an engine came
back."""
LASTED = 1.0
"""Seconds of a stream of events after which its engine was well: an engine that is restarted now and then is not one
that does not come up."""


class Pauses:
    """Each twice as long as the one before, with jitter, until a stream has lasted."""

    def __init__(self) -> None:
        self._next = SHORTEST

    def after(self, lasted: float) -> float:
        """Seconds to wait after a stream of events that lasted so many seconds."""
        if lasted > LASTED:
            self._next = SHORTEST
        pause = self._next * (0.75 + random.random() / 2)  # noqa: S311
        self._next = min(self._next * 2, LONGEST)
        return pause
