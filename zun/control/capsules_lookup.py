"""Finding capsules for a caller: one, or a page, each with its members."""

from __future__ import annotations

from collections.abc import Sequence

from zun.control import containers_lookup
from zun.control.base import Control
from zun.control.containers_list import Place
from zun.control.containers_lookup import lookup_on, scope
from zun.domain.caller import Caller
from zun.domain.container import Container, Type
from zun.domain.errors import ContainerNotFound
from zun.store import capsules as store

Found = tuple[Container, Sequence[Container]]
"""A capsule and its members, init containers first."""


async def find(control: Control, caller: Caller, ident: str, *, all_projects: bool = False) -> Found:
    """By uuid or exact name; admins see every project without any switch. Raises ContainerNotFound, Conflict."""
    async with control.db.read() as connection:
        capsule = await lookup_on(connection, caller, ident, all_projects=all_projects, types=(Type.CAPSULE,))
        return capsule, await store.members(connection, capsule.uuid)


async def again(control: Control, uuid: str) -> Found:
    """The same capsule as it is now. Raises ContainerNotFound when it went."""
    capsule = await containers_lookup.again(control, uuid)
    async with control.db.read() as connection:
        return capsule, await store.members(connection, uuid)


async def page(control: Control, caller: Caller, place: Place, *, all_projects: bool) -> Sequence[Found]:
    """Raises ContainerNotFound for an unknown marker."""
    try:
        async with control.db.read() as connection:
            return await store.page(
                connection,
                limit=place.limit,
                sort_key=place.sort_key,
                descending=place.descending,
                marker=place.marker,
                scope=scope(caller, all_projects=all_projects),
            )
    except LookupError:
        raise ContainerNotFound(str(place.marker)) from None
