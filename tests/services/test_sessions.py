"""Rows of sessions on each kind of database: opened once, connected once, gone with their container, swept."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from zun.domain.session import Session, SessionKind, hash_token, new_token
from zun.store import capsules, services, sessions
from zun.store.database import Database
from zun.store.tables import sessions as table

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901)
MINUTE = timedelta(minutes=1)


def make(**changed: Any) -> Session:
    values: dict[str, Any] = {
        "uuid": str(uuid4()),
        "token_hash": hash_token(new_token()),
        "kind": SessionKind.EXEC,
        "container_uuid": str(uuid4()),
        "capsule_uuid": None,
        "host": "h1",
        "exec_id": "ab" * 32,
        "command": ["sh", "-c", "echo \N{CAT FACE}"],
        "tty": True,
        "stdin": True,
        "project_id": "p",
        "user_id": "u",
        "request_id": "req-1",
        "created_at": NOW,
        "expires_at": NOW + 10 * MINUTE,
    }
    return Session(**values | changed)


async def put(db: Database, *many: Session) -> None:
    async with db.write() as connection:
        for session in many:
            await sessions.insert(connection, session)


async def uuids(db: Database) -> set[str]:
    async with db.read() as connection:
        return set((await connection.execute(sa.select(table.c.uuid))).scalars())


async def test_found_by_hash_and_by_exec(db: Database) -> None:
    session = make()
    attach = make(kind=SessionKind.ATTACH, exec_id=None, command=None, container_uuid=session.container_uuid)
    await put(db, session, attach)
    async with db.read() as connection:
        assert await sessions.by_hash(connection, session.token_hash) == session
        assert await sessions.get(connection, attach.uuid) == attach
        assert await sessions.by_exec_id(connection, session.container_uuid, "ab" * 32) == session
        assert await sessions.by_exec_id(connection, str(uuid4()), "ab" * 32) is None
        assert await sessions.by_hash(connection, hash_token("other")) is None


async def test_opened_once_though_many_try(db: Database) -> None:
    session = make()
    await put(db, session)

    async def attempt() -> bool:
        async def work(connection: Any) -> bool:
            return await sessions.open_once(connection, session.uuid, NOW + MINUTE)

        return await db.run(work)

    outcomes = await asyncio.gather(*(attempt() for _ in range(8)))
    assert sorted(outcomes) == [False] * 7 + [True]


async def test_not_opened_after_it_expired(db: Database) -> None:
    session = make()
    await put(db, session)
    async with db.write() as connection:
        assert not await sessions.open_once(connection, session.uuid, session.expires_at)
        assert await sessions.open_once(connection, session.uuid, session.expires_at - timedelta(microseconds=1))


async def test_connected_once_by_its_host_soon_after_it_was_opened(db: Database) -> None:
    fine, unopened, old, ended = (make() for _ in range(4))
    await put(db, fine, unopened, old, ended)
    async with db.write() as connection:
        for session in (fine, ended):
            await sessions.open_once(connection, session.uuid, NOW)
        await sessions.open_once(connection, old.uuid, NOW - 2 * MINUTE)
        await sessions.end(connection, ended.uuid, NOW)

        async def connect(session: Session, host: str = "h1") -> Session | None:
            return await sessions.connect_once(connection, session.uuid, host, NOW + MINUTE, MINUTE)

        assert await connect(fine, "h2") is None
        found = await connect(fine)
        assert found is not None
        assert (found.uuid, found.opened_at, found.connected_at) == (fine.uuid, NOW, NOW + MINUTE)
        assert [await connect(one) for one in (fine, unopened, old, ended)] == [None] * 4


async def test_gone_with_the_container_or_the_capsule(db: Database) -> None:
    capsule = str(uuid4())
    lone, first, second = make(), make(capsule_uuid=capsule), make(capsule_uuid=capsule)
    other = make()
    await put(db, lone, first, second, other)
    async with db.write() as connection:
        await sessions.forget(connection, lone.container_uuid)
        await sessions.forget(connection, capsule)
    assert await uuids(db) == {other.uuid}
    async with db.write() as connection:
        assert not await capsules.remove(connection, other.container_uuid, {})  # no row of it: nothing is touched
    assert await uuids(db) == {other.uuid}


@pytest.mark.parametrize(
    ("opened", "ended", "age", "goes"),
    [
        (False, False, timedelta(minutes=59), False),
        (False, False, timedelta(minutes=61), True),
        (True, True, timedelta(minutes=59), False),
        (True, True, timedelta(minutes=61), True),
        (True, False, timedelta(days=29), False),
        (True, False, timedelta(days=31), True),
    ],
)
async def test_swept_when_of_no_use(db: Database, opened: bool, ended: bool, age: timedelta, goes: bool) -> None:
    session = make(opened_at=NOW if opened else None, ended_at=NOW if ended else None)
    await put(db, session)
    async with db.write() as connection:
        assert await sessions.sweep(connection, session.expires_at + age) == int(goes)
    assert await uuids(db) == (set() if goes else {session.uuid})


async def test_the_relay_is_told_with_the_service(db: Database) -> None:
    who = {"host": "h1", "binary": "zun-compute", "availability_zone": None, "instance": "i", "now": NOW}
    for relay in ("10.0.0.7:6785", None):
        async with db.write() as connection:
            await services.register(connection, **who, relay=relay)
            found = await services.get(connection, "h1", "zun-compute")
        assert found is not None
        assert found["relay"] == relay
