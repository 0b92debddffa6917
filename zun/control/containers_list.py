"""A page of containers, as one caller may see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from zun.control.base import Control
from zun.control.containers_lookup import scope
from zun.domain.caller import Caller
from zun.domain.errors import ContainerNotFound
from zun.store import containers as store


class Place(Protocol):
    """Which page: ``limit`` rows behind ``marker`` in the order named."""

    @property
    def limit(self) -> int: ...
    @property
    def marker(self) -> str | None: ...
    @property
    def sort_key(self) -> str: ...
    @property
    def descending(self) -> bool: ...


async def page(
    control: Control,
    caller: Caller,
    place: Place,
    filters: Mapping[str, Sequence[Any]],
    *,
    all_projects: bool,
    after: tuple[int, Any] | None = None,
) -> Sequence[Mapping[str, Any]]:
    """Rows as ``store.containers.page`` gives them; ``after`` (id and value sorted by) is the marker's place, and the
    marker is not looked for then. Raises ContainerNotFound for an unknown marker."""
    wanted = store.Page(
        limit=place.limit,
        marker=place.marker,
        after=after,
        sort_key=place.sort_key,
        descending=place.descending,
        filters=filters,
        scope=scope(caller, all_projects=all_projects),
    )
    try:
        async with control.db.read() as connection:
            return await store.page(connection, wanted)
    except LookupError:
        raise ContainerNotFound(str(place.marker)) from None
