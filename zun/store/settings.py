"""Queries on ``settings``: named values of the whole deployment."""

from __future__ import annotations

from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.store.database import Database
from zun.store.missing import insert_missing
from zun.store.tables import settings

DEPLOYMENT_ID = "deployment_id"


async def get(connection: AsyncConnection, name: str) -> str | None:
    """The value, None if never put."""
    return (await connection.execute(sa.select(settings.c.value).where(settings.c.name == name))).scalar_one_or_none()


async def put(connection: AsyncConnection, name: str, value: str) -> None:
    """Set the value, whatever it was."""
    update = settings.update().where(settings.c.name == name).values(value=value)
    if not (await connection.execute(update)).rowcount:
        await insert_missing(connection, settings, {"name": name, "value": value})
        await connection.execute(update)


async def put_first(connection: AsyncConnection, name: str, value: str) -> bool:
    """Set the value if there is none; False when another was first."""
    if await get(connection, name) is not None:
        return False
    try:
        async with connection.begin_nested():
            await connection.execute(settings.insert().values(name=name, value=value))
    except sa.exc.IntegrityError:
        return False
    return True


async def once(db: Database, name: str, value: str) -> str:
    """The value all processes agree on: what is stored, else ``value`` (race-safe)."""
    async with db.read() as connection:
        found = await get(connection, name)
    while found is None:
        await db.run(lambda connection: put_first(connection, name, value))
        async with db.read() as connection:
            found = await get(connection, name)
    return found


async def deployment_id(db: Database) -> str:
    """The uuid that tells this deployment's containers from those of others on the same engine."""
    return await once(db, DEPLOYMENT_ID, str(uuid4()))
