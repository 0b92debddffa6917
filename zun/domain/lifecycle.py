"""Statuses, tasks, which operation each status permits, and what engine facts mean. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
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
    EVACUATING = "container_evacuating"
    SG_ADDING = "sg_adding"
    SG_REMOVING = "sg_removing"
    NETWORK_ATTACHING = "network_attaching"
    NETWORK_DETACHING = "network_detaching"


S = Status
_LIVE = frozenset({S.RUNNING, S.STOPPED, S.PAUSED, S.CREATED})
_RUNNING = frozenset({S.RUNNING})
_SETTLED = frozenset({S.ERROR, S.RUNNING, S.STOPPED, S.CREATED})
_THERE = frozenset(Status) - {S.DELETED, S.DELETING}
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
    "network_attach": _THERE,
    "network_detach": _THERE,
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
    """What the API shows for what the engine says. ``detail`` is a template: see ``render_detail``."""

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


_MOMENT = re.compile(r"@(\d+)")


def _at(moment: datetime) -> str:
    return f"@{int(moment.replace(tzinfo=UTC).timestamp())}"


def render_detail(template: str | None, now: float) -> str | None:
    """``Up @1764425000`` to ``Up 5 mins``; None when the age is under one second. ``now``: seconds of the epoch.

    Stored details hold the moment, not the age, so that time passing changes no row.
    """
    if template is None or (found := _MOMENT.search(template)) is None:
        return template
    age = age_text(now - int(found[1]))
    return template.replace(found[0], age) if age else None


def read_engine(observed: Observed, current: str) -> Reading:
    """Map engine facts to status and detail template; ``current`` is the stored status (states.md §4)."""
    state = observed.state
    started, finished = observed.started_at, observed.finished_at
    exited = f"Exited({observed.exit_code}) {_at(finished)} ago" if finished else None
    if observed.error and state not in ("running", "paused", "restarting", "created"):
        word = S.STOPPED if state in ("exited", "removing") else state.capitalize()
        return Reading(word if word in set(Status) else S.UNKNOWN, f"{exited} (error)" if exited else None)
    match state:
        case "paused":
            return Reading(S.PAUSED, f"Up {_at(started)} (paused)" if started else None)
        case "restarting":
            return Reading(S.RESTARTING, "Restarting")
        case "running":
            return Reading(S.RUNNING, f"Up {_at(started)}" if started else None)
        case "dead":
            return Reading(S.DEAD, "Dead")
        case "created" if started is None:
            keep = current in (S.ERROR, S.RESTARTING, S.REBUILDING)
            return Reading(current, None) if keep else Reading(S.CREATED, "Created")
    if started is None or finished is None:
        return Reading(S.UNKNOWN, "", "unexpected container state")
    return Reading(S.STOPPED, f"{exited} ")


def status_of_list(state: str) -> str | None:
    """Status for the engine's list form; None for a word that is not known."""
    words = {"exited": S.STOPPED, "removing": S.STOPPED}
    words |= {word: S(word.capitalize()) for word in ("created", "paused", "running", "dead", "restarting")}
    return words.get(state)
