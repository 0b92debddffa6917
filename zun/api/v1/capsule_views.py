"""The capsule object of answers (contract §11), in both of its shapes, and its JSON schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zun.api.call import Call, Version
from zun.api.schemas import LINKS, NUMBER, TEXT, TEXT_OR_NULL, TEXTS, UUID, listed, obj
from zun.api.v1.container_answers import ADDRESS, ITEM
from zun.api.v1.container_answers import OPTIONAL as MEMBER_OPTIONAL
from zun.api.v1.container_views import view
from zun.api.views import links, row_time
from zun.domain.container import Container, Type
from zun.domain.lifecycle import Status

RULE = "capsule:get"
CURRENT_SINCE = Version(1, 32)

_OLD_NAMES = {"name": "meta_name", "labels": "meta_labels"}


def hidden(call: Call) -> frozenset[str]:
    """Fields the caller may not see."""
    return call.policy.hidden_fields(RULE, call.caller)


def single(call: Call, capsule: Container, members: Sequence[Container], *, fresh: bool = False) -> dict[str, Any]:
    """The capsule with its members. ``fresh``: the answer of create, where unset collections are null."""

    def collection(value: Mapping[str, Any] | None) -> Any:
        return value if value is not None or fresh else {}

    shown: dict[str, Any] = {
        "uuid": capsule.uuid,
        "links": links(call, "capsules", capsule.uuid),
        "name": capsule.name or None,
        "project_id": capsule.project_id,
        "user_id": capsule.user_id,
        "cpu": float(capsule.cpu),
        "memory": str(capsule.memory),
        "status": capsule.status,
        "status_reason": capsule.status_reason,
        "labels": collection(capsule.labels),
        "addresses": collection(capsule.addresses),
        "restart_policy": capsule.restart_policy,
        "annotations": collection(capsule.annotations),
        "host": capsule.host,
        "created_at": row_time(capsule.created_at),
        "updated_at": row_time(capsule.updated_at),
        "containers": [_member(call, one) for one in members if one.container_type == Type.MEMBER],
        "init_containers": [_member(call, one) for one in members if one.container_type == Type.INIT],
    }
    for name in hidden(call):
        shown.pop(name, None)
    return shown if call.version >= CURRENT_SINCE else _legacy(shown)


def _member(call: Call, row: Container) -> dict[str, Any]:
    shown = view(call, row, None, fresh=False)
    del shown["links"]
    return shown


def _legacy(shown: Mapping[str, Any]) -> dict[str, Any]:
    """As up to 1.31."""
    old = {_OLD_NAMES.get(name, name): value for name, value in shown.items()}
    if "restart_policy" in old:
        old["restart_policy"] = (old["restart_policy"] or {}).get("Name")
    return {**old, "volumes_info": {}, "containers_uuids": [], "init_containers_uuids": [], "capsule_version": ""}


def last_known(shown: Mapping[str, Any], silence: str) -> dict[str, Any]:
    """Of a capsule whose host is down. The host's name is only for those who see it anyway."""
    host = f"host {shown['host']}" if shown.get("host") else "host"
    deleting = shown.get("status") == Status.DELETING
    then = "It is removed when the host is back." if deleting else "This is the last known state."
    reason = shown.get("status_reason") or f"The capsule's {host} {silence}. {then}"
    return {**shown, "status_reason": reason}


OPTIONAL = frozenset({"host"})
"""Members that rules ``capsule:get:<member>`` hide from those who are no administrators."""

_MAP = {"type": ["object", "null"]}
_ANY: dict[str, Any] = {
    "uuid": UUID,
    "links": LINKS,
    "project_id": TEXT,
    "user_id": TEXT,
    "cpu": NUMBER,
    "memory": TEXT,
    "status": {"enum": [str(one) for one in Status]},
    "status_reason": TEXT_OR_NULL,
    "addresses": {"type": ["object", "null"], "additionalProperties": listed(ADDRESS)},
    "annotations": _MAP,
    "host": TEXT_OR_NULL,
    "created_at": TEXT_OR_NULL,
    "updated_at": TEXT_OR_NULL,
    "containers": listed(obj(ITEM, MEMBER_OPTIONAL)),
    "init_containers": listed(obj(ITEM, MEMBER_OPTIONAL)),
}
MEMBERS: dict[str, Any] = {**_ANY, "name": TEXT_OR_NULL, "labels": _MAP, "restart_policy": TEXTS}
"""From 1.32."""
LEGACY: dict[str, Any] = {
    **_ANY,
    "meta_name": TEXT_OR_NULL,
    "meta_labels": _MAP,
    "restart_policy": TEXT,
    "volumes_info": {"type": "object"},
    "containers_uuids": listed(TEXT),
    "init_containers_uuids": listed(TEXT),
    "capsule_version": TEXT,
}
"""Up to 1.31."""
