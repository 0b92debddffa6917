"""The embedded identity: who holds a token, for how long it is believed, and that only hashes are stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.database import make_database
from zun.domain.errors import InvalidValue, Unavailable
from zun.identity import local
from zun.identity.local import LocalIdentity, create_token, list_projects, list_tokens, revoke_token
from zun.store.database import Database


class FakeClock:
    """Time that moves when told."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database = await make_database(tmp_path)
    yield database
    await database.close()


@pytest.fixture
def identity(db: Database, clock: FakeClock) -> LocalIdentity:
    return LocalIdentity(db, SimpleNamespace(local=SimpleNamespace(token_cache_seconds=5)), clock)


def count_queries(db: Database) -> list[str]:
    seen: list[str] = []

    def on_execute(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        seen.append(statement)

    sa.event.listen(db._reader.sync_engine, "before_cursor_execute", on_execute)
    return seen


@pytest.mark.parametrize(
    ("role", "roles"),
    [("admin", {"admin", "member", "reader"}), ("member", {"member", "reader"}), ("reader", {"reader"})],
)
async def test_roles(db: Database, clock: FakeClock, identity: LocalIdentity, role: str, roles: set[str]) -> None:
    _, token = await create_token(db, clock, project_name="blue", role=role, user_name="ada")
    caller = await identity.authenticate(token)
    assert caller is not None
    assert caller.roles == roles
    assert (caller.user_name, caller.project_name, caller.token) == ("ada", "blue", token)
    assert [caller.project_id] == [project.id for project in await list_projects(db)]


async def test_unknown_tokens(identity: LocalIdentity) -> None:
    for token in ("", "nonsense", "ä" * 50, "x" * 10_000, "\ud800"):
        assert await identity.authenticate(token) is None


async def test_only_hashes_are_stored(db: Database, clock: FakeClock, tmp_path: Path) -> None:
    uuid, token = await create_token(db, clock, project_name="blue", role="member")
    async with db.read() as connection:
        stored = (await connection.execute(sa.text("SELECT * FROM local_tokens"))).one()
    assert token not in map(str, stored)
    assert local.hash_of(token) in stored
    (listed,) = await list_tokens(db)
    assert (listed.uuid, listed.token_hash) == (uuid, "")
    assert local.hash_of(token) not in repr(await list_tokens(db))


async def test_one_user_keeps_one_id(db: Database, clock: FakeClock, identity: LocalIdentity) -> None:
    ids = set()
    for _ in range(2):
        _, token = await create_token(db, clock, project_name="blue", role="member", user_name="ada")
        caller = await identity.authenticate(token)
        assert caller is not None
        ids.add(caller.user_id)
    assert len(ids) == 1


async def test_cache_and_revocation(db: Database, clock: FakeClock, identity: LocalIdentity) -> None:
    uuid, token = await create_token(db, clock, project_name="blue", role="member")
    seen = count_queries(db)
    assert await identity.authenticate(token)
    assert await identity.authenticate(token)
    assert len(seen) == 1
    assert await revoke_token(db, clock, uuid) is True
    assert await revoke_token(db, clock, uuid) is False
    assert await revoke_token(db, clock, "nonsense") is False
    assert await identity.authenticate(token)  # believed for some seconds
    clock.seconds = 5
    assert await identity.authenticate(token) is None


async def test_expiry_is_honoured_at_once(db: Database, clock: FakeClock, identity: LocalIdentity) -> None:
    when = clock.now() + timedelta(seconds=3)
    _, one = await create_token(db, clock, project_name="blue", role="member", expires=when)
    _, two = await create_token(db, clock, project_name="blue", role="member", expires=timedelta(seconds=3))
    for token in (one, two):
        assert await identity.authenticate(token)
    clock.seconds = 3
    for token in (one, two):
        assert await identity.authenticate(token) is None


async def test_single_flight_survives_a_caller_who_leaves(
    db: Database, clock: FakeClock, identity: LocalIdentity
) -> None:
    _, token = await create_token(db, clock, project_name="blue", role="member")
    seen = count_queries(db)
    calls = [asyncio.create_task(identity.authenticate(token)) for _ in range(20)]
    await asyncio.sleep(0)
    calls[0].cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert all(answers[1:])
    assert len(seen) == 1
    assert identity._flights == {}


async def test_cache_is_bounded_and_guesses_push_nothing_out(
    db: Database, clock: FakeClock, identity: LocalIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_CACHE_SIZE", 3)
    tokens = [(await create_token(db, clock, project_name="blue", role="member"))[1] for _ in range(5)]
    for token in tokens:
        assert await identity.authenticate(token)
    for guess in range(10):
        assert await identity.authenticate(f"guess{guess}") is None
    assert set(identity._cache) == {local.hash_of(token) for token in tokens[-3:]}


async def test_first_project_is_made_once(db: Database, clock: FakeClock) -> None:
    made = (create_token(db, clock, project_name="blue", role="member") for _ in range(20))
    await asyncio.gather(*made)
    assert [project.name for project in await list_projects(db)] == ["blue"]
    assert len({token.project_id for token in await list_tokens(db)}) == 1


async def test_wrong_input(db: Database, clock: FakeClock) -> None:
    with pytest.raises(InvalidValue, match="owner"):
        await create_token(db, clock, project_name="blue", role="owner")
    with pytest.raises(InvalidValue, match="1 to 255"):
        await create_token(db, clock, project_name="", role="member")
    assert await list_projects(db) == []


async def test_no_database_is_unavailable_not_unauthorized(tmp_path: Path, clock: FakeClock) -> None:
    db = Database(f"sqlite:///{tmp_path}/empty.sqlite")
    identity = LocalIdentity(db, SimpleNamespace(local=SimpleNamespace(token_cache_seconds=5)), clock)
    with pytest.raises(Unavailable):
        await identity.authenticate("some-token")
    assert identity.www_authenticate == 'Zun realm="local"'
    await db.close()
