"""What other services are told of an operation at work on this node: that it began, and how it ended."""

from __future__ import annotations

import dataclasses

from zun.compute.work import Outcome, Work
from zun.domain.lifecycle import Status
from zun.domain.notification import Phase, of_operation


def begun(work: Work) -> None:
    """Once, however often it is tried."""
    if work.operation.attempt == 1:
        _tell(work, Phase.START)


def ended(work: Work, outcome: Outcome) -> None:
    """Its end is written. The row is told as it is now."""
    if outcome.error is not None:
        _tell(work, Phase.ERROR, outcome, outcome.error)
    else:
        _tell(work, Phase.END, outcome)


def forsaken(work: Work) -> None:
    """A delete whose record is gone, though the engine's share is not: for everybody else that is its end."""
    _tell(work, Phase.END, Outcome(remove_row=True))


def _tell(work: Work, phase: Phase, outcome: Outcome | None = None, reason: str | None = None) -> None:
    row = work.container
    if row is None:  # its delete was told when the row went
        return
    if outcome is not None:
        known = {field.name for field in dataclasses.fields(row)}
        values = {name: value for name, value in outcome.values.items() if name in known}
        if outcome.remove_row:
            values["status"] = Status.DELETED
        row = dataclasses.replace(row, **values)
    now = work.node.clock.now()
    work.node.notifier.notify(of_operation(work.operation, row, phase, now, reason))
