"""Networks of the nodes: made ahead of their first container, and removed, on every node that is up.

Nobody has to: a node makes what a container needs, and removes it when idle.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from zun.control import services
from zun.control.base import Control
from zun.domain.caller import Caller
from zun.domain.errors import HostUnreachable, NetworkAlreadyExists, NetworkNotFound, Unavailable, ZunError
from zun.store import networks as store

LOG = logging.getLogger(__name__)

BINARY = "zun-compute"
AT_ONCE = 16
"""Nodes asked side by side."""


async def create(control: Control, caller: Caller, name: str | None, neutron_net_id: str) -> Mapping[str, Any]:
    """The record of the new one. Raises NetworkNotFound, NetworkAlreadyExists, Unavailable (no node took it)."""
    (found,) = await control.network.resolve(caller, [{"network": neutron_net_id}], external=True)
    network_id = found.network_id
    async with control.db.read() as connection:
        if await store.exists(connection, network_id):
            raise NetworkAlreadyExists(network_id)
    answers = await _on_every_node(control, "make_network", network_id)
    made = [answer for answer in answers if isinstance(answer, str)]
    if not made:
        raise next((answer for answer in answers if isinstance(answer, ZunError)), Unavailable("No node is up."))
    row = {
        "uuid": str(uuid4()),
        "name": name,
        "project_id": caller.project_id,
        "user_id": caller.user_id,
        "network_id": made[0],
        "neutron_net_id": network_id,
        "created_at": control.clock.now(),
    }
    async with control.db.write() as connection:
        if not await store.insert(connection, row):
            raise NetworkAlreadyExists(network_id)
    return row


async def delete(control: Control, neutron_net_id: str) -> None:
    """Gone from every node that is up; one that is down removes it when idle. Raises NetworkNotFound when neither a
    record nor a node has it, Conflict while containers are on it."""
    answers = await _on_every_node(control, "remove_network", neutron_net_id)
    for answer in answers:
        if isinstance(answer, ZunError) and not isinstance(answer, HostUnreachable):
            raise answer
    async with control.db.write() as connection:
        recorded = await store.delete(connection, neutron_net_id)
    if not recorded and not any(answer is True for answer in answers):
        raise NetworkNotFound(neutron_net_id)


async def _on_every_node(control: Control, method: str, network_id: str) -> Sequence[Any]:
    """Answers, and the errors that nodes gave instead."""
    hosts = [str(row["host"]) for row in await services.list_all(control) if row["binary"] == BINARY and row["up"]]
    slots = asyncio.Semaphore(AT_ONCE)
    deadline = float(control.conf.rpc_response_timeout)

    async def ask(host: str) -> Any:
        async with slots:
            try:
                return await control.bus.call(host, method, {"network_id": network_id}, deadline)
            except ZunError as error:
                LOG.warning("action=%s host=%s network=%s reason=%s", method, host, network_id, error.message)
                return error

    return await asyncio.gather(*(ask(host) for host in hosts))
