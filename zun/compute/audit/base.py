"""What an audit looks at, and what it finds. Pure data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Scope(StrEnum):
    """Where a kind of thing is looked at: on the node that has it, or from anywhere."""

    NODE = "node"
    CLOUD = "cloud"


class NotHere(Exception):
    """There is nothing of that kind to look at; the text says why."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A thing of ours that no record claims. ``remove``: idempotent; it returns what stood in the way, or nothing.
    ``since``: when it was made, naive UTC, where that is known."""

    name: str
    why: str
    remove: Callable[[], Awaitable[str]]
    container: str = ""
    since: datetime | None = None


Look = Callable[[], Awaitable[Sequence[Leftover]]]


@dataclass(frozen=True, slots=True)
class Kind:
    """``look`` reads the world first and the records after it, so that what was just made has its record. Raises
    ZunError or OSError when it cannot be told, NotHere."""

    name: str
    scope: Scope
    look: Look


class State(StrEnum):
    """What became of a leftover."""

    FOUND = "found"
    YOUNG = "young"
    """Not yet as old as the grace time."""
    REMOVED = "removed"
    KEPT = "kept"
    """It could not be removed; the note says why."""


@dataclass(slots=True)
class Finding:
    """A leftover as it is reported; ``age`` in seconds."""

    kind: str
    name: str
    container: str
    why: str
    age: int
    state: State = State.FOUND
    note: str = ""


@dataclass(slots=True)
class Report:
    """``failed``: kinds that could not be looked at, and why; ``skipped``: those there is nothing of here."""

    host: str
    looked_at: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Everything could be looked at, and nothing is left."""
        return not self.failed and all(finding.state == State.REMOVED for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0 clean, 1 something is left, 2 something could not be told."""
        return 2 if self.failed else 0 if self.clean else 1
