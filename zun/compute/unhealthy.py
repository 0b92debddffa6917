"""A container whose own health check fails: with ``auto_heal`` it is made anew as one that vanished is, a few times an
hour."""

from __future__ import annotations

import logging
from datetime import timedelta

from zun.compute.node import Node
from zun.domain.container import Container
from zun.domain.lifecycle import Status
from zun.domain.observed import UNHEALTHY, Observed
from zun.store import healings

LOG = logging.getLogger(__name__)

WINDOW = timedelta(hours=1)
LEFT = "Unhealthy; it was made anew as often as it may be within an hour, and is left as it is for now."
"""``status_reason`` meanwhile."""


def ails(row: Container, observed: Observed) -> bool:
    """Does a container that runs, and is to be healed, fail its health check?"""
    wanted = row.auto_heal and row.status == Status.RUNNING
    return bool(wanted and observed.state == "running" and observed.health == UNHEALTHY)


async def may_be_replaced(node: Node, row: Container) -> bool:
    """At most ``[compute]/heal_attempts`` times within an hour: what does not help is not done for ever."""
    async with node.db.read() as connection:
        before = await healings.since(connection, row.uuid, node.clock.now() - WINDOW)
    may = bool(before < node.conf.compute.heal_attempts)
    if may or row.status_reason != LEFT:
        result = "replaced" if may else "left"
        LOG.warning("action=heal container=%s reason=unhealthy before=%s result=%s", row.uuid, before, result)
    return may
