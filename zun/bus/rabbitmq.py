"""The bus of a cloud: RabbitMQ. A doorbell is a message in a small queue of its host, a call a message with a deadline.

Imported only when ``transport_url`` asks for it; needs aio-pika (extra ``rabbitmq``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zun.bus import frames, remote_errors
from zun.bus.base import Handler
from zun.bus.local import too_late
from zun.bus.rabbit_agent import RabbitAgent, ask
from zun.bus.rabbit_link import Link
from zun.bus.rabbit_names import HostNames, names_of
from zun.bus.rabbit_session import Refused, Session, SessionLost, Unroutable
from zun.bus.rabbit_url import RabbitOptions, parse
from zun.domain.errors import BrokerUnreachable, Conflict, HostUnreachable, InvalidValue

log = logging.getLogger(__name__)

_PATIENCE = 5.0
"""Seconds that a call, or the start of an agent, waits for a connection that is not there."""
_RING_SECONDS = 30.0
"""For the broker's confirmation; a queue that has no leader gives none."""


class RabbitBus:
    """See ``zun.bus.base.Bus``. Connects in the background from the start, for ever."""

    def __init__(self, url: str, options: RabbitOptions | None = None, now: Callable[[], float] = time.time) -> None:
        """``now``: seconds by the clock that all hosts share. Needs a running loop. Raises TransportUrlError."""
        target = parse(url, options or RabbitOptions())
        for name in target.ignored:
            log.warning("action=bus-connect option=%s result=ignored reason='not known in transport_url'", name)
        for library in ("aio_pika", "aiormq"):  # each change of state is told once, by us
            logging.getLogger(library).setLevel(logging.CRITICAL)
        self._topic = target.options.topic
        self._now = now
        self._link = Link(target, f"{Path(sys.argv[0]).name or 'zun'}:{socket.gethostname()}:{os.getpid()}")
        self._agents: dict[str, RabbitAgent] = {}
        self._rings: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()

    # -- doorbells ------------------------------------------------------------------------------------

    async def ring(self, host: str) -> None:
        """Returns at once, never raises; remembered, once a host, while the broker is away."""
        if host in self._rings:
            self._again.add(host)
            return
        try:
            names = names_of(self._topic, host)
        except InvalidValue as error:
            log.debug("action=ring host=%r result=failed reason=%r", host[:80], error.message)
            return
        self._rings[host] = asyncio.create_task(self._ring(host, names), name=f"ring-{host}")

    async def _ring(self, host: str, names: HostNames) -> None:
        """Until the broker has confirmed one that was sent after the last ``ring``."""
        try:
            while True:
                session = await self._link.session()
                self._again.discard(host)
                try:
                    async with asyncio.timeout(_RING_SECONDS):
                        await session.ring(names.doorbell)
                except SessionLost:
                    continue
                except (Unroutable, Refused, TimeoutError) as error:
                    log.debug("action=ring host=%s result=not-served reason=%s", host, type(error).__name__)
                if host not in self._again:
                    return
        finally:
            del self._rings[host]
            self._again.discard(host)

    # -- calls ----------------------------------------------------------------------------------------

    async def call(self, host: str, method: str, params: Mapping[str, Any], deadline: float) -> Any:
        """Ask the node, at most ``deadline`` seconds. Raises HostUnreachable, InvalidValue, or the node's ZunError."""
        names = names_of(self._topic, host)
        confirmed: list[bool] = []
        try:
            async with asyncio.timeout(deadline) as limit:
                session = await self._reach(host)
                frame = await ask(
                    session, names, method, params, deadline, lambda: confirmed.append(True), sent=self._now()
                )
        except TimeoutError as error:
            if not limit.expired():
                raise
            if confirmed:
                raise too_late(host, method, deadline) from error
            raise _away(host, f"no word in {deadline:g} s") from error
        except Unroutable as error:
            raise HostUnreachable(f"Host {host} does not answer: no agent is running.") from error
        except Refused as error:
            raise HostUnreachable(f"Host {host} does not answer: too many calls wait for it.") from error
        except SessionLost as error:
            raise _away(host, f"the connection to it was lost ({error})") from error
        except frames.FrameError as error:
            raise InvalidValue(f"The call to host {host} cannot be sent: {error}.") from error
        if "error" in frame:
            raise remote_errors.decode(frame["error"])
        return frame.get("result")

    async def _reach(self, host: str) -> Session:
        """Raises HostUnreachable after a short wait: a broker that restarts is back soon."""
        try:
            async with asyncio.timeout(_PATIENCE) as limit:
                return await self._link.session()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise _away(host, self._link.reason) from error

    # -- the agent ------------------------------------------------------------------------------------

    async def serve(self, host: str, doorbell: Callable[[], None], methods: Mapping[str, Handler]) -> None:
        """Register as the agent of ``host``; goes on in the background when the broker is away.

        Raises Conflict when another live agent answers for it, InvalidValue.
        """
        names = names_of(self._topic, host)
        if host in self._agents:
            raise Conflict(f"Another agent serves host {host} already.")
        agent = RabbitAgent(host, names, doorbell, methods, self._link.session, self._now)
        self._agents[host] = agent
        try:
            await self._attach(host, agent)
        except BaseException:
            del self._agents[host]
            await agent.close()
            raise
        self._link.add(agent.attach)

    async def _attach(self, host: str, agent: RabbitAgent) -> None:
        """On the session there is; what does not work now is done on the next."""
        session: Session | None = None
        try:
            async with asyncio.timeout(_PATIENCE):
                session = await self._link.session()
            await agent.attach(session)
        except (TimeoutError, SessionLost) as error:
            if session is not None:
                session.lose("the broker does not make the queues")
            agent.late()
            log.warning("action=bus-serve host=%s result=later reason=%r", host, str(error) or self._link.reason)

    async def close(self) -> None:
        """Nothing of the bus runs afterwards; rings that the broker never took are made good by the sweeps."""
        rings = list(self._rings.values())
        for task in rings:
            task.cancel()
        await asyncio.gather(*rings, return_exceptions=True)
        await self._link.close()
        for agent in self._agents.values():
            await agent.close()
        self._agents.clear()


def _away(host: str, reason: str) -> BrokerUnreachable:
    return BrokerUnreachable(f"Host {host} cannot be asked: the message broker does not answer ({reason}).")
