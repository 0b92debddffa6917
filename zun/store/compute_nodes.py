"""Queries on compute nodes: what each host is and has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.store import paging
from zun.store.containers import is_uuid
from zun.store.tables import compute_nodes

_c = compute_nodes.c

SORTABLE = frozenset(
    [
        "id",
        "uuid",
        "hostname",
        "mem_total",
        "mem_used",
        "cpus",
        "cpu_used",
        "disk_total",
        "disk_used",
        "total_containers",
        "architecture",
        "os_type",
        "os",
        "kernel_version",
        "disk_quota_supported",
        "enable_cpu_pinning",
        "created_at",
        "updated_at",
    ]
)


async def upsert(connection: AsyncConnection, values: Mapping[str, Any], now: datetime) -> str:
    """Write the node of ``values["hostname"]`` and give its uuid, which stays the same for the host's life unless
    ``values`` names another (a host shared with Nova is known by Nova's).

    ``values`` holds column names; on first sight all that are not nullable are needed.
    """
    hostname: str = values["hostname"]
    where = _c.hostname == hostname
    changed = {name: value for name, value in values.items() if name != "hostname"}
    update = compute_nodes.update().where(where).values(**changed, updated_at=now)
    if not (await connection.execute(update)).rowcount:
        row = {"uuid": str(uuid4()), **changed, "hostname": hostname, "created_at": now}
        try:
            async with connection.begin_nested():
                await connection.execute(compute_nodes.insert().values(**row))
        except sa.exc.IntegrityError:
            await connection.execute(update)
    return str((await connection.execute(sa.select(_c.uuid).where(where))).scalar_one())


async def find(connection: AsyncConnection, ident: str) -> Mapping[str, Any] | None:
    """One node by uuid or host name."""
    named = _c.uuid == ident.lower() if is_uuid(ident) else _c.hostname == ident
    row = (await connection.execute(sa.select(compute_nodes).where(named))).mappings().first()
    return dict(row) if row else None


async def page(
    connection: AsyncConnection, *, limit: int, sort_key: str, descending: bool, marker: str | None
) -> Sequence[Mapping[str, Any]]:
    """One page; raises LookupError for an unknown marker."""
    return await paging.page(
        connection, compute_nodes, limit=limit, sort_key=sort_key, descending=descending, marker=marker
    )


async def of_hosts(connection: AsyncConnection, hostnames: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """The nodes of the hosts named, in one query (for the scheduler)."""
    rows = await connection.execute(sa.select(compute_nodes).where(_c.hostname.in_(hostnames)))
    return [dict(row) for row in rows.mappings()]


async def delete(connection: AsyncConnection, hostname: str) -> bool:
    """Remove the node of a host that is gone for good."""
    return bool((await connection.execute(compute_nodes.delete().where(_c.hostname == hostname))).rowcount)


async def set_usage(connection: AsyncConnection, hostname: str, **used: Any) -> None:
    """What changes between measurements: ``total_containers``, ``cpu_used`` (cores), ``mem_used`` (MiB), ``disk_used``
    (GiB), ``capsules``, ``capsule_runtimes`` and ``disk_pressure``."""
    await connection.execute(compute_nodes.update().where(_c.hostname == hostname).values(**used))
