"""How far a pull is, as far as containerd tells: its downloads at work, and that they are done and it unpacks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from zun.domain.errors import EngineError
from zun.runtime.base import PullProgress
from zun.runtime.cri.client import CriClient

LOG = logging.getLogger(__name__)

_PAUSE = 0.5
_UNPACKING_SECONDS = 1800.0
"""How long unpacking, of which nothing is seen, counts as an advance."""


class Meter:
    """Sums downloads. One that is no longer listed is done."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}
        self._stale: dict[str, Any] | None = None
        self._active = False
        self._last: PullProgress | None = None

    @property
    def unpacking(self) -> bool:
        return bool(self._seen) and not self._active

    def still(self) -> PullProgress:
        """The last state once more."""
        return self._last or PullProgress(0, 0, "")

    def take(self, statuses: Iterable[Any]) -> PullProgress | None:
        """The state after a look; None when nothing has moved."""
        found = {one.ref: (int(one.offset), int(one.total)) for one in self._moving(statuses)}
        for ref in self._seen.keys() - found.keys():
            done, total = self._seen[ref]
            self._seen[ref] = (max(done, total), max(done, total))
        self._seen |= found
        self._active = bool(found)
        if not self._seen:
            return None
        done = sum(done for done, _ in self._seen.values())
        total = sum(total for _, total in self._seen.values())
        state = PullProgress(done, total, "Downloading" if found else "Extracting")
        if state == self._last:
            return None
        self._last = state
        return state

    def _moving(self, statuses: Iterable[Any]) -> Sequence[Any]:
        """Without what a pull that was given up has left: it was there before and nobody has touched it since."""
        rows = [(one, (one.updated_at.seconds, one.updated_at.nanos)) for one in statuses]
        if self._stale is None:
            self._stale = {one.ref: touched for one, touched in rows}
        return [one for one, touched in rows if self._stale.get(one.ref) != touched]


async def watch(client: CriClient, progress: Callable[[PullProgress], None]) -> None:
    """Tell ``progress`` of each advance until cancelled. An engine that does not tell leaves it silent."""
    meter, unpacking_since = Meter(), 0.0
    while True:
        try:
            answer = await client.call("ListStatuses")
        except EngineError as error:
            LOG.debug("action=pull_watch result=unknown reason=%s", error.text)
        else:
            state = meter.take(answer.statuses)
            now = time.monotonic()
            if state is not None:
                unpacking_since = now
                progress(state)
            elif meter.unpacking and now - unpacking_since < _UNPACKING_SECONDS:
                progress(meter.still())
        await asyncio.sleep(_PAUSE)
