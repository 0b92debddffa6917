"""Is a node's agent alive? From its heartbeat. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

COMPUTE = "zun-compute"
"""``binary`` of the node agent's service row."""


def is_up(row: Mapping[str, Any], now: datetime, down_time: int) -> bool:
    """Not forced down, and heard of within ``down_time`` seconds; the row's keys are the service's columns."""
    if row["forced_down"]:
        return False
    heard = row["last_seen_up"] or row["updated_at"] or row["created_at"]
    return heard is not None and abs((now - heard).total_seconds()) <= down_time
