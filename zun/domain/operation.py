"""Operations: the durable record of everything asked of a node (rule 1). Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What an operation does; the value is the action's name in the API."""

    CREATE = "create"
    DELETE = "delete"
    START = "start"
    STOP = "stop"
    REBOOT = "reboot"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    KILL = "kill"
    REBUILD = "rebuild"
    EVACUATE = "evacuate"
    """To another host, from one that is lost or is drained."""
    NETWORK_ATTACH = "network_attach"
    NETWORK_DETACH = "network_detach"
    ADD_SECURITY_GROUP = "add_security_group"
    REMOVE_SECURITY_GROUP = "remove_security_group"
    COMMIT = "commit"
    IMAGE_PULL = "image_pull"
    IMAGE_DELETE = "image_delete"
    """Of images, not of containers; ``container_uuid`` is the image's."""
    RELEASE = "release"
    """Internal: give back what a container holds, keep the row (after the reaper ended its operation)."""


HIDDEN = frozenset({Kind.RELEASE, Kind.IMAGE_PULL, Kind.IMAGE_DELETE})
"""Kinds that the API does not list as container actions."""


class State(StrEnum):
    """State of an operation."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


FREED = "freed"
"""Parameter of a delete whose container no longer counts: it cannot end in ``Error``, so the engine is forced."""

CAPSULE = "capsule"
"""Parameter of every operation of a capsule."""

UNFINISHED = (State.QUEUED, State.RUNNING)


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of ``operations``. Times are naive UTC."""

    id: int
    container_uuid: str
    kind: str
    request_id: str
    user_id: str
    project_id: str
    host: str
    state: str
    deadline: datetime
    start_time: datetime
    params: Mapping[str, Any]
    attempt: int = 0
    not_before: datetime | None = None
    worker: str | None = None
    lease_until: datetime | None = None
    finish_time: datetime | None = None
    message: str | None = None
    lane: str | None = None
    """Set once the operation no longer concerns its container, whose other operations then go on beside it."""
