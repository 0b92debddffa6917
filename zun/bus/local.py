"""The bus of one process: calls run as tasks here, with the same deadlines and errors as across a wire."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from zun.bus import frames, remote_errors
from zun.bus.base import Handler
from zun.domain.errors import Conflict, HostUnreachable, ResourceNotFound, ZunError

log = logging.getLogger(__name__)


class LocalBus:
    """See ``zun.bus.base.Bus``."""

    def __init__(self) -> None:
        self._agents: dict[str, tuple[Callable[[], None], Mapping[str, Handler]]] = {}

    async def ring(self, host: str) -> None:
        """Returns at once, never raises."""
        agent = self._agents.get(host)
        if agent is None:
            log.debug("action=ring host=%s result=not-served", host)
            return
        ring_doorbell(host, agent[0])

    async def call(self, host: str, method: str, params: Mapping[str, Any], deadline: float) -> Any:
        """Ask the node, at most ``deadline`` seconds. Raises HostUnreachable, or the node's ZunError."""
        agent = self._agents.get(host)
        if agent is None:
            raise HostUnreachable(f"Host {host} does not answer: no agent is running.")
        given = orjson.loads(orjson.dumps(dict(params)))
        try:
            async with asyncio.timeout(deadline) as limit:
                answer = await run_handler(agent[1], method, given)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise too_late(host, method, deadline) from error
        frame = orjson.loads(answer)
        if "error" in frame:
            raise remote_errors.decode(frame["error"])
        return frame["result"]

    async def serve(self, host: str, doorbell: Callable[[], None], methods: Mapping[str, Handler]) -> None:
        """Register as the agent of ``host``. Raises Conflict when there is one."""
        if host in self._agents:
            raise Conflict(f"Another agent serves host {host} already.")
        self._agents[host] = (doorbell, dict(methods))

    async def close(self) -> None:
        self._agents.clear()


def ring_doorbell(host: str, doorbell: Callable[[], None]) -> None:
    """Ring; a fault of the doorbell is the agent's, not the caller's."""
    try:
        doorbell()
    except Exception:
        log.exception("action=ring host=%s result=failed", host)


def too_late(host: str, method: str, deadline: float) -> HostUnreachable:
    """What the caller is told when the deadline passed."""
    return HostUnreachable(f"Host {host} did not answer {method} within {deadline:g} s.")


async def run_handler(methods: Mapping[str, Handler], method: str, params: Mapping[str, Any]) -> bytes:
    """``{"result": …}`` or ``{"error": …}`` as JSON; raises nothing but CancelledError."""
    try:
        handler = methods.get(method)
        if handler is None:
            raise ResourceNotFound(f"The node does not know the call {method}.")
        return orjson.dumps({"result": await handler(params)})
    except Exception as error:
        return orjson.dumps({"error": remote_errors.encode(error)})


async def run_bounded(methods: Mapping[str, Handler], method: str, params: Mapping[str, Any]) -> bytes:
    """The same for a wire: an answer that does not fit in a frame is an error."""
    answer = await run_handler(methods, method, params)
    if len(answer) + 64 > frames.MAX_FRAME:
        size = len(answer)
        error = ZunError(f"The answer of {size} bytes is larger than the {frames.MAX_FRAME} that are possible.")
        return orjson.dumps({"error": remote_errors.encode(error)})
    return answer
