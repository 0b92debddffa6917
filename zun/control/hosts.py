"""Hosts: the compute nodes as administrators see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zun.control.base import Control
from zun.domain.errors import ComputeNodeNotFound
from zun.store import compute_nodes as store


async def find(control: Control, ident: str) -> Mapping[str, Any]:
    """By uuid or host name; raises ComputeNodeNotFound."""
    async with control.db.read() as connection:
        row = await store.find(connection, ident)
    if row is None:
        raise ComputeNodeNotFound(ident)
    return row


async def page(
    control: Control, *, limit: int, sort_key: str, descending: bool, marker: str | None
) -> Sequence[Mapping[str, Any]]:
    """One page; raises ComputeNodeNotFound for an unknown marker."""
    try:
        async with control.db.read() as connection:
            return await store.page(connection, limit=limit, sort_key=sort_key, descending=descending, marker=marker)
    except LookupError:
        raise ComputeNodeNotFound(str(marker)) from None
