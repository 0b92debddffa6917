"""What can go wrong with a simulated engine: delays, refusals, silence. Used by ``simulated.py`` only."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from zun.domain.clock import Clock
from zun.domain.errors import EngineUnreachable

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Planned:
    error: Exception
    after: bool


class Faults:
    """Faults to come, by the name of the port's method."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.latency = 0.0
        """Seconds each call takes."""
        self.delays: dict[str, float] = {}
        """Seconds calls of one method take, instead of ``latency``."""
        self.unreachable = False
        """While true every call raises EngineUnreachable."""
        self.calls: Counter[str] = Counter()
        """How often each method was called."""
        self._planned: dict[str, deque[_Planned]] = defaultdict(deque)
        self._hanging: dict[str, asyncio.Event] = {}

    def fail_next(self, method: str, error: Exception, *, times: int = 1, after: bool = False) -> None:
        """The next ``times`` calls of ``method`` raise ``error``; ``after``: their effect has happened by then."""
        self._planned[method].extend(_Planned(error, after) for _ in range(times))

    def hang(self, method: str) -> None:
        """Calls of ``method`` wait until ``resume`` or their cancellation."""
        self._hanging[method] = asyncio.Event()

    def resume(self, method: str) -> None:
        """Let hanging calls go on."""
        event = self._hanging.pop(method, None)
        if event is not None:
            event.set()

    async def enter(self, method: str) -> Exception | None:
        """Take the planned faults of one call; returns what is to be raised after its effect."""
        self.calls[method] += 1
        wait = self.delays.get(method, self.latency)
        if wait:
            await self.clock.sleep(wait)
        hanging = self._hanging.get(method)
        if hanging is not None:
            await hanging.wait()
        if self.unreachable:
            raise EngineUnreachable("the simulated engine does not answer")
        planned = self._planned[method].popleft() if self._planned[method] else None
        if planned is not None and not planned.after:
            raise planned.error
        return planned.error if planned is not None else None


def faulty(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A port method that goes through ``self.faults``."""

    @functools.wraps(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        late = await self.faults.enter(method.__name__)
        result = await method(self, *args, **kwargs)
        if late is not None:
            raise late
        return result

    return call
