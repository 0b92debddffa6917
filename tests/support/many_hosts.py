"""Records of many hosts, as if their agents had just reported: for what has to be found among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from zun.domain.resources import DISK_GB, MEMORY_MB, VCPU
from zun.domain.service import COMPUTE
from zun.store.database import Database
from zun.store.tables import compute_nodes, local_inventories, local_providers, services

CPUS, MEMORY, DISK = 64, 256 * 1024, 500


def uuid_of(number: int) -> str:
    """Of the provider of host ``number``."""
    return str(uuid5(NAMESPACE_OID, name_of(number)))


def name_of(number: int) -> str:
    """Of host ``number``."""
    return f"node-{number:05}"


async def report(
    db: Database, now: datetime, numbers: Sequence[int], *, node: Mapping[str, Any] | None = None, used: int = 0
) -> None:
    """Hosts so numbered register, each with ``used`` CPUs claimed; ``node``: other columns of their records."""
    rows = [
        {"uuid": uuid_of(number), "hostname": name_of(number), "mem_total": MEMORY, "mem_used": 0, "cpus": CPUS}
        | {"cpu_used": 0.0, "disk_total": DISK, "disk_used": 0, "disk_quota_supported": False, "total_containers": 0}
        | {"labels": {"rack": str(number % 7)}, "runtimes": ["runc"], "enable_cpu_pinning": False, "created_at": now}
        | dict(node or {})
        for number in numbers
    ]
    heartbeat = {"binary": COMPUTE, "disabled": False, "forced_down": False, "report_count": 1, "last_seen_up": now}
    heartbeat |= {"availability_zone": "nova", "created_at": now}
    inventory = {"reserved": 0, "allocation_ratio": 1.0, "max_unit": 0}
    totals = {VCPU: CPUS, MEMORY_MB: MEMORY, DISK_GB: DISK}
    providers = [
        {"uuid": row["uuid"], "name": row["hostname"], "generation": 0, "traits": [], "aggregates": []} for row in rows
    ]
    inventories = [
        {"provider_uuid": row["uuid"], "resource_class": name, "total": total, "used": used if name == VCPU else 0}
        | inventory
        for row in rows
        for name, total in totals.items()
    ]
    async with db.write() as connection:
        await connection.execute(compute_nodes.insert(), rows)
        await connection.execute(services.insert(), [heartbeat | {"host": row["hostname"]} for row in rows])
        await connection.execute(local_providers.insert(), providers)
        await connection.execute(local_inventories.insert(), inventories)
