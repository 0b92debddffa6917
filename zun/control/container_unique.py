"""Unique container names, where the operator wants them: ``[compute]/unique_container_name_scope``."""

from __future__ import annotations

from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.errors import ContainerAlreadyExists
from zun.store import containers, settings

_LOCK = "container_name_lock"


async def require_free_name(connection: AsyncConnection, conf: Any, name: str, project_id: str) -> None:
    """Within the transaction that writes the name; letter case aside. Raises ContainerAlreadyExists.

    Writing the lock's row first makes two such transactions follow each other on every database.
    """
    scope = conf.compute.unique_container_name_scope
    if not scope:
        return
    await settings.put(connection, _LOCK, name)
    if await containers.name_taken(connection, name, project_id if scope == "project" else None):
        raise ContainerAlreadyExists(name)
