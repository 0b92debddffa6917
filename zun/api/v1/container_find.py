"""The container a route names, with its rule checked on it."""

from __future__ import annotations

from zun.api.call import Call
from zun.control.container_record import Asked
from zun.control.containers_lookup import lookup
from zun.domain.container import MEMBERS, Container
from zun.domain.errors import Conflict


async def find(
    call: Call, rule: str | None, *, all_projects: bool = False, members: bool = False, ident: str | None = None
) -> Container:
    """By uuid or name: the path's, or ``ident``. ``members``: the route makes sense for a container of a capsule, too
    (else Conflict). Raises ContainerNotFound (foreign ones too), Conflict, PolicyNotAuthorized."""
    row = await lookup(call.control, call.caller, ident or call.path["container_ident"], all_projects=all_projects)
    if rule is not None:
        enforce_on(call, rule, row)
    if row.container_type in MEMBERS and not members:
        raise Conflict(f"Container {row.uuid} belongs to capsule {row.capsule_uuid}; it cannot be changed by itself.")
    return row


def enforce_on(call: Call, rule: str, row: Container) -> None:
    """Raise PolicyNotAuthorized unless ``rule`` allows the caller on this container."""
    call.policy.enforce(rule, call.caller, {"project_id": row.project_id, "user_id": row.user_id})


def asked(call: Call) -> Asked:
    """Who asked, for the operation's record."""
    return Asked(call.caller, call.request_id)
