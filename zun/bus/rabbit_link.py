"""Keeps a session with one of the brokers, for ever: back-off with jitter, one log line a change of state."""

from __future__ import annotations

import asyncio
import logging
import random

from zun.bus.rabbit_pause import Pause
from zun.bus.rabbit_session import Session, SessionLost, Setup
from zun.bus.rabbit_url import Broker, Target
from zun.domain.errors import ZunError

log = logging.getLogger(__name__)

_STEADY = 10.0  # seconds a session has to live for the back-off to begin anew


class Link:
    """``session`` waits for one; ``reason`` says why there is none."""

    def __init__(self, target: Target, name: str) -> None:
        self._target = target
        self._name = name
        self._session: Session | None = None
        self._up = asyncio.Event()
        self._setups: list[Setup] = []
        self._told: set[str] = set()
        self._next = random.randrange(len(target.brokers))  # noqa: S311 - spreads processes over the brokers
        self.reason = "no connection was tried yet"
        self._task = asyncio.create_task(self._run(), name="bus-link")

    async def session(self) -> Session:
        """The session, as soon as there is one."""
        while self._session is None or self._session.lost.done():
            self._up.clear()
            await self._up.wait()
        return self._session

    def add(self, setup: Setup) -> None:
        """To be done on each session from the next one on."""
        self._setups.append(setup)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause = Pause(self._target.options.rabbit_retry_interval, self._target.options.rabbit_interval_max)
        loop = asyncio.get_running_loop()
        while True:
            session = await self._open_any()
            if session is not None:
                since = loop.time()
                await self._use(session)
                if loop.time() - since > _STEADY:
                    pause.reset()
            await asyncio.sleep(pause.next())

    async def _open_any(self) -> Session | None:
        for _ in self._target.brokers:
            broker = self._target.brokers[self._next]
            session = await self._open(broker)
            if session is not None:
                return session
            self._next = (self._next + 1) % len(self._target.brokers)
        return None

    async def _open(self, broker: Broker) -> Session | None:
        session = Session(self._target, broker, self._name)
        try:
            await session.open()
            for setup in self._setups:
                await setup(session)
            return session
        except TimeoutError:
            self._tell(f"{broker} does not make the queues")
        except SessionLost as error:
            self._tell(str(error))
        except ZunError as error:
            self._tell(error.message.rstrip("."))
        except BaseException:
            await session.close()
            raise
        await session.close()
        return None

    def _tell(self, reason: str) -> None:
        """Each reason once until there is a connection again, and not too many of them."""
        self.reason = reason
        quiet = reason in self._told or len(self._told) >= 2 * len(self._target.brokers) + 4
        level = logging.DEBUG if quiet else logging.ERROR
        self._told.add(reason)
        log.log(level, "action=bus-connect result=failed reason=%r", reason)

    async def _use(self, session: Session) -> None:
        """Until it is lost."""
        self._told.clear()
        self._session = session
        self._up.set()
        log.info("action=bus-connect broker=%s result=connected", session.broker)
        try:
            await asyncio.wait({session.lost})
            self.reason = session.lost.result()
            self._next = (self._next + 1) % len(self._target.brokers)
            log.warning("action=bus-connect broker=%s result=lost reason=%r", session.broker, self.reason)
        finally:
            self._session = None
            await session.close()
