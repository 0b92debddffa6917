"""Finding a container for a caller, and asking whether its host is up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zun.control.base import Control
from zun.domain.caller import Caller
from zun.domain.container import Container
from zun.domain.errors import Conflict, ContainerHostNotUp, ContainerNotFound
from zun.domain.service import is_up
from zun.store import candidates
from zun.store import containers as store


def scope(caller: Caller, *, all_projects: bool) -> Mapping[str, Any]:
    """Columns that limit what the caller sees: the project, else the user."""
    if all_projects:
        return {}
    if caller.project_id:
        return {"project_id": caller.project_id}
    return {"user_id": caller.user_id}


async def lookup(control: Control, caller: Caller, ident: str, *, all_projects: bool = False) -> Container:
    """By uuid or exact name; admins see every project without any switch.

    Raises ContainerNotFound, and Conflict when a name fits several.
    """
    limits = scope(caller, all_projects=all_projects or caller.is_admin)
    async with control.db.read() as connection:
        found = await store.find(connection, ident, limits)
    if not found:
        raise ContainerNotFound(ident)
    if len(found) > 1:
        raise Conflict("Multiple containers exist with same name. Please use the container uuid instead.")
    return found[0]


async def again(control: Control, uuid: str) -> Container:
    """The same container as it is now. Raises ContainerNotFound when it went."""
    async with control.db.read() as connection:
        row = await store.get(connection, uuid)
    if row is None:
        raise ContainerNotFound(uuid)
    return row


async def host_is_up(control: Control, host: str) -> bool:
    """Is the agent of ``host`` alive, by its heartbeat?"""
    async with control.db.read() as connection:
        beat = await candidates.heartbeat(connection, host)
    return beat is not None and is_up(beat, control.clock.now(), control.conf.service_down_time)


async def require_host(control: Control, caller: Caller, container: Container) -> str:
    """The container's host, when it can take work. Raises ContainerHostNotUp (S3.2), naming the host to admins."""
    if container.host is None:
        raise Conflict(f"Container {container.uuid} is on no host.")
    if not await host_is_up(control, container.host):
        raise ContainerHostNotUp(container.uuid, container.host if caller.is_admin else None)
    return container.host
