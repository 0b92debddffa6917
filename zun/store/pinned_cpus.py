"""Queries on ``pinned_cpus``: which container has which CPU of a host for itself.

Host and CPU are the key: whoever inserts first has it, whatever others have read.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain import numa
from zun.domain.errors import Unavailable
from zun.domain.numa import Pinned
from zun.store.database import Database
from zun.store.tables import compute_nodes, pinned_cpus

LOG = logging.getLogger(__name__)

_c = pinned_cpus.c
_ATTEMPTS = 20


async def pin(db: Database, host: str, uuid: str, count: int) -> Pinned | None:
    """``count`` CPUs of one NUMA node of the host for the container; those it has, if it has as many. What it had
    elsewhere is given back. None when no NUMA node has so many left, or the host pins none."""
    for _ in range(_ATTEMPTS):
        try:
            return await db.run(lambda connection: _pin(connection, host, uuid, count))
        except sa.exc.IntegrityError:
            LOG.info("action=pin container=%s host=%s result=raced", uuid, host)
    raise Unavailable(f"CPUs of host {host} are pinned by others all the time.")


async def _pin(connection: AsyncConnection, host: str, uuid: str, count: int) -> Pinned | None:
    rows = (await connection.execute(sa.select(_c.host, _c.cpu, _c.numa_node).where(_c.container_uuid == uuid))).all()
    own = sorted(row.cpu for row in rows if row.host == host)
    if len(own) == count == len(rows):
        return Pinned(rows[0].numa_node, tuple(own))
    await unpin(connection, uuid)
    topology = await topology_of(connection, host)
    taken = set((await connection.execute(sa.select(_c.cpu).where(_c.host == host))).scalars())
    chosen = numa.choose(topology, taken, count)
    if chosen is not None:
        values = {"host": host, "numa_node": chosen.numa_node, "container_uuid": uuid}
        await connection.execute(pinned_cpus.insert(), [{**values, "cpu": cpu} for cpu in chosen.cpus])
    return chosen


async def topology_of(connection: AsyncConnection, host: str) -> dict[str, list[int]]:
    """NUMA node -> CPUs that may be pinned; empty where the host pins none."""
    query = sa.select(compute_nodes.c.numa_topology).where(compute_nodes.c.hostname == host)
    return (await connection.execute(query)).scalar_one_or_none() or {}


async def unpin(connection: AsyncConnection, uuid: str) -> None:
    """Give back all that the container has; nothing is success."""
    await connection.execute(pinned_cpus.delete().where(_c.container_uuid == uuid))


async def of_hosts(connection: AsyncConnection, hosts: Sequence[str]) -> dict[str, set[int]]:
    """host -> CPUs taken, of the hosts named, in one query."""
    taken: dict[str, set[int]] = {}
    for row in await connection.execute(sa.select(_c.host, _c.cpu).where(_c.host.in_(hosts))):
        taken.setdefault(row.host, set()).add(row.cpu)
    return taken


async def containers_of(connection: AsyncConnection, host: str) -> set[str]:
    """Containers that have CPUs of the host."""
    return set((await connection.execute(sa.select(_c.container_uuid).distinct().where(_c.host == host))).scalars())
