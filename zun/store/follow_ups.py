"""Operations that come of another one: they carry its request, user and project, so that users find them with it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.operation import Operation
from zun.store import operations


async def insert(
    connection: AsyncConnection,
    of: Operation,
    kind: str,
    *,
    host: str,
    params: Mapping[str, Any],
    now: datetime,
    deadline: datetime,
) -> int:
    """Write one on ``host``, in the transaction of what it follows from; its id."""
    return await operations.insert(
        connection,
        container_uuid=of.container_uuid,
        kind=kind,
        host=host,
        request_id=of.request_id,
        user_id=of.user_id,
        project_id=of.project_id,
        params=params,
        now=now,
        deadline=deadline,
    )
