"""Finding a container for a caller, and asking whether its host is up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.control.base import Control
from zun.domain.caller import Caller
from zun.domain.container import MEMBERS, Container, Type
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


async def lookup(
    control: Control,
    caller: Caller,
    ident: str,
    *,
    all_projects: bool = False,
    types: Sequence[str] = (Type.CONTAINER, *MEMBERS),
) -> Container:
    """By uuid or exact name; admins see every project without any switch. Members of capsules by uuid only.

    Raises ContainerNotFound, and Conflict when a name fits several.
    """
    async with control.db.read() as connection:
        return await lookup_on(connection, caller, ident, all_projects=all_projects, types=types)


async def lookup_on(
    connection: AsyncConnection, caller: Caller, ident: str, *, all_projects: bool, types: Sequence[str]
) -> Container:
    """The same on a connection that is there."""
    limits = scope(caller, all_projects=all_projects or caller.is_admin)
    found = await store.find(connection, ident, limits, types)
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
    return await host_silence(control, host) is None


async def host_silence(control: Control, host: str) -> str | None:
    """Why ``host`` counts as down, as the end of "the host …"; None when its agent is alive."""
    async with control.db.read() as connection:
        beat = await candidates.heartbeat(connection, host)
    if beat is None:
        return "is not known any more"
    if is_up(beat, control.clock.now(), control.conf.service_down_time):
        return None
    if beat["forced_down"]:
        return "was declared down"
    heard = beat["last_seen_up"] or beat["updated_at"] or beat["created_at"]
    return f"has not been heard of since {heard:%Y-%m-%d %H:%M:%S} UTC"


async def require_host(control: Control, caller: Caller, container: Container) -> str:
    """The container's host, when it can take work. Raises ContainerHostNotUp (S3.2), naming the host to admins."""
    if container.host is None:
        raise Conflict(f"Container {container.uuid} is on no host.")
    if not await host_is_up(control, container.host):
        raise ContainerHostNotUp(container.uuid, container.host if caller.is_admin else None)
    return container.host
