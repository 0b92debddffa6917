"""Deadlocks, lost connections, servers that stop or say nothing: told as what they are, tried again where that is
sound, and nothing is locked out or left behind."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.support.db_servers import Server
from tests.support.wait import eventually
from zun.store import faults, steady
from zun.store.database import Database, DatabaseUnavailable, TransactionLost
from zun.store.tables import settings


@pytest.fixture
async def db(server_url: str) -> AsyncIterator[Database]:
    database = Database(server_url, pool_size=2, max_overflow=20)
    async with database.write() as connection:
        await connection.execute(settings.insert(), [{"name": name, "value": "0"} for name in ("a", "b")])
    yield database
    await database.close()


async def _add(connection: AsyncConnection, name: str) -> None:
    value = sa.cast(sa.cast(settings.c.value, sa.Integer) + 1, sa.String(9))
    await connection.execute(settings.update().where(settings.c.name == name).values(value=value))


async def _values(db: Database) -> dict[str, str]:
    async with db.read() as connection:
        return dict((await connection.execute(sa.select(settings.c.name, settings.c.value))).all())


async def _crossing(db: Database, names: tuple[str, str], met: asyncio.Barrier, calls: list[str]) -> None:
    """Two of these with names the other way round wait for each other."""

    async def work(connection: AsyncConnection) -> None:
        calls.append(names[0])
        await _add(connection, names[0])
        if len(calls) <= 2:
            await met.wait()
        await _add(connection, names[1])

    await db.run(work)


async def test_a_deadlock_victim_is_tried_again(db: Database) -> None:
    met, calls = asyncio.Barrier(2), list[str]()
    async with asyncio.timeout(60):
        await asyncio.gather(_crossing(db, ("a", "b"), met, calls), _crossing(db, ("b", "a"), met, calls))
    assert len(calls) == 3, "one of the two was given up, once"
    assert await _values(db) == {"a": "2", "b": "2"}


async def test_a_deadlock_in_write_is_told_as_such(db: Database) -> None:
    met = asyncio.Barrier(2)

    async def work(first: str, second: str) -> None:
        async with db.write() as connection:
            await _add(connection, first)
            await met.wait()
            async with connection.begin_nested():
                await _add(connection, second)

    async with asyncio.timeout(60):
        outcomes = await asyncio.gather(work("a", "b"), work("b", "a"), return_exceptions=True)
    (lost,) = [one for one in outcomes if one is not None]
    assert isinstance(lost, TransactionLost)
    assert lost.message.startswith("The database gave the transaction up: ")
    assert await _values(db) == {"a": "1", "b": "1"}


async def test_many_crossing_transactions_all_succeed(db: Database) -> None:
    async def work(number: int) -> None:
        names = ("a", "b") if number % 2 else ("b", "a")

        async def both(connection: AsyncConnection) -> None:
            for name in names:
                await _add(connection, name)

        await db.run(both)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(number) for number in range(6)))
    assert await _values(db) == {"a": "6", "b": "6"}


async def test_a_connection_that_is_cut_in_a_transaction_is_tried_again(db: Database, server: Server) -> None:
    calls = 0

    async def work(connection: AsyncConnection) -> None:
        nonlocal calls
        calls += 1
        await _add(connection, "a")
        if calls == 1:
            own = "connection_id()" if server.name == "mariadb" else "pg_backend_pid()"
            number = (await connection.execute(sa.text(f"SELECT {own}"))).scalar_one()
            end = f"KILL {number}" if server.name == "mariadb" else f"SELECT pg_terminate_backend({number})"
            await asyncio.to_thread(server.sql, end)
        await _add(connection, "b")

    await db.run(work)
    assert calls == 2
    assert await _values(db) == {"a": "1", "b": "1"}


async def test_connections_of_a_server_that_was_restarted_are_replaced(db: Database, server: Server) -> None:
    await asyncio.gather(*(_values(db) for _ in range(5)))
    await asyncio.to_thread(server.stop)
    try:
        with pytest.raises(DatabaseUnavailable, match=r"^The database does not answer: "):
            await _values(db)
        with pytest.raises(DatabaseUnavailable):
            async with db.write() as connection:
                await _add(connection, "a")
        waiting = asyncio.create_task(db.wait_until_up(-1, 0.1))
    finally:
        await asyncio.to_thread(server.start)
    await waiting
    await asyncio.gather(*(_values(db) for _ in range(5)))
    await db.run(lambda connection: _add(connection, "a"))
    assert await _values(db) == {"a": "1", "b": "0"}


async def test_waiting_for_the_server_ends(db: Database, server: Server) -> None:
    await asyncio.to_thread(server.stop)
    try:
        with pytest.raises(DatabaseUnavailable):
            await db.wait_until_up(2, 0.01)
    finally:
        await asyncio.to_thread(server.start)


async def test_a_server_that_says_nothing_is_given_up(
    db: Database, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _values(db)
    server.freeze()
    try:
        start = time.monotonic()
        with monkeypatch.context() as impatient:
            impatient.setattr(steady, "ANSWER_WITHIN", 0.5)
            with pytest.raises(DatabaseUnavailable, match=r"no answer within 0\.5 seconds"):
                await _values(db)
        assert time.monotonic() - start < 15
    finally:
        server.thaw()

    async def answers() -> bool:
        try:
            return await _values(db) != {}
        except DatabaseUnavailable:
            return False

    await eventually(answers, 60, "the database answers again")


async def test_cancelled_transactions_leave_the_database_usable(db: Database) -> None:
    chance = random.Random(7)
    for _ in range(60):
        tasks = [asyncio.create_task(db.run(lambda connection: _add(connection, "a"))) for _ in range(4)]
        await asyncio.sleep(chance.random() * 0.01)
        for task in tasks:
            if chance.random() < 0.6:
                task.cancel()
        async with asyncio.timeout(60):
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                assert result is None or isinstance(result, asyncio.CancelledError)
    async with asyncio.timeout(60):
        await db.run(lambda connection: _add(connection, "b"))
    assert (await _values(db))["b"] == "1"


async def test_a_mistake_of_ours_is_no_outage(db: Database) -> None:
    with pytest.raises(sa.exc.IntegrityError):
        await db.run(lambda connection: connection.execute(settings.insert().values(name="a", value="x")))
    with pytest.raises(sa.exc.ProgrammingError) as caught:
        async with db.read() as connection:
            await connection.exec_driver_sql("SELECT * FROM no_such_table")
    assert not faults.unavailable(caught.value)


async def test_what_does_not_fit_is_refused_never_cut(db: Database) -> None:
    with pytest.raises(sa.exc.DataError):
        await db.run(lambda connection: connection.execute(settings.insert().values(name="n" * 65, value="x")))


async def test_each_statement_sees_what_was_committed(db: Database) -> None:
    async with db.write() as connection:
        query = sa.select(settings.c.value).where(settings.c.name == "a")
        assert (await connection.execute(query)).scalar_one() == "0"
        await db.run(lambda other: _add(other, "a"))
        assert (await connection.execute(query)).scalar_one() == "1"
