"""What listeners of ``GET /v1/events`` are told: a container, capsule or member came, changed its status, or went."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Change(StrEnum):
    """Names of the events, as clients see them."""

    CREATED = "created"
    STATUS = "status"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class StatusEvent:
    """One event; field names are the column names of ``status_events``."""

    number: int
    """Its place in the order in which events are told; grows, is never given twice."""
    kind: str
    """See ``Change``."""
    container_uuid: str
    container_type: str
    """``capsule_uuid`` is of members only."""
    capsule_uuid: str | None
    name: str
    project_id: str
    user_id: str
    status: str | None
    """None once it is gone."""
    previous_status: str | None
    status_reason: str | None
    created_at: datetime
