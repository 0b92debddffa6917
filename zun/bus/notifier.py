"""The port of notifications, and the drivers that need no broker."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from zun.domain.notification import Notification

LOG = logging.getLogger(__name__)


class Notifier(Protocol):
    """Tells other services. Never waits, never raises: no operation is later or fails by it."""

    def notify(self, told: Notification | None) -> None:
        """Tell it as soon as may be; None is nothing to tell."""
        ...

    async def close(self) -> None:
        """Give what waits a short time to leave."""
        ...


class Silent:
    """Driver ``noop``, and none."""

    def notify(self, told: Notification | None) -> None: ...

    async def close(self) -> None: ...


class Logged:
    """Driver ``log``: a line each."""

    def notify(self, told: Notification | None) -> None:
        if told is not None:
            LOG.info("action=notify event=%s payload=%s", told.event_type, dict(told.payload))

    async def close(self) -> None: ...


class Several:
    """All of several drivers."""

    def __init__(self, drivers: Sequence[Notifier]) -> None:
        self._drivers = drivers

    def notify(self, told: Notification | None) -> None:
        for driver in self._drivers:
            driver.notify(told)

    async def close(self) -> None:
        for driver in self._drivers:
            await driver.close()
