"""Routes of hosts (administrators, from 1.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zun.api import paging
from zun.api.call import Answer, Call, Version
from zun.api.schemas import BOOLEAN, INTEGER, LINKS, NUMBER, TEXT, TEXT_OR_NULL, listed, listing, obj
from zun.api.table import Route
from zun.api.views import links
from zun.control import hosts
from zun.domain.node_image import DISK_PRESSURE
from zun.store.compute_nodes import SORTABLE

_FIELDS = (
    "hostname",
    "mem_total",
    "mem_used",
    "cpus",
    "cpu_used",
    "disk_total",
    "disk_used",
    "disk_quota_supported",
    "total_containers",
    "architecture",
    "os_type",
    "os",
    "kernel_version",
)


_PRESSURE = "pressure"
_CONDITIONS = "conditions"


def _view(call: Call, row: Mapping[str, Any], *, conditions: bool) -> dict[str, Any]:
    """``conditions``: asked for with ``?pressure=true``; old clients see what they always saw."""
    also = {_CONDITIONS: [DISK_PRESSURE] if row["disk_pressure"] else []} if conditions else {}
    return {
        "uuid": row["uuid"],
        "links": links(call, "hosts", row["uuid"]),
        **{name: row[name] for name in _FIELDS},
        "labels": row["labels"] or {},
        "runtimes": row["runtimes"] or [],
        "enable_cpu_pinning": row["enable_cpu_pinning"],
        **also,
    }


async def list_hosts(call: Call) -> Answer:
    wanted, conditions = paging.read(call, SORTABLE, "hostname"), paging.free_boolean(call, _PRESSURE)
    rows = await hosts.page(
        call.control,
        limit=wanted.limit,
        sort_key=wanted.sort_key,
        descending=wanted.descending,
        marker=wanted.marker,
    )
    following = paging.next_link(call, "hosts", wanted, len(rows), rows[-1]["uuid"] if rows else None)
    return Answer({"hosts": [_view(call, row, conditions=conditions) for row in rows], "next": following})


async def show(call: Call) -> Answer:
    conditions = paging.free_boolean(call, _PRESSURE)
    return Answer(_view(call, await hosts.find(call.control, call.path["host_ident"]), conditions=conditions))


_HOST = {
    "uuid": TEXT,
    "links": LINKS,
    "hostname": TEXT,
    "mem_total": INTEGER,
    "mem_used": INTEGER,
    "cpus": INTEGER,
    "cpu_used": NUMBER,
    "disk_total": INTEGER,
    "disk_used": INTEGER,
    "disk_quota_supported": BOOLEAN,
    "total_containers": INTEGER,
    "architecture": TEXT_OR_NULL,
    "os_type": TEXT_OR_NULL,
    "os": TEXT_OR_NULL,
    "kernel_version": TEXT_OR_NULL,
    "labels": {"type": "object"},
    "runtimes": {"type": "array", "items": TEXT},
    "enable_cpu_pinning": BOOLEAN,
    _CONDITIONS: listed({"type": "string", "enum": [DISK_PRESSURE]}),
}
_OPTIONAL = frozenset({_CONDITIONS})

ROUTES = [
    Route(
        "GET",
        "/hosts",
        "host.list",
        list_hosts,
        min_version=Version(1, 4),
        policy="host:get_all",
        answer=listing("hosts", _HOST, optional=_OPTIONAL),
        summary="List hosts",
        raises=(404,),
        parameters=(*paging.DOCUMENTED, _PRESSURE),
    ),
    Route(
        "GET",
        "/hosts/{host_ident}",
        "host.show",
        show,
        min_version=Version(1, 4),
        policy="host:get",
        answer=obj(_HOST, _OPTIONAL),
        summary="Show a host",
        raises=(404,),
        parameters=(_PRESSURE,),
    ),
]
