"""What other services are told of operations that the control plane carries out, or ends, itself."""

from __future__ import annotations

from zun.control.base import Control
from zun.control.container_record import Asked
from zun.domain.container import Container
from zun.domain.notification import Phase, of_operation
from zun.domain.operation import Operation, State


def tell(control: Control, asked: Asked, row: Container, kind: str, phase: Phase, reason: str | None = None) -> None:
    """An operation without a node."""
    now = control.clock.now()
    operation = Operation(
        id=0,
        container_uuid=row.uuid,
        kind=kind,
        request_id=asked.request_id,
        user_id=asked.caller.user_id,
        project_id=asked.caller.project_id or row.project_id,
        host=row.host or "",
        state=State.RUNNING,
        deadline=now,
        start_time=now,
        params={},
        attempt=1,
    )
    control.notifier.notify(of_operation(operation, row, phase, now, reason))


def refused(control: Control, asked: Asked, row: Container, kind: str, reason: str) -> None:
    """It ended in the moment in which it began."""
    tell(control, asked, row, kind, Phase.START)
    tell(control, asked, row, kind, Phase.ERROR, reason)


def over(control: Control, operation: Operation, row: Container | None, reason: str | None) -> None:
    """One of a node, or of a process that died, was ended here."""
    phase = Phase.END if reason is None else Phase.ERROR
    control.notifier.notify(of_operation(operation, row, phase, control.clock.now(), reason))
