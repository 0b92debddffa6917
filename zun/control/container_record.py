"""Writing operations: the record of everything asked, in the transaction of the status it announces (rule 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.control.base import Control
from zun.domain.caller import Caller
from zun.domain.container import Container
from zun.domain.operation import Kind, State
from zun.store import operations

LONG = frozenset({Kind.CREATE, Kind.REBUILD, Kind.COMMIT, Kind.IMAGE_PULL})


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asked, in which request."""

    caller: Caller
    request_id: str


def deadline_seconds(control: Control, kind: str, *, makes_container: bool = False) -> int:
    """How long the operation may live; one that makes the container may have to pull its image."""
    conf = control.conf.compute
    return int(conf.create_deadline if kind in LONG or makes_container else conf.operation_deadline)


async def queue(
    connection: AsyncConnection,
    control: Control,
    asked: Asked,
    container: Container,
    kind: str,
    *,
    host: str,
    params: Mapping[str, Any],
    makes_container: bool = False,
    not_before: datetime | None = None,
    more_seconds: int = 0,
) -> int:
    """Leave an operation for ``host``; its id. Ring the bus once the transaction is over. ``more_seconds``: beyond
    what operations of this kind may live."""
    now = control.clock.now()
    seconds = deadline_seconds(control, kind, makes_container=makes_container)
    return await operations.insert(
        connection,
        container_uuid=container.uuid,
        kind=kind,
        host=host,
        request_id=asked.request_id,
        user_id=asked.caller.user_id,
        project_id=asked.caller.project_id or container.project_id,
        params=params,
        now=now,
        deadline=now + timedelta(seconds=seconds + more_seconds),
        not_before=not_before,
    )


async def note_ended(
    connection: AsyncConnection,
    control: Control,
    asked: Asked,
    container: Container,
    kind: str,
    *,
    step: str,
    error: str | None,
    code: str | None = None,
) -> None:
    """Record an operation that ended in the API process, with its one step; ``error`` None: it succeeded."""
    now = control.clock.now()
    operation_id = await operations.insert(
        connection,
        container_uuid=container.uuid,
        kind=kind,
        host="",
        request_id=asked.request_id,
        user_id=asked.caller.user_id,
        project_id=asked.caller.project_id or container.project_id,
        params={},
        now=now,
        deadline=now,
        state=State.FAILED if error else State.SUCCEEDED,
        message="Error" if error else None,
    )
    await operations.add_event(connection, operation_id, step, started=now, finished=now, error=error, code=code)
