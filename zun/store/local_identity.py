"""Queries on the embedded identity's tokens and projects."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.store.tables import local_projects, local_tokens


@dataclass(frozen=True, slots=True)
class Project:
    """One row of ``local_projects``."""

    id: str
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Token:
    """One row of ``local_tokens``; times are naive UTC."""

    uuid: str
    token_hash: str = dataclasses.field(repr=False)
    project_id: str
    project_name: str
    user_id: str
    user_name: str
    role: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def valid_at(self, moment: datetime) -> bool:
        """Neither revoked nor expired?"""
        return self.revoked_at is None and (self.expires_at is None or moment < self.expires_at)


_TOKEN = [local_tokens.c[field.name] for field in dataclasses.fields(Token)]


async def token_by_hash(connection: AsyncConnection, digest: str) -> Token | None:
    """The token's row, valid or not."""
    row = (await connection.execute(sa.select(*_TOKEN).where(local_tokens.c.token_hash == digest))).first()
    return Token(**row._mapping) if row else None


async def insert_token(connection: AsyncConnection, token: Token) -> None:
    """Store a token's hash and holder."""
    await connection.execute(local_tokens.insert().values(**dataclasses.asdict(token)))


async def tokens(connection: AsyncConnection) -> Sequence[Token]:
    """All tokens, oldest first."""
    rows = await connection.execute(sa.select(*_TOKEN).order_by(local_tokens.c.id))
    return [Token(**row._mapping) for row in rows]


async def revoke(connection: AsyncConnection, uuid: str, now: datetime) -> bool:
    """True if it was not revoked before."""
    result = await connection.execute(
        local_tokens.update()
        .where(local_tokens.c.uuid == uuid, local_tokens.c.revoked_at.is_(None))
        .values(revoked_at=now)
    )
    return bool(result.rowcount)


async def project_by_name(connection: AsyncConnection, name: str) -> Project | None:
    """The project of that name."""
    row = (await connection.execute(sa.select(local_projects).where(local_projects.c.name == name))).first()
    return Project(**row._mapping) if row else None


async def insert_project(connection: AsyncConnection, project: Project) -> bool:
    """False when another was faster with the name."""
    try:
        async with connection.begin_nested():
            await connection.execute(local_projects.insert().values(**dataclasses.asdict(project)))
    except sa.exc.IntegrityError:
        return False
    return True


async def projects(connection: AsyncConnection) -> Sequence[Project]:
    """All projects by name."""
    rows = await connection.execute(sa.select(local_projects).order_by(local_projects.c.name))
    return [Project(**row._mapping) for row in rows]
