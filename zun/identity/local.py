"""The embedded identity: projects and tokens in our own database. Only the tokens' hashes are stored."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

from zun.domain.caller import Caller
from zun.domain.clock import Clock
from zun.domain.errors import InvalidValue
from zun.store import local_identity as store
from zun.store.database import Database
from zun.store.local_identity import Project, Token

ROLES = {
    "admin": frozenset({"admin", "member", "reader"}),
    "member": frozenset({"member", "reader"}),
    "reader": frozenset({"reader"}),
}
"""What a token's role implies, as in Keystone."""

_CACHE_SIZE = 4096
_LONGEST_TOKEN = 512


class LocalIdentity:
    """See ``zun.identity.base.Identity``."""

    www_authenticate = 'Zun realm="local"'

    def __init__(self, db: Database, conf: Any, clock: Clock) -> None:
        self._db = db
        self._believed = float(conf.local.token_cache_seconds)
        self._clock = clock
        self._cache: OrderedDict[str, tuple[float, Token]] = OrderedDict()
        self._flights: dict[str, asyncio.Task[Token | None]] = {}

    async def authenticate(self, token: str, service_token: str | None = None) -> Caller | None:
        """The caller; None when the token is unknown, revoked or expired. Raises Unavailable.

        There are no service tokens here, so one sent along counts for nothing. A revocation is seen after at
        most ``[local]/token_cache_seconds``; an expiry at once.
        """
        if not token or len(token) > _LONGEST_TOKEN:
            return None
        digest = hash_of(token)
        found = self._cached(digest) or await self._look_up(digest)
        if found is None or not found.valid_at(self._clock.now()):
            return None
        return Caller(
            user_id=found.user_id,
            project_id=found.project_id,
            roles=ROLES.get(found.role, frozenset()),
            user_name=found.user_name,
            project_name=found.project_name,
            token=token,
        )

    def _cached(self, digest: str) -> Token | None:
        until, found = self._cache.get(digest, (0.0, None))
        if found is None or self._clock.monotonic() >= until:
            return None
        self._cache.move_to_end(digest)
        return found

    async def _look_up(self, digest: str) -> Token | None:
        """One query a token at a time; a caller who leaves does not end it for the others."""
        flight = self._flights.get(digest)
        if flight is None:
            flight = asyncio.create_task(self._read(digest), name="token-lookup")
            self._flights[digest] = flight
            flight.add_done_callback(lambda _: self._flights.pop(digest, None))
        return await asyncio.shield(flight)

    async def _read(self, digest: str) -> Token | None:
        async with self._db.read() as connection:
            found = await store.token_by_hash(connection, digest)
        # Unknown tokens are not remembered: guesses must not push real ones out.
        if found is None:
            self._cache.pop(digest, None)
        elif self._believed:
            self._cache[digest] = (self._clock.monotonic() + self._believed, found)
            self._cache.move_to_end(digest)
            while len(self._cache) > _CACHE_SIZE:
                self._cache.popitem(last=False)
        return found


def hash_of(token: str) -> str:
    """SHA-256, hexadecimal; a token of 32 random bytes needs no slow hash."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


async def create_token(
    db: Database,
    clock: Clock,
    *,
    project_name: str,
    role: str,
    user_name: str | None = None,
    expires: datetime | timedelta | None = None,
) -> tuple[str, str]:
    """(uuid, token) of a new token; the token is shown here and never again. The project is made on demand.

    ``expires``: naive UTC, or a span from now. Raises InvalidValue for an unknown role or an empty project name.
    """
    if role not in ROLES:
        raise InvalidValue(f"Role {role} is not known; the roles are {', '.join(sorted(ROLES))}.")
    if not project_name or len(project_name) > 255:
        raise InvalidValue("A project's name has 1 to 255 characters.")
    now = clock.now()
    project = await ensure_project(db, clock, project_name)
    user = user_name or f"{project_name}-{role}"
    text = secrets.token_urlsafe(32)
    made = Token(
        uuid=str(uuid4()),
        token_hash=hash_of(text),
        project_id=project.id,
        project_name=project.name,
        user_id=uuid5(NAMESPACE_URL, f"zun:{project.id}:{user}").hex,
        user_name=user,
        role=role,
        created_at=now,
        expires_at=now + expires if isinstance(expires, timedelta) else expires,
    )
    async with db.write() as connection:
        await store.insert_token(connection, made)
    return made.uuid, text


async def ensure_project(db: Database, clock: Clock, name: str) -> Project:
    """The project of that name, made if there is none; one only, however many ask at once."""
    while True:
        async with db.read() as connection:
            found = await store.project_by_name(connection, name)
        if found is not None:
            return found
        project = Project(uuid4().hex, name, clock.now())
        await db.run(partial(store.insert_project, project=project))


async def list_tokens(db: Database) -> Sequence[Token]:
    """All tokens, oldest first, their hashes blanked."""
    async with db.read() as connection:
        return [dataclasses.replace(token, token_hash="") for token in await store.tokens(connection)]


async def revoke_token(db: Database, clock: Clock, uuid: str) -> bool:
    """False when there is no such token, or it is revoked already."""
    async with db.write() as connection:
        return await store.revoke(connection, uuid, clock.now())


async def list_projects(db: Database) -> Sequence[Project]:
    """All projects by name."""
    async with db.read() as connection:
        return await store.projects(connection)
