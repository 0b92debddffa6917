"""One line of the table, and the small arithmetic it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """``measured``, ``floor`` and ``wanted`` as people read them."""

    name: str
    measured: str
    wanted: str
    met: bool
    floor: str = ""


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]
