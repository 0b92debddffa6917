"""Which statuses a container or capsule can still come to without being asked anew. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from zun.domain.lifecycle import Status, Task

S = Status
_ENDS = frozenset({S.STOPPED, S.ERROR, S.DEAD, S.UNKNOWN, S.RESTARTING})

_BY_ITSELF: Mapping[str, frozenset[Status]] = {
    S.RUNNING: _ENDS,
    S.PAUSED: _ENDS,
    S.UNKNOWN: frozenset(Status),  # its node will say
    S.CREATING: frozenset(Status),
    S.REBUILDING: frozenset(Status),
    S.RESTARTING: frozenset(Status),
    S.DELETING: frozenset({S.DELETED, S.ERROR}),
    S.DELETED: frozenset({S.DELETING, S.ERROR}),
}
"""What a status becomes though nobody asks; those that are not named stay."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a row says of where it is going."""

    status: str
    task_state: str | None = None
    auto_remove: bool = False
    restart_at: datetime | None = None


def can_become(seen: Seen, wanted: str) -> bool:
    """May ``wanted`` still come about, by what is under way or by what its process, engine and policies do? An
    operation at work may lead anywhere, but one that removes to its end only."""
    removing = seen.task_state == Task.DELETING or seen.status in (S.DELETING, S.DELETED)
    if removing:
        return wanted in (S.DELETING, S.DELETED, S.ERROR)
    if seen.task_state is not None or seen.restart_at is not None:
        return True
    if wanted in (S.DELETING, S.DELETED) and seen.auto_remove:
        return seen.status in (S.RUNNING, S.PAUSED, S.STOPPED, S.CREATING, S.RESTARTING, S.UNKNOWN)
    return wanted in _BY_ITSELF.get(seen.status, ())


def over(seen: Seen | None, wanted: str) -> bool:
    """Is there nothing more to wait for? None: it is gone."""
    return seen is None or seen.status == wanted or not can_become(seen, wanted)
