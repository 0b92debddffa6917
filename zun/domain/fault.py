"""Why something is in ``Error``, and what happens next. Pure; texts are for the person whose container it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from zun.domain.container import MEMBERS, Type
from zun.domain.operation import Kind

LOST = "No such container"
"""How the reason begins that a node gives for what its engine does not have any more."""

CALLED_OFF = "cancelled"
"""Code of steps that ended because another failed."""
_IN_OTHER_WORDS = ("no-valid-host", "unexpected")
"""Codes of steps whose text is not for users: the reason has other words."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a container in ``Error`` says of itself."""

    uuid: str
    kind: str
    """``Container.container_type``."""
    reason: str | None
    changed: str | None
    """When the row was last written, as answers show it."""
    made: bool
    """Is there something of it in an engine?"""
    auto_heal: bool = False
    restart_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A step that ended in error, in whichever attempt."""

    name: str
    code: str | None
    """Kind of the error; None: not on record."""
    text: str | None


@dataclass(frozen=True, slots=True)
class Failure:
    """The last operation of a container that has ended, if it failed; ``steps`` in the order of their ends."""

    kind: str
    finished: datetime
    deadline: datetime
    steps: Sequence[Step] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """As answers show it."""

    code: str
    message: str
    step: str | None
    when: datetime | str | None
    next: str


def fault_of(row: Row, failure: Failure | None, unfinished: Sequence[str]) -> Fault:
    """``unfinished``: kinds of the row's operations that are still to be carried out, oldest first."""
    reason = row.reason or "It is in Error; its actions say more."
    after = _next(row, unfinished)
    told = None if failure is None else _told(failure, row.reason)
    if failure is not None and told is not None:
        return Fault(
            told.code or f"{failure.kind}-failed".replace("_", "-"), reason, told.name, failure.finished, after
        )
    if reason.startswith(LOST):
        return Fault("container-lost", reason, None, row.changed, after)
    code = "member-failed" if row.kind == Type.CAPSULE else "process-failed" if row.kind in MEMBERS else "node-reported"
    return Fault(code, reason, None, row.changed, after)


@dataclass(frozen=True, slots=True)
class _Told:
    name: str | None
    code: str | None


def _told(failure: Failure, reason: str | None) -> _Told | None:
    """The step that the row's reason tells of, the last one if several do; None when the reason is another: what its
    node saw later is not laid to an operation that failed before."""
    steps = [step for step in failure.steps if step.code != CALLED_OFF]
    for step in reversed(steps):
        if reason and step.text and (step.text in reason or reason in step.text):
            return _Told(step.name, step.code)
    if reason is not None and reason.startswith(LOST):
        return None
    for step in steps:
        if step.code in _IN_OTHER_WORDS:
            return _Told(step.name, step.code)
    if failure.finished >= failure.deadline:
        return _Told(steps[-1].name if steps else None, "deadline-exceeded")
    if reason is None or not steps:
        return _Told(steps[-1].name, steps[-1].code) if steps else _Told(None, None)
    return None


def _next(row: Row, unfinished: Sequence[str]) -> str:
    others = [kind for kind in unfinished if kind != Kind.RELEASE]
    if Kind.DELETE in others:
        return "It is deleted; this is tried until it is done."
    if others:
        return f"The {others[0].replace('_', ' ')} that was asked for is carried out."
    if row.restart_at is not None:
        return f"It is started again at {row.restart_at:%Y-%m-%d %H:%M:%S} UTC, by its restart policy."
    if Kind.RELEASE in unfinished:
        return "What it still holds is given back; this is tried until it is done. It can be deleted meanwhile."
    if row.kind == Type.CAPSULE:
        return "Nothing until you delete it."
    if row.kind in MEMBERS:
        return "Nothing by itself: its capsule decides."
    if not row.made:
        return "Nothing until you rebuild or delete it: it holds nothing any more."
    if row.auto_heal:
        return "Nothing until you start, rebuild or delete it, but should its engine lose it, it is made anew."
    return "Nothing until you start, rebuild or delete it. It goes on being watched, and shown as its engine has it."
