"""Queries on ``given_ports``: what users' own ports were before a container had them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.store.tables import given_ports as ports


@dataclass(frozen=True, slots=True)
class Before:
    """``device_owner``, ``binding:host_id`` and ``mac_address`` of a port without a device."""

    device_owner: str
    host_id: str
    mac: str


async def remember(connection: AsyncConnection, container_uuid: str, port_id: str, before: Before) -> None:
    """Write down what the port is now; what was written down before for this container holds. Raises IntegrityError
    when another container has the port."""
    known = sa.select(ports.c.port_id).where(ports.c.container_uuid == container_uuid, ports.c.port_id == port_id)
    if (await connection.execute(known)).first() is None:
        values = asdict(before) | {"container_uuid": container_uuid, "port_id": port_id}
        await connection.execute(ports.insert().values(**values))


async def of_container(connection: AsyncConnection, container_uuid: str) -> Mapping[str, Before]:
    """By port id."""
    query = sa.select(ports.c.port_id, ports.c.device_owner, ports.c.host_id, ports.c.mac)
    rows = await connection.execute(query.where(ports.c.container_uuid == container_uuid))
    return {row.port_id: Before(row.device_owner, row.host_id, row.mac) for row in rows}


async def forget(connection: AsyncConnection, container_uuid: str, port_id: str | None = None) -> None:
    """One port of the container, or all of them."""
    query = ports.delete().where(ports.c.container_uuid == container_uuid)
    await connection.execute(query if port_id is None else query.where(ports.c.port_id == port_id))
