"""The container object of answers (contract §10.2): single rows, and list rows whose JSON is passed through as text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any

import orjson

from zun.api.call import Call
from zun.api.views import links, row_time
from zun.domain.container import Container
from zun.domain.lifecycle import Status, render_detail
from zun.store import registries

RULE = "container:get_one"

_MAPS = ("environment", "labels", "addresses", "restart_policy", "healthcheck")
_LISTS = ("command", "entrypoint", "ports", "security_groups")
_EMPTY_MAP, _EMPTY_LIST = orjson.Fragment(b"{}"), orjson.Fragment(b"[]")


def hidden(call: Call) -> frozenset[str]:
    """Fields the caller may not see; asked once a request."""
    return call.policy.hidden_fields(RULE, call.caller)


async def single(call: Call, row: Container, *, fresh: bool = False) -> dict[str, Any]:
    """One container with links. ``fresh``: the answer of create, where unset collections are null."""
    registry = None
    if row.registry_id is not None:
        async with call.control.db.read() as connection:
            found = await registries.get(connection, row.registry_id)
        registry = found["uuid"] if found else None
    return view(call, row, registry, fresh=fresh)


def view(call: Call, row: Container, registry: str | None, *, fresh: bool) -> dict[str, Any]:
    """The container object of a row."""

    def collection(name: str) -> Any:
        value = getattr(row, name)
        if value is None and not fresh:
            return {} if name in _MAPS else []
        return value

    shown = {
        "uuid": row.uuid,
        "links": links(call, "containers", row.uuid),
        "name": row.name,
        "project_id": row.project_id,
        "user_id": row.user_id,
        "image": row.image,
        "cpu": float(row.cpu),
        "cpu_policy": row.cpu_policy,
        "memory": str(row.memory),
        "command": collection("command"),
        "status": row.status,
        "status_reason": row.status_reason,
        "task_state": row.task_state,
        "environment": collection("environment"),
        "workdir": row.workdir,
        "auto_remove": row.auto_remove,
        "ports": collection("ports"),
        "hostname": row.hostname,
        "labels": collection("labels"),
        "addresses": collection("addresses"),
        "image_pull_policy": row.image_pull_policy,
        "host": row.host,
        "restart_policy": collection("restart_policy"),
        "status_detail": render_detail(row.status_detail, _epoch(call)),
        "interactive": row.interactive,
        "tty": row.tty,
        "image_driver": row.image_driver or None,
        "security_groups": collection("security_groups"),
        "runtime": row.runtime,
        "disk": row.disk,
        "auto_heal": row.auto_heal,
        "privileged": row.privileged,
        "healthcheck": collection("healthcheck"),
        "registry_id": registry,
        "entrypoint": collection("entrypoint"),
        "created_at": row_time(row.created_at),
        "updated_at": row_time(row.updated_at),
    }
    for name in hidden(call):
        shown.pop(name, None)
    return shown


def last_known(shown: Mapping[str, Any], silence: str) -> dict[str, Any]:
    """The container object of one whose host is down: its status is the last known one. The host's name is only for
    those who see it anyway. ``silence``: what is known of the host."""
    host = f"host {shown['host']}" if shown.get("host") else "host"
    then = (
        "It is removed when the host is back."
        if shown["status"] == Status.DELETING
        else "This is the last known state."
    )
    reason = shown["status_reason"] or f"The container's {host} {silence}. {then}"
    return {**shown, "status_detail": "Host down", "status_reason": reason}


_PLAIN = (
    "uuid", "name", "project_id", "user_id", "image", "cpu", "cpu_policy", "status", "status_reason", "task_state",
    "workdir", "auto_remove", "hostname", "image_pull_policy", "host", "interactive", "tty", "image_driver", "runtime",
    "disk", "auto_heal", "privileged",
)  # fmt: skip


class ListView:
    """Makes the list's items; what is the same for all rows is worked out once."""

    def __init__(self, call: Call) -> None:
        self._hidden = hidden(call)
        self._plain = tuple(name for name in _PLAIN if name not in self._hidden)
        self._collections = tuple(
            (name, empty)
            for names, empty in ((_MAPS, _EMPTY_MAP), (_LISTS, _EMPTY_LIST))
            for name in names
            if name not in self._hidden
        )
        self._now = _epoch(call)

    def item(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """One list item, without links. JSON columns are embedded as they are stored."""
        shown = {name: row[name] for name in self._plain}
        for name, empty in self._collections:
            text = row[name]
            shown[name] = orjson.Fragment(text) if text else empty
        shown["memory"] = str(row["memory"])
        shown["status_detail"] = render_detail(row["status_detail"], self._now)
        shown["registry_id"] = row["registry_uuid"]
        shown["created_at"] = str(row["created_at"])
        shown["updated_at"] = str(row["updated_at"]) if row["updated_at"] else None
        for name in self._hidden:
            shown.pop(name, None)
        return shown


def _epoch(call: Call) -> float:
    return call.control.clock.now().replace(tzinfo=UTC).timestamp()
