"""Quotas: reading and setting limits (reserving is part of creating a container)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zun.control.base import Control
from zun.store import quotas as store


def defaults(conf: Any) -> dict[str, int]:
    """Limits of the configuration."""
    return {resource: conf.quota[resource] for resource in store.RESOURCES}


async def limits(control: Control, project_id: str) -> dict[str, int]:
    """The project's limits."""
    async with control.db.read() as connection:
        return await store.limits(connection, project_id, defaults(control.conf))


async def usages(control: Control, project_id: str) -> dict[str, dict[str, float | int]]:
    """``{resource: {limit, in_use}}``."""
    async with control.db.read() as connection:
        found = await store.limits(connection, project_id, defaults(control.conf))
        used = store.shown_usage(await store.usage(connection, project_id))
    return {resource: {"limit": found[resource], "in_use": used[resource]} for resource in store.RESOURCES}


async def set_limits(control: Control, project_id: str, values: Mapping[str, int]) -> dict[str, int]:
    """Write the limits given and return all of them. A limit below the usage is accepted: it stops growth."""
    async with control.db.write() as connection:
        await store.set_limits(connection, project_id, values)
        return await store.limits(connection, project_id, defaults(control.conf))


async def delete_limits(control: Control, project_id: str) -> None:
    """Back to the defaults."""
    async with control.db.write() as connection:
        await store.delete_limits(connection, project_id)


async def class_limits(control: Control, name: str) -> dict[str, int]:
    """Limits of a quota class; an unknown one has the defaults."""
    async with control.db.read() as connection:
        return await store.class_limits(connection, name, defaults(control.conf))


async def set_class_limits(control: Control, name: str, values: Mapping[str, int]) -> dict[str, int]:
    """Write the limits given and return all of them."""
    async with control.db.write() as connection:
        await store.set_class_limits(connection, name, values)
        return await store.class_limits(connection, name, defaults(control.conf))
