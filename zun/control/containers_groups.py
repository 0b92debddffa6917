"""Add and remove security groups (up to 1.14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zun.control.base import Control
from zun.control.container_record import Asked
from zun.control.containers_lookup import require_host
from zun.control.containers_networks import announce
from zun.domain.container import Container
from zun.domain.errors import InvalidValue, SecurityGroupCannotBeApplied, SecurityGroupCannotBeRemoved
from zun.domain.lifecycle import Task, require
from zun.domain.operation import Kind, Operation

DEFAULT = "default"
"""The group that ports have when none was asked for."""


async def change(control: Control, asked: Asked, container: Container, kind: Kind, name: str) -> None:
    """Leave the change for the node. Raises InvalidValue (no such group), Conflict (ambiguous),
    SecurityGroupCannotBeApplied, SecurityGroupCannotBeRemoved, InvalidStateException, ContainerHostNotUp."""
    require(kind, container.uuid, container.status)
    host = await require_host(control, asked.caller, container)
    adding = kind == Kind.ADD_SECURITY_GROUP
    found = await control.network.security_groups(asked.caller, [name])
    default = await _default(control, asked, container)

    def decide(row: Container, pending: Sequence[Operation]) -> Mapping[str, Any]:
        held = set(row.security_groups or default)
        for operation in pending:
            if operation.kind == Kind.ADD_SECURITY_GROUP:
                held.add(operation.params["group_id"])
            elif operation.kind == Kind.REMOVE_SECURITY_GROUP:
                held.discard(operation.params["group_id"])
        if adding and (not found or found[0] in held):
            raise SecurityGroupCannotBeApplied(f"Security group {name} is applied to container {row.uuid} already.")
        if not adding and not found:
            raise SecurityGroupCannotBeRemoved(f"Security group {name} is all that ports of this network have.")
        if not adding and found[0] not in held:
            raise SecurityGroupCannotBeRemoved(f"Security group {name} is not applied to container {row.uuid}.")
        return {"group_id": found[0], "default": list(default)}

    task = Task.SG_ADDING if adding else Task.SG_REMOVING
    await announce(control, asked, container, host, kind, task, decide)


async def _default(control: Control, asked: Asked, container: Container) -> Sequence[str]:
    """What the container's ports have though the row lists none."""
    if container.security_groups or container.exposed_ports or asked.caller.project_id != container.project_id:
        return ()
    try:
        return await control.network.security_groups(asked.caller, [DEFAULT])
    except InvalidValue:  # a project may have renamed or removed it
        return ()
