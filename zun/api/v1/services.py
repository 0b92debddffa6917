"""Routes of services (administrators)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zun.api.call import Answer, Call
from zun.api.schemas import NULL, TEXT_OR_NULL, listing, wrapped
from zun.api.table import Route
from zun.api.v1.models.services import ServiceDisable, ServiceForceDown, ServiceRef
from zun.api.views import iso_time
from zun.control import services
from zun.domain.errors import ZunServiceNotFound


def _view(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "host": row["host"],
        "binary": row["binary"],
        "state": "up" if row["up"] else "down",
        "disabled": row["disabled"],
        "disabled_reason": row["disabled_reason"],
        "forced_down": row["forced_down"],
        "report_count": row["report_count"],
        "last_seen_up": iso_time(row["last_seen_up"]),
        "availability_zone": row["availability_zone"],
        "created_at": iso_time(row["created_at"]),
        "updated_at": iso_time(row["updated_at"]),
    }


async def list_services(call: Call) -> Answer:
    return Answer({"services": [_view(row) for row in await services.list_all(call.control)]})


async def enable(call: Call) -> Answer:
    args: ServiceRef = call.args
    await services.change(call.control, args.host, args.binary, {"disabled": False, "disabled_reason": None})
    return Answer(_disabled(args, False, None))


async def disable(call: Call) -> Answer:
    args: ServiceDisable = call.args
    values = {"disabled": True, "disabled_reason": args.disabled_reason}
    await services.change(call.control, args.host, args.binary, values)
    return Answer(_disabled(args, True, args.disabled_reason))


def _disabled(args: ServiceRef, disabled: bool, reason: str | None) -> dict[str, Any]:
    return {"service": {"host": args.host, "binary": args.binary, "disabled": disabled, "disabled_reason": reason}}


async def force_down(call: Call) -> Answer:
    args: ServiceForceDown = call.args
    await services.change(call.control, args.host, args.binary, {"forced_down": args.forced_down})
    return Answer({"service": {"host": args.host, "binary": args.binary, "forced_down": args.forced_down}})


async def delete(call: Call) -> Answer:
    args: ServiceRef = call.args
    await services.delete(call.control, args.host, args.binary)
    return Answer()


async def delete_by_path(call: Call) -> Answer:
    host, binary = call.path["host"], call.path["binary"]
    if max(len(host), len(binary)) > 255:
        raise ZunServiceNotFound(host[:255], binary[:255])
    await services.delete(call.control, host, binary)
    return Answer()


_SERVICE = {
    "id": {"type": "integer"},
    "host": {"type": "string"},
    "binary": {"type": "string"},
    "state": {"enum": ["up", "down"]},
    "disabled": {"type": "boolean"},
    "disabled_reason": TEXT_OR_NULL,
    "forced_down": {"type": "boolean"},
    "report_count": {"type": "integer"},
    "last_seen_up": TEXT_OR_NULL,
    "availability_zone": {"type": "string"},
    "created_at": TEXT_OR_NULL,
    "updated_at": TEXT_OR_NULL,
}
_BRIEF = wrapped("service", {key: _SERVICE[key] for key in ("host", "binary", "disabled", "disabled_reason")})
_FORCED = wrapped("service", {key: _SERVICE[key] for key in ("host", "binary", "forced_down")})

ROUTES = [
    Route(
        "GET",
        "/services",
        "service.list",
        list_services,
        policy="zun-service:get_all",
        answer=listing("services", _SERVICE, paged=False),
        summary="List services",
    ),
    Route(
        "PUT",
        "/services/enable",
        "service.enable",
        enable,
        policy="zun-service:enable",
        model=ServiceRef,
        answer=_BRIEF,
        summary="Enable a service",
        raises=(404,),
    ),
    Route(
        "PUT",
        "/services/disable",
        "service.disable",
        disable,
        policy="zun-service:disable",
        model=ServiceDisable,
        answer=_BRIEF,
        summary="Disable a service",
        raises=(404,),
    ),
    Route(
        "PUT",
        "/services/force_down",
        "service.force_down",
        force_down,
        policy="zun-service:force_down",
        model=ServiceForceDown,
        answer=_FORCED,
        summary="Mark a service as down, or take the mark back",
        raises=(404,),
    ),
    Route(
        "DELETE",
        "/services",
        "service.delete",
        delete,
        policy="zun-service:delete",
        model=ServiceRef,
        answer=NULL,
        summary="Delete a service's record",
        raises=(404,),
    ),
    Route(
        "DELETE",
        "/services/{host}/{binary}",
        "service.delete_by_path",
        delete_by_path,
        policy="zun-service:delete",
        answer=NULL,
        summary="Delete a service's record",
        raises=(404,),
    ),
]
