"""Registries: stored access to image registries. Passwords are encrypted before they reach the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from zun.control.base import Control
from zun.domain.caller import Caller
from zun.domain.errors import Conflict, RegistryNotFound
from zun.store import containers
from zun.store import registries as store


def scope_of(caller: Caller, *, everything: bool) -> dict[str, Any]:
    """The caller's project (the user for a token without one); no bounds with ``everything``."""
    if everything:
        return {}
    return {"project_id": caller.project_id} if caller.project_id else {"user_id": caller.user_id}


async def find(control: Control, caller: Caller, ident: str) -> Mapping[str, Any]:
    """By uuid or name, admins in all projects; raises RegistryNotFound, Conflict when the name is ambiguous."""
    async with control.db.read() as connection:
        found = await store.find(connection, ident, scope_of(caller, everything=caller.is_admin))
    if not found:
        raise RegistryNotFound(ident)
    if len(found) > 1:
        raise Conflict("Multiple registries exist with same name. Please use the registry uuid instead.")
    return found[0]


async def page(
    control: Control,
    caller: Caller,
    *,
    limit: int,
    sort_key: str,
    descending: bool,
    marker: str | None,
    filters: Mapping[str, Sequence[str]],
    all_projects: bool,
) -> Sequence[Mapping[str, Any]]:
    """One page; raises RegistryNotFound for an unknown marker."""
    try:
        async with control.db.read() as connection:
            return await store.page(
                connection,
                limit=limit,
                sort_key=sort_key,
                descending=descending,
                marker=marker,
                scope=scope_of(caller, everything=all_projects),
                filters=filters,
            )
    except LookupError:
        raise RegistryNotFound(str(marker)) from None


async def create(control: Control, caller: Caller, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Store a registry (``name``, ``domain``, ``username``, ``password`` in clear); the row as stored."""
    row = {
        "uuid": str(uuid4()),
        "name": values.get("name"),
        "domain": values["domain"],
        "username": values.get("username"),
        "project_id": caller.project_id or "",
        "user_id": caller.user_id,
        "created_at": control.clock.now(),
        **_encrypted(control, values),
    }
    async with control.db.write() as connection:
        await store.insert(connection, row)
    return row


async def update(control: Control, caller: Caller, ident: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Change what is given; raises as ``find``."""
    row = await find(control, caller, ident)
    changed = {**values, **_encrypted(control, values)}
    if changed:
        async with control.db.write() as connection:
            if not await store.update(connection, row["uuid"], changed, control.clock.now()):
                raise RegistryNotFound(ident)
    return {**row, **changed}


async def delete(control: Control, caller: Caller, ident: str) -> None:
    """Raises as ``find``, and Conflict while a container uses it."""
    row = await find(control, caller, ident)
    in_use = Conflict(f"Failed to delete registry {row['uuid']} since it is in use.")
    try:
        async with control.db.write() as connection:
            if await containers.using_registry(connection, row["id"]):
                raise in_use
            await store.delete(connection, row["uuid"])
    except sa.exc.IntegrityError:
        raise in_use from None


def _encrypted(control: Control, values: Mapping[str, Any]) -> dict[str, str]:
    return {"password": control.cipher.encrypt(values["password"])} if values.get("password") is not None else {}
