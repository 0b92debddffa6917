"""The two verbs of a holding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from zun.compute.work import Work
from zun.runtime.base import PullProgress

Progress = Callable[[PullProgress], None]


class Holding(Protocol):
    """Both verbs are idempotent, and safe though the other never ran; they find what exists from the records and
    from the outside system itself. ``name`` is the step's name in events, logs and metrics."""

    name: str

    async def ensure(self, work: Work, progress: Progress) -> None: ...

    async def release(self, work: Work) -> None: ...
