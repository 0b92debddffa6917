"""What the scheduler and the host check read of nodes and their services: one query, of the hosts named only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.service import COMPUTE
from zun.store.tables import compute_nodes, services

_HEARTBEAT = (
    services.c.disabled,
    services.c.forced_down,
    services.c.last_seen_up,
    services.c.availability_zone,
    services.c.created_at,
    services.c.updated_at,
)


_n = compute_nodes.c
_NODE = (
    _n.uuid, _n.hostname, _n.mem_total, _n.mem_used, _n.cpus, _n.cpu_used, _n.disk_total, _n.disk_used,
    _n.disk_quota_supported, _n.labels, _n.runtimes, _n.capsules, _n.capsule_runtimes, _n.disk_pressure,
)  # fmt: skip


async def of_providers(
    connection: AsyncConnection, uuids: Sequence[str], *, topology: bool = False
) -> Sequence[Mapping[str, Any]]:
    """Node columns and the agent's heartbeat of the providers' hosts; a host without either is left out.
    ``numa_topology``, which may be long, where it is asked for."""
    more = (_n.numa_topology,) if topology else ()
    query = (
        sa.select(*_NODE, *more, *_HEARTBEAT)
        .select_from(compute_nodes.join(services, services.c.host == compute_nodes.c.hostname))
        .where(compute_nodes.c.uuid.in_(uuids), services.c.binary == COMPUTE)
    )
    return [dict(row) for row in (await connection.execute(query)).mappings()]


async def heartbeat(connection: AsyncConnection, host: str) -> Mapping[str, Any] | None:
    """The heartbeat columns of one host's agent; None when it never registered."""
    query = sa.select(*_HEARTBEAT).where(services.c.host == host, services.c.binary == COMPUTE)
    row = (await connection.execute(query)).mappings().first()
    return dict(row) if row else None


async def provider(connection: AsyncConnection, host: str) -> tuple[str, bool] | None:
    """(provider uuid, can it limit disk) of a host; None when it is not known."""
    c = compute_nodes.c
    row = (await connection.execute(sa.select(c.uuid, c.disk_quota_supported).where(c.hostname == host))).first()
    return (row.uuid, bool(row.disk_quota_supported)) if row else None


async def any_pinning(connection: AsyncConnection) -> bool:
    """Does any node dedicate cores?"""
    query = sa.select(compute_nodes.c.id).where(compute_nodes.c.enable_cpu_pinning.is_(True)).limit(1)
    return (await connection.execute(query)).first() is not None
