"""Ends that a containerd which was killed has missed.

What ends while containerd, back again, takes stock is told to its CRI side before that has the container, and is
forgotten there (containerd's issue 10390): CRI says for ever that it runs, waits for ever when it is to end it, and
refuses to remove it. containerd's own tasks, below CRI, say the truth. What is seen once is not believed: CRI may be
about to hear of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from zun.domain.errors import EngineError, EngineNotFound
from zun.domain.observed import Observed
from zun.runtime.cri.client import CriClient
from zun.runtime.cri.facts import moment
from zun.runtime.cri.ongoing import Ongoing

LOG = logging.getLogger(__name__)

UNKNOWN_EXIT = 255
"""The exit code of what nobody saw end, as the engine's own word for it."""
PATIENCE = 5.0
"""Seconds after which a call hangs that ends what has no grace."""
_STOPPED = 3
_AGAIN_SECONDS = 2.0
_FORGOTTEN_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class End:
    exit_code: int
    finished_at: datetime


@dataclass(slots=True)
class _Suspect:
    """Seen to have ended: first and last, by the loop's clock."""

    first: float
    last: float


class Missed:
    """By the engine's ids, of members and of sandboxes."""

    def __init__(self, client: CriClient, ongoing: Ongoing, again: float = _AGAIN_SECONDS) -> None:
        self._client = client
        self._ongoing = ongoing
        self._again = again
        self._suspects: dict[str, _Suspect] = {}

    async def among(self, running: Collection[str]) -> Mapping[str, End]:
        """Those of ``running``, as CRI says, that had ended already when this was asked some time ago. An engine that
        does not tell is believed."""
        try:
            ended = await self._ended(running)
        except EngineError as error:
            LOG.debug("action=missed result=unknown reason=%s", error.text)
            return {}
        now = asyncio.get_running_loop().time()
        for one in running:
            if one in ended:
                self._suspects.setdefault(one, _Suspect(now, now)).last = now
            else:
                self._suspects.pop(one, None)
        for one in [one for one, suspect in self._suspects.items() if now - suspect.last > _FORGOTTEN_SECONDS]:
            del self._suspects[one]
        return {one: end for one, end in ended.items() if now - self._suspects[one].first >= self._again}

    async def twice(self, running: Collection[str]) -> Mapping[str, End]:
        """As ``among``, looking as often as it takes to believe it."""
        found = await self.among(running)
        if len(found) < len(running) and any(one in self._suspects for one in running):
            await asyncio.sleep(self._again)
            found = await self.among(running)
        return found

    async def end(self, method: str, ids: Sequence[str], *, extra: float = 0.0, **fields: Any) -> None:
        """``CriClient.repeated``, for a call that ends or removes members and sandboxes with these ids, not there is
        success: those whose end was missed are dropped when it hangs. It goes on though its caller is cancelled."""
        await asyncio.shield(self._ongoing.begin(self._end(method, ids, extra, fields), method))

    async def _end(self, method: str, ids: Sequence[str], extra: float, fields: Mapping[str, Any]) -> None:
        call = asyncio.create_task(self._client.repeated(method, extra=extra, **fields), name=method)
        try:
            done, _ = await asyncio.wait({call}, timeout=PATIENCE)
            missed = {} if done else await self.twice(ids)
            if not missed:
                with contextlib.suppress(EngineNotFound):
                    await call
                return
        finally:
            if not call.done():
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
        for one in missed:
            await self.drop(one)
        with contextlib.suppress(EngineNotFound):
            await self._client.repeated(method, extra=extra, **fields)

    async def drop(self, engine_id: str) -> None:
        """Take one that has ended from containerd's own records: CRI can come to an end with all but it then, and lists
        it until it starts anew, as a ghost. Raises the port's errors."""
        LOG.warning("action=missed container=%s result=record removed", engine_id)
        with contextlib.suppress(EngineNotFound):
            await self._client.call("Tasks.Delete", container_id=engine_id)
        with contextlib.suppress(EngineNotFound):
            await self._client.call("Containers.Delete", id=engine_id)
        self._suspects.pop(engine_id, None)

    async def has_record(self, engine_id: str) -> bool:
        """Does containerd, below CRI, have it? Raises the port's errors."""
        try:
            await self._client.call("Containers.Get", id=engine_id)
        except EngineNotFound:
            return False
        return True

    async def _ended(self, running: Collection[str]) -> Mapping[str, End]:
        """What a shim says that it has ended, or no shim has. Raises the port's errors."""
        if not running:
            return {}
        tasks = {task.id or task.container_id: task for task in await self._tasks(running)}
        found = {}
        for one in running:
            task = tasks.get(one)
            if task is None:
                found[one] = End(UNKNOWN_EXIT, datetime.now(UTC).replace(tzinfo=None))
            elif task.status == _STOPPED:
                at = moment(task.exited_at.ToNanoseconds()) or datetime.now(UTC).replace(tzinfo=None)
                found[one] = End(task.exit_status, at)
        return found

    async def _tasks(self, running: Collection[str]) -> Sequence[Any]:
        if len(running) > 1:
            answer: Sequence[Any] = (await self._client.call("Tasks.List")).tasks
            return answer
        try:
            return [(await self._client.call("Tasks.Get", container_id=one)).process for one in running]
        except EngineNotFound:
            return []


def as_ended(observed: Observed, end: End) -> Observed:
    """``observed``, with its end."""
    return replace(observed, state="exited", exit_code=end.exit_code, finished_at=end.finished_at)
