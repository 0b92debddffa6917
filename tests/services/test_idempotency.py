"""Keys of requests on each kind of database: claimed once, answered once, taken over, swept; and steps' codes."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from tests.services.rows import MINUTE, NOW, container, put
from zun.domain.awaited import Seen
from zun.domain.fault import Step
from zun.store import container_faults, containers, idempotency, operations
from zun.store.database import Database
from zun.store.idempotency import Kept

LEASE = timedelta(seconds=15)
HASH, PRINT, OTHER = "a" * 64, "b" * 64, "c" * 64


async def claim(db: Database, owner: str, now: datetime = NOW, fingerprint: str = PRINT) -> Kept | None:
    return await db.run(
        lambda connection: idempotency.claim(connection, HASH, fingerprint, owner, now=now, lease=LEASE)
    )


async def answer(db: Database, owner: str, text: str = "done") -> bool:
    async with db.write() as connection:
        return await idempotency.answer(connection, HASH, owner, str(uuid4()), text, NOW + timedelta(days=1))


async def test_of_many_at_once_one_has_it(db: Database) -> None:
    found = await asyncio.gather(*(claim(db, f"owner-{number}") for number in range(8)))
    assert found.count(None) == 1
    assert {one for one in found if one is not None} == {Kept(PRINT, None)}


async def test_answered_once(db: Database) -> None:
    assert await claim(db, "one") is None
    assert await claim(db, "one") is None  # a transaction that was carried out though its answer was lost
    assert not await answer(db, "two")
    assert await answer(db, "one", "é" * 40000)
    assert not await answer(db, "one", "again")
    assert await claim(db, "two") == Kept(PRINT, "é" * 40000)
    assert await claim(db, "two", fingerprint=OTHER) == Kept(PRINT, "é" * 40000)


async def test_a_dead_claim_is_taken_over_by_the_same_request_only(db: Database) -> None:
    assert await claim(db, "one") is None
    assert await claim(db, "two", NOW + LEASE) == Kept(PRINT, None)
    async with db.write() as connection:
        await idempotency.renew(connection, HASH, "one", NOW + 2 * LEASE)
    assert await claim(db, "two", NOW + 1.5 * LEASE) == Kept(PRINT, None)
    later = NOW + 3 * LEASE
    assert await claim(db, "three", later, OTHER) == Kept(PRINT, None)
    assert await claim(db, "two", later) is None
    assert not await answer(db, "one")
    assert await answer(db, "two")


async def test_a_claim_from_before_the_clock_was_set_back(db: Database) -> None:
    assert await claim(db, "one", NOW + timedelta(hours=3)) is None
    assert await claim(db, "two", NOW) is None


async def test_given_up_and_expired(db: Database) -> None:
    assert await claim(db, "one") is None
    async with db.write() as connection:
        await idempotency.release(connection, HASH, "two")
        assert await idempotency.sweep(connection, NOW + MINUTE) == 0
        await idempotency.release(connection, HASH, "one")
    assert await claim(db, "two", fingerprint=OTHER) is None
    assert await answer(db, "two")
    async with db.write() as connection:
        await idempotency.release(connection, HASH, "two")  # answered: it stays
        assert await idempotency.sweep(connection, NOW + MINUTE) == 0
    late = NOW + timedelta(days=1, seconds=1)
    assert await claim(db, "three", late) is None  # expired, whatever came with it
    async with db.write() as connection:
        assert await idempotency.sweep(connection, late + 2 * idempotency.UNANSWERED) == 1


async def test_faults_and_what_is_unfinished(db: Database) -> None:
    one, two, three = (container(name) for name in ("one", "two", "three"))
    await put(db, one, two, three)
    common: dict[str, Any] = {"host": "h", "request_id": "r", "user_id": "u", "project_id": "p", "params": {}}
    async with db.write() as connection:
        ids = [
            await operations.insert(
                connection, container_uuid=row.uuid, kind=kind, now=NOW, deadline=NOW + MINUTE, **common
            )
            for row, kind in ((one, "create"), (two, "start"), (two, "stop"), (three, "start"), (three, "release"))
        ]
        ended = [
            operations.ended_event("ports", NOW, NOW, "cancelled", None, "cancelled"),
            operations.ended_event("image", NOW, NOW, "No image.", None, "image-failed"),
            operations.ended_event("release", NOW, NOW + MINUTE, "later", None, "node-error"),
        ]
        await operations.add_events(connection, ids[0], ended)
        for number, error in ((0, True), (1, True), (2, False), (3, True)):
            await operations.finish(connection, ids[number], worker=None, now=NOW, error=error)
    uuids = [one.uuid, two.uuid, three.uuid]
    async with db.read() as connection:
        failed = await container_faults.failures(connection, uuids)
        unfinished = await container_faults.unfinished(connection, uuids)
        seen = await containers.seen(connection, [*uuids, str(uuid4())])
    assert {uuid: list(found.steps) for uuid, found in failed.items()} == {
        one.uuid: [
            Step("ports", "cancelled", "cancelled"),
            Step("image", "image-failed", "No image."),
            Step("release", "node-error", "later"),
        ],
        three.uuid: [],
    }
    assert failed[one.uuid].finished == NOW
    assert unfinished == {three.uuid: ["release"]}
    assert seen == {uuid: Seen("Running") for uuid in uuids}
