"""Quota of containers: checked early for the contract's order of errors, reserved with the row (S1.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.errors import OverQuota
from zun.store import quotas


async def check(connection: AsyncConnection, conf: Any, project_id: str, amounts: Mapping[str, int]) -> None:
    """Would the amounts fit now? Raises OverQuota (S1.6). Promises nothing: ``reserve`` decides."""
    limits = await quotas.limits(connection, project_id, _defaults(conf))
    used = await quotas.usage(connection, project_id)
    exceeded = [
        name
        for name, amount in sorted(amounts.items())
        if limits[name] >= 0 and used[name] + amount > limits[name] * (quotas.MILLI if name == "cpu" else 1)
    ]
    if exceeded:
        raise OverQuota(f"Quota exceeded for resources: {exceeded}")


async def reserve(connection: AsyncConnection, conf: Any, project_id: str, amounts: Mapping[str, int]) -> None:
    """Count the amounts, or raise OverQuota; in the transaction of what they are for."""
    limits = await quotas.limits(connection, project_id, _defaults(conf))
    await quotas.reserve(connection, project_id, amounts, limits)


async def give_back(connection: AsyncConnection, project_id: str, amounts: Mapping[str, int]) -> None:
    """The amounts no longer count."""
    await quotas.give_back(connection, project_id, amounts)


def _defaults(conf: Any) -> dict[str, int]:
    return {name: int(conf.quota[name]) for name in quotas.RESOURCES}
