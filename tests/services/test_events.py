"""Status events on every database: none is lost whatever order transactions end in, none told twice."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

from tests.services.rows import MINUTE, NOW, PROJECT, container, put
from tests.support.wait import eventually
from zun.control import event_feed
from zun.control.event_feed import EventFeed, Listener
from zun.domain.status_event import StatusEvent
from zun.store import capsules, containers, status_events
from zun.store.database import Database


def feed(db: Database, most: int = 10) -> EventFeed:
    options = SimpleNamespace(event_listeners=most, event_poll_interval=0.01)
    return EventFeed(db, SimpleNamespace(api=options))


async def collect(listener: Listener, count: int) -> list[StatusEvent]:
    found: list[StatusEvent] = []

    async def enough() -> bool:
        found.extend(await listener.next(0.05))
        return len(found) >= count

    await eventually(enough, 60, f"{count} events")
    return found


async def set_status(db: Database, uuid: str, status: str) -> None:
    async with db.write() as connection:
        assert await containers.update(connection, uuid, {}, {"status": status}, NOW)


def of(events: Sequence[StatusEvent]) -> list[tuple[str, str | None, str | None]]:
    return [(one.kind, one.previous_status, one.status) for one in events]


async def test_the_life_of_a_row(db: Database) -> None:
    one = container(status="Creating")
    await put(db, one)
    await set_status(db, one.uuid, "Running")
    await set_status(db, one.uuid, "Running")
    async with db.write() as connection:
        assert not await containers.update(connection, one.uuid, {"status": "Stopped"}, {"status": "Error"}, NOW)
    async with db.write() as connection:
        assert await capsules.remove(connection, one.uuid, {})
    async with feed(db).listen({"project_id": PROJECT}, 0) as listener:
        assert of(await collect(listener, 3)) == [
            ("created", None, "Creating"),
            ("status", "Creating", "Running"),
            ("deleted", "Running", None),
        ]
        assert not await listener.next(0.05)


async def test_a_transaction_that_ends_late_is_not_passed_over(db: Database) -> None:
    if db.is_sqlite:  # has one writer: transactions end in the order in which they begin
        return
    early, late = container("early"), container("late")
    await put(db, early, late)
    async with feed(db).listen({}, None) as listener:
        async with db.write() as slow:
            assert await containers.update(slow, late.uuid, {}, {"status": "Stopped"}, NOW)  # has the lower row id
            await set_status(db, early.uuid, "Paused")
            first = await collect(listener, 1)
        second = await collect(listener, 1)
    assert [one.name for one in (*first, *second)] == ["early", "late"]
    assert second[0].number == first[0].number + 1


async def test_processes_that_write_and_processes_that_tell(db: Database) -> None:
    rows = [container(f"c{number}", status="s0") for number in range(4)]
    await put(db, *rows)
    others = [Database(db.url.render_as_string(hide_password=False)) for _ in range(2)]
    feeds = [feed(db), *(feed(one) for one in others)]
    rounds = 12

    async def work(row: Any, through: Database) -> None:
        for number in range(1, rounds + 1):
            await set_status(through, row.uuid, f"s{number}")

    try:
        async with AsyncExitStack() as stack:
            listeners = [await stack.enter_async_context(one.listen({}, None)) for one in feeds]
            writers = [
                asyncio.create_task(work(row, through))
                for row, through in zip(rows, itertools.cycle([db, *others]), strict=False)
            ]
            told = await asyncio.gather(*(collect(one, rounds * len(rows)) for one in listeners))
            await asyncio.gather(*writers)
        for found in told:
            assert found == told[0]
            numbers = [one.number for one in found]
            assert numbers == sorted(set(numbers))
            for row in rows:
                mine = [one.status for one in found if one.container_uuid == row.uuid]
                assert mine == [f"s{number}" for number in range(1, rounds + 1)]
        cut = told[0][17].number
        async with feeds[0].listen({"project_id": PROJECT}, cut) as listener:
            assert await collect(listener, len(told[0]) - 18) == told[0][18:]
    finally:
        for one in others:
            await one.close()


async def test_who_is_too_slow_catches_up(db: Database, monkeypatch: Any) -> None:
    monkeypatch.setattr(event_feed, "_QUEUE", 3)
    monkeypatch.setattr(event_feed, "_BATCH", 4)
    one = container(status="s0")
    await put(db, one)
    own = feed(db)
    async with own.listen({}, None) as slow, own.listen({}, None) as quick:
        assert not await slow.next(0.05)
        reading = asyncio.create_task(collect(quick, 20))
        for number in range(1, 21):
            await set_status(db, one.uuid, f"s{number}")
        expected = [f"s{number}" for number in range(1, 21)]
        assert [event.status for event in await reading] == expected
        assert [event.status for event in await collect(slow, 20)] == expected
        await set_status(db, one.uuid, "more")
        assert [event.status for event in await collect(slow, 1)] == ["more"]


async def test_cleaning_numbers_first(db: Database) -> None:
    await put(db, container("old"), container("new", created_at=NOW + MINUTE))
    while await db.run(lambda connection: status_events.prune(connection, NOW + MINUTE)):
        pass
    async with db.read() as connection:
        assert await status_events.bounds(connection) == (1, 2)
        (left,) = await status_events.after(connection, 0, 10)
    assert (left.name, left.number) == ("new", 2)


async def test_numbers_are_given_in_few_statements(db: Database, monkeypatch: Any) -> None:
    monkeypatch.setattr(status_events, "_BATCH", 7)
    rows = [container(f"c{number}") for number in range(20)]
    await put(db, *rows)
    batches = 0
    while await db.run(status_events.number):
        batches += 1
    assert batches == 3
    async with db.read() as connection:
        found = await status_events.after(connection, 0, 100)
    assert [(one.name, one.number) for one in found] == [(row.name, place) for place, row in enumerate(rows, 1)]
