"""Services: what an administrator sees and decides about agents."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from zun.control.base import Control
from zun.domain.errors import HostUnreachable, ZunServiceNotFound
from zun.domain.service import COMPUTE
from zun.store import services as store

LOG = logging.getLogger(__name__)

_TOLD_WITHIN = 2.0
"""Seconds that the administrator's request waits for the node to hear of it."""


async def list_all(control: Control) -> Sequence[Mapping[str, Any]]:
    """All services with ``up`` decided now and the zone filled in."""
    async with control.db.read() as connection:
        rows = await store.list_all(connection)
    now, down_time = control.clock.now(), control.conf.service_down_time
    default = control.conf.default_availability_zone
    return [
        {
            **row,
            "up": store.is_up(row, now, down_time),
            "availability_zone": row["availability_zone"] or default,
        }
        for row in rows
    ]


async def zones(control: Control) -> Sequence[str]:
    """Distinct availability zones over all services."""
    async with control.db.read() as connection:
        return await store.zones(connection, control.conf.default_availability_zone)


async def change(control: Control, host: str, binary: str, values: Mapping[str, Any]) -> None:
    """Write ``disabled``, ``disabled_reason`` or ``forced_down``; raises ZunServiceNotFound (S6.5).

    The agent carries ``disabled`` on to Placement: at once when it hears of it, else at its next inventory run.
    """
    async with control.db.write() as connection:
        if not await store.change(connection, host, binary, values, control.clock.now()):
            raise ZunServiceNotFound(host, binary)
    if binary == COMPUTE and "disabled" in values:
        try:
            await control.bus.call(host, "report", {}, _TOLD_WITHIN)
        except HostUnreachable as error:
            LOG.info("action=service host=%s result=told at its next inventory reason=%s", host, error.message)


async def delete(control: Control, host: str, binary: str) -> None:
    """Raises ZunServiceNotFound."""
    async with control.db.write() as connection:
        if not await store.delete(connection, host, binary):
            raise ZunServiceNotFound(host, binary)
