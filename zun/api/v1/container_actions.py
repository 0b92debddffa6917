"""Routes of container actions: what was asked of a container, and how far each came (contract §10.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zun.api.call import Answer, Call
from zun.api.schemas import TEXT, TEXT_OR_NULL, obj
from zun.api.table import Route
from zun.api.v1.container_find import find
from zun.api.views import iso_time
from zun.domain.errors import ResourceNotFound
from zun.store import operations

_RULE = "container:actions"


async def list_actions(call: Call) -> Answer:
    """Newest first. Of a capsule's member they are its capsule's."""
    row = await find(call, _RULE, members=True)
    async with call.control.db.read() as connection:
        found = await operations.actions(connection, row.capsule_uuid or row.uuid)
    return Answer({"containerActions": [_action(dict(one)) for one in found]})


async def show(call: Call) -> Answer:
    """One request's action with its steps; ``traceback`` for admins, ``progress`` of a running step for everybody."""
    row = await find(call, _RULE, members=True)
    request_id = call.path["request_ident"]
    async with call.control.db.read() as connection:
        found = await operations.action(connection, row.capsule_uuid or row.uuid, request_id)
        if found is None:
            raise ResourceNotFound(f"Action for request_id {request_id[:64]} on container {row.uuid} not found")
        steps = await operations.events(connection, found["id"])
    with_text = call.policy.check("container:action:events", call.caller)
    shown = _action(dict(found))
    shown["events"] = [_event(dict(step), with_text=with_text) for step in steps]
    return Answer(shown)


def _action(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "action": row["kind"],
        "container_uuid": row["container_uuid"],
        "request_id": row["request_id"],
        "user_id": row["user_id"],
        "project_id": row["project_id"],
        "start_time": iso_time(row["start_time"]),
        "finish_time": iso_time(row["finish_time"]),
        "message": row["message"],
    }


def _event(row: Mapping[str, Any], *, with_text: bool) -> dict[str, Any]:
    shown = {
        "event": row["event"],
        "start_time": iso_time(row["start_time"]),
        "finish_time": iso_time(row["finish_time"]),
        "result": row["result"],
        "traceback": row["traceback"] if with_text else None,
    }
    if row["progress"] is not None:
        shown["progress"] = row["progress"]
    return shown


_ACTION = {
    **dict.fromkeys(("action", "container_uuid", "request_id", "user_id", "project_id", "start_time"), TEXT),
    "finish_time": TEXT_OR_NULL,
    "message": TEXT_OR_NULL,
}
_EVENT = {
    "event": TEXT,
    "start_time": TEXT,
    "finish_time": TEXT_OR_NULL,
    "result": TEXT_OR_NULL,
    "traceback": TEXT_OR_NULL,
    "progress": {"type": "object"},
}
_BASE = "/containers/{container_ident}/container_actions"

ROUTES: list[Route] = [
    Route(
        "GET", _BASE, "container_action.list", list_actions,
        answer=obj({"containerActions": {"type": "array", "items": obj(_ACTION)}}),
        summary="List the actions of a container", raises=(404, 409),
    ),
    Route(
        "GET", f"{_BASE}/{{request_ident}}", "container_action.show", show,
        answer=obj({**_ACTION, "events": {"type": "array", "items": obj(_EVENT, frozenset({"progress"}))}}),
        summary="Show one action with its steps", raises=(404, 409),
    ),
]  # fmt: skip
