"""Statuses, tasks, which operation each status permits, and what engine facts mean. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from zun.domain import errors
from zun.domain.observed import Observed


class Status(StrEnum):
    """Container ``status``, spelled as clients compare it."""

    ERROR = "Error"
    RUNNING = "Running"
    STOPPED = "Stopped"
    PAUSED = "Paused"
    UNKNOWN = "Unknown"
    CREATING = "Creating"
    CREATED = "Created"
    DELETED = "Deleted"
    DELETING = "Deleting"
    REBUILDING = "Rebuilding"
    DEAD = "Dead"
    RESTARTING = "Restarting"


class Task(StrEnum):
    """``task_state``: the operation now at work; null when idle."""

    IMAGE_PULLING = "image_pulling"
    CREATING = "container_creating"
    STARTING = "container_starting"
    DELETING = "container_deleting"
    STOPPING = "container_stopping"
    REBOOTING = "container_rebooting"
    PAUSING = "container_pausing"
    UNPAUSING = "container_unpausing"
    KILLING = "container_killing"
    REBUILDING = "container_rebuilding"
    SG_ADDING = "sg_adding"
    SG_REMOVING = "sg_removing"
    NETWORK_ATTACHING = "network_attaching"
    NETWORK_DETACHING = "network_detaching"


S = Status
_LIVE = frozenset({S.RUNNING, S.STOPPED, S.PAUSED, S.CREATED})
_RUNNING = frozenset({S.RUNNING})
_SETTLED = frozenset({S.ERROR, S.RUNNING, S.STOPPED, S.CREATED})
_GONE = frozenset({S.ERROR, S.STOPPED, S.CREATED, S.DELETED, S.DEAD})

ALLOWED: Mapping[str, frozenset[Status]] = {
    "start": frozenset({S.ERROR, S.STOPPED, S.CREATED}),
    "stop": _RUNNING,
    "reboot": _SETTLED,
    "rebuild": _SETTLED,
    "pause": _RUNNING,
    "unpause": frozenset({S.PAUSED}),
    "kill": _RUNNING,
    "execute": _RUNNING,
    "execute_resize": _RUNNING,
    "attach": _RUNNING,
    "resize": _RUNNING,
    "top": _RUNNING,
    "stats": _RUNNING,
    "logs": frozenset({S.ERROR, S.RUNNING, S.STOPPED, S.PAUSED, S.UNKNOWN, S.CREATED}),
    "get_archive": _LIVE,
    "put_archive": _LIVE,
    "commit": frozenset({S.RUNNING, S.STOPPED, S.PAUSED}),
    "update": _LIVE,
    "resize_container": _LIVE,
    "add_security_group": _LIVE,
    "remove_security_group": _LIVE,
    "delete": _GONE,
    "delete_force": frozenset(Status) - {S.PAUSED},
    "delete_after_stop": _GONE | {S.RUNNING},
}

TRANSITIONAL = frozenset({S.CREATING, S.DELETING, S.REBUILDING, S.RESTARTING})


def require(operation: str, uuid: str, status: str) -> None:
    """Raise ``InvalidStateException`` (409) unless ``status`` permits ``operation`` (S3.1)."""
    if status not in ALLOWED[operation]:
        raise errors.InvalidStateException(operation, uuid, status)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the API shows for what the engine says."""

    status: str
    detail: str | None
    reason: str | None = None


def age_text(seconds: float) -> str | None:
    """The largest non-zero unit, as ``5 mins``; None under one second."""
    whole = int(seconds)
    for size, word in ((86400, "days"), (3600, "hours"), (60, "mins"), (1, "seconds")):
        if whole >= size:
            return f"{whole // size} {word}"
    return None


def read_engine(observed: Observed, current: str, now: datetime) -> Reading:
    """Map engine facts to status and detail; ``current`` is the stored status (states.md §4)."""

    def since(moment: datetime | None) -> str | None:
        return age_text((now - moment).total_seconds()) if moment else None

    state = observed.state
    if observed.error and state not in ("running", "paused", "restarting"):
        word = S.STOPPED if state in ("exited", "removing") else state.capitalize()
        known = word if word in set(Status) else S.UNKNOWN
        if state == "created" and current == S.CREATING:
            known = S.CREATED
        ago = since(observed.finished_at)
        detail = f"Exited({observed.exit_code}) {ago} ago (error)" if ago else None
        return Reading(known, detail)
    if state == "paused":
        up = since(observed.started_at)
        return Reading(S.PAUSED, f"Up {up} (paused)" if up else None)
    if state == "restarting":
        return Reading(S.RESTARTING, "Restarting")
    if state == "running":
        up = since(observed.started_at)
        return Reading(S.RUNNING, f"Up {up}" if up else None)
    if state == "dead":
        return Reading(S.DEAD, "Dead")
    if observed.started_at is None:
        if current == S.CREATING:
            return Reading(S.CREATED, "Created")
        if current in (S.CREATED, S.RESTARTING, S.ERROR, S.REBUILDING):
            return Reading(current, "Created" if current == S.CREATED else None)
        if state == "created":
            return Reading(S.CREATED, "Created")
        return Reading(S.UNKNOWN, None, "unexpected container state")
    if observed.finished_at is None:
        return Reading(S.UNKNOWN, "", "unexpected container state")
    ago = since(observed.finished_at)
    return Reading(S.STOPPED, f"Exited({observed.exit_code}) {ago} ago " if ago else None)
