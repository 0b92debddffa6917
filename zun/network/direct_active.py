"""Waits until Neutron's agent has let a port's packets through (its status is ACTIVE): one question at a time for all
ports that anybody on this node waits for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection

from zun.domain.errors import NetworkSetupFailed, ZunError
from zun.network.neutron_api import NeutronApi
from zun.openstack.client import Refused

LOG = logging.getLogger(__name__)

_FIRST = 0.15
_LONGEST = 1.0


class ActivePorts:
    """Ports once seen ACTIVE are not asked for again until ``forget``."""

    def __init__(self, api: NeutronApi) -> None:
        self._api = api
        self._active: set[str] = set()
        self._waiting: dict[str, int] = {}
        self._news = asyncio.Condition()
        self._poller: asyncio.Task[None] | None = None
        self._pause = _FIRST
        self._took = 0.0
        """Seconds that the last answer took: a Neutron that makes ports for many is not asked more often than that."""
        self._trouble = ""
        """Why the last question had no answer."""

    def forget(self, ports: Collection[str]) -> None:
        """They are plugged anew, or gone."""
        self._active.difference_update(ports)

    async def wait(self, ports: Collection[str], seconds: float) -> None:
        """Until all of them are ACTIVE. Raises NetworkSetupFailed naming those that were not in time."""
        lacking = set(ports) - self._active
        if not lacking:
            return
        for port in lacking:
            self._waiting[port] = self._waiting.get(port, 0) + 1
        self._pause = _FIRST
        if self._poller is None or self._poller.done():
            self._took = 0.0
            self._poller = asyncio.create_task(self._poll(), name="active-ports")
        try:
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait_for(lambda: lacking <= self._active)
        except TimeoutError as error:
            late = ", ".join(sorted(lacking - self._active))
            cause = self._trouble or "see its agent on this host"
            raise NetworkSetupFailed(
                f"Port {late} did not become ACTIVE in Neutron within {seconds:g} seconds; {cause.rstrip('.')}."
            ) from error
        finally:
            for port in lacking:
                self._waiting[port] -= 1
                if not self._waiting[port]:
                    del self._waiting[port]

    async def close(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)

    async def _poll(self) -> None:
        while self._waiting:
            await asyncio.sleep(max(self._pause, min(self._took, _LONGEST)))
            self._pause = min(self._pause * 1.4, _LONGEST)
            begun = time.monotonic()
            try:
                rows = await self._api.statuses(sorted(set(self._waiting) - self._active))
            except (ZunError, Refused) as error:  # asked again; who waits has a deadline
                LOG.warning("action=wait-active result=failed reason=%s", error)
                self._trouble = str(error)
                continue
            finally:
                self._took = time.monotonic() - begun
            self._trouble = ""
            self._active.update(ident for ident, status in rows.items() if status == "ACTIVE")
            async with self._news:
                self._news.notify_all()
