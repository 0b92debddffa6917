"""Queries on ``node_images``: what a node pulled itself, and so may remove; and what containers need of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.domain.image import LOADED
from zun.domain.node_image import Needed, NodeImage
from zun.store.missing import insert_missing
from zun.store.tables import containers, images, node_images

LONGEST = 384
"""Characters of a reference; a longer one is not kept."""

_c = node_images.c
_FIELDS = [_c[field.name] for field in dataclasses.fields(NodeImage)]
_SOME = 500


async def put(connection: AsyncConnection, image: NodeImage) -> None:
    """It was pulled, or pulled anew."""
    row = dataclasses.asdict(image)
    await insert_missing(connection, node_images, row)
    await connection.execute(node_images.update().where(*_is(image.host, image.reference)).values(**row))


async def get(connection: AsyncConnection, host: str, reference: str) -> NodeImage | None:
    row = (await connection.execute(sa.select(*_FIELDS).where(*_is(host, reference)))).mappings().first()
    return NodeImage(**row) if row else None


async def of_host(connection: AsyncConnection, host: str) -> Sequence[NodeImage]:
    rows = await connection.execute(sa.select(*_FIELDS).where(_c.host == host).order_by(_c.id))
    return [NodeImage(**row) for row in rows.mappings()]


async def used(connection: AsyncConnection, host: str, image_ids: Collection[str], now: datetime) -> None:
    """Containers are made of these images."""
    ids = sorted(image_ids)
    for start in range(0, len(ids), _SOME):
        some = _c.image_id.in_(ids[start : start + _SOME])
        await connection.execute(node_images.update().where(_c.host == host, some).values(used_at=now))


async def forget(connection: AsyncConnection, host: str, reference: str) -> None:
    """It is gone, or somebody else's by now; absent is success."""
    await connection.execute(node_images.delete().where(*_is(host, reference)))


async def needed(connection: AsyncConnection, host: str) -> Needed:
    """By containers of the host, whether its engine has them or not, and by administrators who had images pulled."""
    c = containers.c
    asked = sa.select(c.image, c.image_uuid, c.engine_image).where(c.host == host).distinct()
    found = [tuple(row) for row in await connection.execute(asked)]
    i = images.c
    kept = sa.select(i.repo, i.tag, i.image_uuid, i.image_id).where(i.host == host)
    for repo, tag, uuid, image_id in await connection.execute(kept):
        found.append((f"{repo}{'@' if ':' in tag else ':'}{tag}" if tag else repo, uuid, image_id))
    names = frozenset(_tagged(f"{LOADED}/{uuid}" if uuid else name) for name, uuid, _ in found)
    return Needed(frozenset(image_id for _, _, image_id in found if image_id), names)


def _tagged(name: str) -> str:
    """As engines call what has no tag; a port is none."""
    return name if "@" in name or ":" in name.rpartition("/")[2] else f"{name}:latest"


def _is(host: str, reference: str) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return _c.host == host, _c.reference == reference
