"""Route of availability zones."""

from __future__ import annotations

from zun.api import paging
from zun.api.call import Answer, Call
from zun.api.schemas import TEXT, listing
from zun.api.table import Route
from zun.control import services

_SORTABLE = frozenset({"availability_zone", "id", "host", "binary", "created_at", "updated_at"})


async def list_zones(call: Call) -> Answer:
    """Never has a ``next``: zones have no uuid to page by, and all of them fit one answer."""
    wanted = paging.read(call, _SORTABLE, "availability_zone")
    zones = sorted(await services.zones(call.control), reverse=wanted.descending)
    shown = [{"availability_zone": zone} for zone in zones[: wanted.limit]]
    return Answer({"availability_zones": shown, "next": None})


ROUTES = [
    Route(
        "GET",
        "/availability_zones",
        "availability_zone.list",
        list_zones,
        policy="availability_zones:get_all",
        answer=listing("availability_zones", {"availability_zone": TEXT}),
        summary="List availability zones",
        parameters=paging.DOCUMENTED,
    ),
]
