"""The queries on operations and their events, on every database."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from tests.services.rows import MINUTE, NOW, PROJECT, container, put
from zun.domain.operation import Operation, State
from zun.store import (
    operations,
)
from zun.store.database import Database


async def queued(db: Database, uuid: str = "c1", host: str = "h", **fields: Any) -> int:
    values = {"kind": "start", "request_id": "r", "user_id": "u", "project_id": PROJECT, "params": {"a": [1]}}
    async with db.write() as connection:
        return await operations.insert(
            connection,
            **{"container_uuid": uuid, "host": host, "now": NOW, "deadline": NOW + MINUTE, **values, **fields},
        )


async def claimed(db: Database, number: int, worker: str, now: datetime = NOW, host: str = "h") -> Operation | None:
    async with db.write() as connection:
        return await operations.claim(connection, number, worker=worker, host=host, now=now, lease=MINUTE)


async def test_an_operation_is_leased_to_one_worker(db: Database) -> None:
    number = await queued(db)
    assert number > 0
    won = [one for one in await asyncio.gather(*(claimed(db, number, f"w{n}") for n in range(12))) if one]
    assert len(won) == 1
    assert (won[0].id, won[0].attempt, won[0].params, won[0].lease_until) == (number, 1, {"a": [1]}, NOW + MINUTE)
    worker = str(won[0].worker)
    again = await claimed(db, number, worker)
    assert again is not None
    assert again.attempt == 2
    assert await claimed(db, number, "other") is None
    assert await claimed(db, number, "other", NOW + MINUTE) is None, "until the lease's end, to the microsecond"
    taken = await claimed(db, number, "other", NOW + MINUTE + timedelta(microseconds=1))
    assert taken is not None
    async with db.write() as connection:
        await operations.renew(connection, worker, [number], NOW + 9 * MINUTE)  # it is another's by now
        assert not await operations.finish(connection, number, worker=worker, now=NOW, error=False)
        assert await operations.finish(connection, number, worker="other", now=NOW, error=False)
        assert not await operations.finish(connection, number, worker=None, now=NOW, error=True)
        ended = await operations.get(connection, number)
    assert ended is not None
    assert (ended.state, ended.worker, ended.lease_until, ended.finish_time) == (State.SUCCEEDED, None, None, NOW)


async def test_a_renewed_lease_holds_and_a_postponed_one_waits(db: Database) -> None:
    first, second = await queued(db), await queued(db, "c2")
    assert await claimed(db, first, "w")
    assert await claimed(db, second, "w")
    async with db.write() as connection:
        await operations.renew(connection, "w", [first], NOW + 5 * MINUTE)
        assert await operations.postpone(connection, second, worker="w", until=NOW + MINUTE)
        assert not await operations.postpone(connection, second, worker="w", until=NOW)
    assert await claimed(db, first, "x", NOW + 2 * MINUTE) is None
    assert await claimed(db, second, "x") is None
    assert await claimed(db, second, "x", NOW + MINUTE) is not None


async def test_a_new_agent_disowns_the_former(db: Database) -> None:
    mine, other = await queued(db), await queued(db, host="i")
    assert await claimed(db, mine, "old")
    assert await claimed(db, other, "old") is None
    assert await claimed(db, other, "old", host="i")
    async with db.write() as connection:
        await operations.disown(connection, "h", "new")
        assert [one.id for one in await operations.next_of_host(connection, "h")] == [mine]
    assert await claimed(db, mine, "new") is not None
    assert await claimed(db, other, "new") is None


async def test_overdue_and_cancelled_operations(db: Database) -> None:
    late = await queued(db, deadline=NOW - 2 * MINUTE)
    later = await queued(db, deadline=NOW - MINUTE)
    good = await queued(db)
    async with db.write() as connection:
        assert [one.id for one in await operations.overdue(connection, NOW)] == [late, later]
        assert await operations.extend(connection, late, NOW + MINUTE)
        assert [one.id for one in await operations.overdue(connection, NOW)] == [later]
        await operations.cancel_unfinished(connection, "c1", NOW, before=good)
        assert [one.id for one in await operations.unfinished_of_container(connection, "c1")] == [good]
        assert not await operations.extend(connection, late, NOW)


async def test_events_and_pruning(db: Database) -> None:
    number = await queued(db)
    alive = container()
    await put(db, alive)
    kept = await queued(db, alive.uuid)
    async with db.write() as connection:
        event = await operations.start_event(connection, number, "pull", NOW)
        await operations.set_progress(connection, event, {"done": 1})
        await operations.finish_event(connection, event, NOW, "t" * 70_000, {"done": 2})
        await operations.add_event(connection, number, "start", started=NOW, finished=NOW, error=None)
        steps = await operations.events(connection, number)
        assert [(s["event"], s["result"], s["progress"]) for s in steps] == [
            ("start", "Success", None),
            ("pull", "Error", {"done": 2}),
        ]
        for one in (number, kept):
            assert await operations.finish(connection, one, worker=None, now=NOW, error=False)
        assert [a["id"] for a in await operations.actions(connection, "c1")] == [number]
        assert await operations.prune(connection, NOW) == 0
        assert await operations.prune(connection, NOW + MINUTE) == 1
        assert await operations.get(connection, number) is None
        assert await operations.events(connection, number) == []
        assert await operations.get(connection, kept) is not None


async def test_steps_are_shown_in_the_order_in_which_they_began(db: Database) -> None:
    """One that takes long is on record before the shorter ones that went before it."""
    number = await queued(db)
    async with db.write() as connection:
        await operations.start_event(connection, number, "slow", NOW + MINUTE)
        short = [
            operations.ended_event(name, NOW + timedelta(seconds=second), NOW + MINUTE, None, None)
            for second, name in enumerate(("one", "two", "three"))
        ]
        await operations.add_events(connection, number, short)
        assert [row["event"] for row in await operations.events(connection, number)] == ["slow", "three", "two", "one"]
