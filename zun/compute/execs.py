"""Interactive commands of this node: which were asked for, which run, and how large their terminals are to be.

In memory only. What the engine is to be told stands in the session's row, so a restarted agent forgets nothing but
sizes of terminals that nobody sees yet.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from zun.domain.errors import InvalidValue
from zun.runtime.sessions import Session

_KEPT = 4096
"""Commands that were asked for and never run are forgotten beyond so many, the oldest first."""


@dataclass(slots=True)
class _Exec:
    uuid: str
    session: Session | None = None
    size: tuple[int, int] | None = None


class Execs:
    """By exec id."""

    def __init__(self) -> None:
        self._asked: OrderedDict[str, _Exec] = OrderedDict()
        self._running: dict[str, _Exec] = {}

    def asked(self, exec_id: str, uuid: str) -> None:
        """A command is to run in a container as soon as somebody connects."""
        self._asked[exec_id] = _Exec(uuid)
        while len(self._asked) > _KEPT:
            self._asked.popitem(last=False)

    async def started(self, exec_id: str, uuid: str, session: Session) -> None:
        """It runs: its terminal gets the size that was wanted before."""
        entry = self._asked.pop(exec_id, None) or _Exec(uuid)
        entry.session = session
        self._running[exec_id] = entry
        if entry.size is not None:
            height, width = entry.size
            await session.resize(height=height, width=width)

    def ended(self, exec_id: str) -> None:
        """It is over; again is success."""
        self._running.pop(exec_id, None)

    async def resize(self, uuid: str, exec_id: str, *, height: int, width: int) -> None:
        """Of its terminal, in characters, now or as soon as it runs (S4.9). Raises InvalidValue for an unknown one."""
        entry = self._running.get(exec_id) or self._asked.get(exec_id)
        if entry is None or entry.uuid != uuid:
            raise InvalidValue(f"Container {uuid} has no interactive command {exec_id}.")
        entry.size = (height, width)
        if entry.session is not None:
            await entry.session.resize(height=height, width=width)
