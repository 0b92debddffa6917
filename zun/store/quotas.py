"""Queries on quotas: limits, and the usage that is reserved before anything is made.

Usage counts cores in thousandths (``cpu`` 1500 = 1.5); limits are whole cores, MiB, GiB, and -1 for unlimited.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.errors import Conflict, OverQuota
from zun.store.missing import insert_missing
from zun.store.tables import quota_classes, quota_usages, quotas

RESOURCES = ("containers", "memory", "disk", "cpu")
"""In the order answers show them."""
DEFAULT_CLASS = "default"
MILLI = 1000
_u = quota_usages.c
_ATTEMPTS = 5


def deltas(*, containers: int = 0, cpu: float = 0.0, memory: int = 0, disk: int = 0) -> dict[str, int]:
    """Amounts as ``reserve`` and ``give_back`` count them: ``cpu`` in cores here, MiB, GiB."""
    return {"containers": containers, "cpu": round(cpu * MILLI), "memory": memory, "disk": disk}


async def limits(connection: AsyncConnection, project_id: str, defaults: Mapping[str, int]) -> dict[str, int]:
    """The project's limits: its own, else those of class ``default``, else ``defaults`` (one query)."""
    own = sa.select(sa.literal(1).label("rank"), quotas.c.resource, quotas.c.hard_limit).where(
        quotas.c.project_id == project_id
    )
    rows = await connection.execute(own.union_all(_class_rows(DEFAULT_CLASS)))
    return _merged(rows, defaults)


async def class_limits(connection: AsyncConnection, name: str, defaults: Mapping[str, int]) -> dict[str, int]:
    """Limits of a class, filled up with ``defaults``."""
    return _merged(await connection.execute(_class_rows(name)), defaults)


def _class_rows(name: str) -> sa.Select[Any]:
    return sa.select(sa.literal(0).label("rank"), quota_classes.c.resource, quota_classes.c.hard_limit).where(
        quota_classes.c.class_name == name
    )


def _merged(rows: Any, defaults: Mapping[str, int]) -> dict[str, int]:
    found = {resource: defaults[resource] for resource in RESOURCES}
    for _, resource, hard_limit in sorted(rows, key=lambda row: int(row[0])):
        if resource in found:
            found[resource] = int(hard_limit)
    return found


async def set_limits(connection: AsyncConnection, project_id: str, values: Mapping[str, int]) -> None:
    """Write a project's own limits."""
    await _put(connection, quotas, quotas.c.project_id, project_id, values)


async def set_class_limits(connection: AsyncConnection, name: str, values: Mapping[str, int]) -> None:
    """Write limits of a class."""
    await _put(connection, quota_classes, quota_classes.c.class_name, name, values)


async def _put(
    connection: AsyncConnection, table: sa.Table, owner: sa.Column[Any], ident: str, values: Mapping[str, int]
) -> None:
    for resource, limit in values.items():
        update = table.update().where(owner == ident, table.c.resource == resource).values(hard_limit=limit)
        if (await connection.execute(update)).rowcount:
            continue
        await insert_missing(connection, table, {owner.name: ident, "resource": resource, "hard_limit": limit})
        await connection.execute(update)


async def delete_limits(connection: AsyncConnection, project_id: str) -> None:
    """Back to the defaults; none is success."""
    await connection.execute(quotas.delete().where(quotas.c.project_id == project_id))


async def usage(connection: AsyncConnection, project_id: str) -> dict[str, int]:
    """What the project holds now; ``cpu`` in thousandths of a core."""
    row = (await connection.execute(sa.select(quota_usages).where(_u.project_id == project_id))).mappings().first()
    return {resource: int(row[resource]) if row else 0 for resource in RESOURCES}


def shown_usage(used: Mapping[str, int]) -> dict[str, float | int]:
    """Usage in the units of limits: cores rounded to three digits."""
    cores = round(used["cpu"] / MILLI, 3)
    return {**used, "cpu": int(cores) if cores == int(cores) else cores}


async def reserve(
    connection: AsyncConnection, project_id: str, deltas: Mapping[str, int], limits: Mapping[str, int]
) -> None:
    """Add ``deltas`` to the usage if every grown resource stays within its limit; OverQuota (403) names those that
    would not. One guarded UPDATE, so two requests at once cannot both take the last place (S1.6)."""
    if not deltas:
        return
    conditions = [_u.project_id == project_id]
    for resource, amount in deltas.items():
        allowed = _allowed(limits, resource)
        if amount > 0 and allowed is not None:
            conditions.append(_u[resource] <= allowed - amount)
    update = quota_usages.update().where(*conditions).values(_changed(deltas))
    for _ in range(_ATTEMPTS):
        if (await connection.execute(update)).rowcount:
            return
        query = sa.select(quota_usages).where(_u.project_id == project_id).with_for_update()  # the newest, no snapshot
        row = (await connection.execute(query)).mappings().first()
        if row is None:
            nothing = dict.fromkeys(RESOURCES, 0)
            await insert_missing(connection, quota_usages, {"project_id": project_id, **nothing})
            continue
        exceeded = [
            resource
            for resource, amount in sorted(deltas.items())
            if amount > 0
            and (allowed := _allowed(limits, resource)) is not None
            and int(row[resource]) + amount > allowed
        ]
        if exceeded:
            raise OverQuota(f"Quota exceeded for resources: {exceeded}")
    raise Conflict("The quota of the project is changing too fast. Try again.")


async def give_back(connection: AsyncConnection, project_id: str, deltas: Mapping[str, int]) -> None:
    """Take ``deltas`` off the usage again; never below zero."""
    if not deltas:
        return
    given = {resource: -amount for resource, amount in deltas.items()}
    await connection.execute(quota_usages.update().where(_u.project_id == project_id).values(_changed(given)))


def _allowed(limits: Mapping[str, int], resource: str) -> int | None:
    """The limit in units of usage; None without one."""
    limit = limits.get(resource, -1)
    if limit < 0:
        return None
    return limit * MILLI if resource == "cpu" else limit


def _changed(deltas: Mapping[str, int]) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for resource, amount in deltas.items():
        if amount > 0:
            changed[resource] = _u[resource] + amount
        else:
            changed[resource] = sa.case((_u[resource] > -amount, _u[resource] + amount), else_=0)
    return changed
