"""What another service has of containers, as the audit hears of it. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Held:
    """A thing of a container's. ``since``: when it was made, naive UTC, where the service tells. ``ours``: nobody
    else can have it; else only records tell ours from those of another deployment. ``volume``: of an attachment."""

    name: str
    container: str
    since: datetime | None = None
    ours: bool = False
    volume: str = ""


def moment(text: str | None) -> datetime | None:
    """A service's time (ISO 8601, UTC where it names no zone) as naive UTC; None for what is none."""
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    if found is None or found.tzinfo is None:
        return found
    return found.astimezone(UTC).replace(tzinfo=None)
