"""Keyset paging: a page reads as many rows as it returns, wherever it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection


async def page(
    connection: AsyncConnection,
    table: sa.Table,
    *,
    limit: int,
    sort_key: str,
    descending: bool,
    marker: str | None,
    conditions: Sequence[sa.ColumnElement[bool]] = (),
) -> Sequence[Mapping[str, Any]]:
    """Rows behind the row whose uuid is ``marker``, by ``sort_key`` then ``id``; nulls last (first when descending).

    Raises LookupError when the marker does not exist among ``conditions``.
    """
    key = table.c[sort_key]
    where = list(conditions)
    if marker is not None:
        query = sa.select(table.c.id, key.label("key")).where(table.c.uuid == marker, *conditions)
        found = (await connection.execute(query)).first()
        if found is None:
            raise LookupError(marker)
        where.append(_after(table, key, found.key, found.id, descending))
    order: list[sa.ColumnElement[Any]] = [key.desc(), table.c.id.desc()] if descending else [key, table.c.id]
    if sort_key != "id":
        order.insert(0, key.isnot(None) if descending else key.is_(None))
    rows = await connection.execute(sa.select(table).where(*where).order_by(*order).limit(limit))
    return [dict(row) for row in rows.mappings()]


def _after(
    table: sa.Table, key: sa.ColumnElement[Any], value: Any, row_id: int, descending: bool
) -> sa.ColumnElement[bool]:
    row = table.c.id
    if key is row:
        return row < row_id if descending else row > row_id
    if descending:
        if value is None:
            return sa.or_(key.isnot(None), row < row_id)
        return sa.and_(key.isnot(None), sa.or_(key < value, sa.and_(key == value, row < row_id)))
    if value is None:
        return sa.and_(key.is_(None), row > row_id)
    return sa.or_(key > value, sa.and_(key == value, row > row_id), key.is_(None))
