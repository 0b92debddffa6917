"""What other services of the cloud (metering, audit, search) are told about operations. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from zun.domain.container import Container, Type
from zun.domain.operation import CAPSULE, HIDDEN, Operation


class Phase(StrEnum):
    """The end of an event's type."""

    START = "start"
    END = "end"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Notification:
    """``context``: request, user and project that asked."""

    event_type: str
    error: bool
    payload: Mapping[str, Any]
    context: Mapping[str, Any]


def of_operation(
    operation: Operation, row: Container | None, phase: Phase, now: datetime, reason: str | None = None
) -> Notification | None:
    """What is told of an operation; None of those that are nobody's business. ``row``: the container as it is now, or
    was last; without one the notification names it by its uuid only."""
    if operation.kind in HIDDEN:
        return None
    of_capsule = row.container_type == Type.CAPSULE if row is not None else bool(operation.params.get(CAPSULE))
    payload: dict[str, Any] = {
        "uuid": operation.container_uuid,
        "project_id": operation.project_id,
        "tenant_id": operation.project_id,
        "user_id": operation.user_id,
        "host": operation.host or None,
        "action": operation.kind,
        "request_id": operation.request_id,
        "attempt": operation.attempt,
        "reason": reason,
        "at": _time(now),
    }
    if row is not None:
        payload |= _facts(row)
    context = {
        "request_id": operation.request_id,
        "user_id": operation.user_id,
        "project_id": operation.project_id,
    }
    noun = "capsule" if of_capsule else "container"
    return Notification(f"{noun}.{operation.kind}.{phase}", phase is Phase.ERROR, payload, context)


def _facts(row: Container) -> dict[str, Any]:
    """Nothing that users keep secret: no command, environment, labels, annotations."""
    return {
        "name": row.name,
        "project_id": row.project_id,
        "tenant_id": row.project_id,
        "image": row.image,
        "image_driver": row.image_driver,
        "status": str(row.status),
        "status_reason": row.status_reason,
        "cpu": row.cpu,
        "memory": row.memory,
        "disk": row.disk,
        "availability_zone": row.availability_zone,
        "created_at": None if row.created_at is None else _time(row.created_at),
        "started_at": None if row.started_at is None else _time(row.started_at),
    }


def _time(when: datetime) -> str:
    return when.isoformat(timespec="microseconds")
