"""Candidates joined with the records of their hosts, as filters read them. Part of the API process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from zun.domain import numa
from zun.domain.service import is_up
from zun.placement.base import Candidate
from zun.scheduler.filters import Host, Wanted
from zun.store import candidates as store
from zun.store import pinned_cpus
from zun.store.database import Database


async def hosts_of(
    conf: Any, db: Database, now: datetime, wanted: Wanted, candidates: Sequence[Candidate]
) -> Sequence[Host]:
    """One query, of these hosts only (S6.5, rule 5); and one more for the CPUs taken, where they matter. A candidate
    without record or agent is left out."""
    by_uuid = {found.provider_uuid: found for found in candidates}
    dedicated = wanted.cpu_policy == "dedicated"
    async with db.read() as connection:
        rows = await store.of_providers(connection, list(by_uuid), topology=dedicated)
        taken = await pinned_cpus.of_hosts(connection, [row["hostname"] for row in rows]) if dedicated else {}
    return [
        Host(
            hostname=row["hostname"],
            provider_uuid=row["uuid"],
            zone=row["availability_zone"] or conf.default_availability_zone,
            disabled=row["disabled"],
            up=is_up(row, now, conf.service_down_time),
            cpus=row["cpus"],
            cpu_used=row["cpu_used"],
            mem_total=row["mem_total"],
            mem_used=row["mem_used"],
            disk_total=row["disk_total"],
            disk_used=row["disk_used"],
            disk_quota_supported=row["disk_quota_supported"],
            free_cpus=_most_free(row["numa_topology"] or {}, taken.get(row["hostname"], ())) if dedicated else 0,
            labels=row["labels"] or {},
            runtimes=row["runtimes"] or (),
            capsules=row["capsules"],
            capsule_runtimes=row["capsule_runtimes"],
            disk_pressure=row["disk_pressure"],
            used=by_uuid[row["uuid"]].used,
            capacity=by_uuid[row["uuid"]].capacity,
        )
        for row in rows
    ]


def _most_free(topology: Mapping[str, Sequence[int]], taken: Collection[int]) -> int:
    return max((len(cpus) for cpus in numa.free(topology, taken).values()), default=0)
