"""The embedded Placement; the real service is in tests/cloud."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from tests.contract import placement_model
from tests.contract.placement_suite import *  # noqa: F403 - the tests of every Placement
from tests.contract.placement_suite import OWNER, provider
from tests.support.database import make_database
from zun.domain.errors import PlacementUnavailable
from zun.placement.base import Placement
from zun.placement.local import LocalPlacement
from zun.store.database import Database
from zun.store.tables import local_inventories, local_providers


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database = await make_database(tmp_path)
    yield database
    await database.close()


@pytest.fixture
def placement(db: Database) -> Placement:
    return LocalPlacement(db)


async def test_a_change_is_one_new_generation(placement: Placement, db: Database) -> None:
    one = provider()
    await placement.set_provider(one)
    await placement.set_provider(one)
    await placement.set_provider(provider())
    async with db.read() as connection:
        generations = (await connection.execute(sa.select(local_providers.c.generation))).scalars().all()
        classes = (await connection.execute(sa.select(local_inventories.c.resource_class))).scalars().all()
    assert generations == [0, 0]
    assert sorted(classes) == ["MEMORY_MB", "MEMORY_MB", "VCPU", "VCPU"]


async def test_candidates_are_one_query(placement: Placement, db: Database) -> None:
    for number in range(20):
        await placement.set_provider(provider(f"host{number}"))
    seen: list[str] = []

    def on_execute(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        seen.append(statement)

    sa.event.listen(db._reader.sync_engine, "before_cursor_execute", on_execute)
    assert len(await placement.candidates({"VCPU": 1}, forbidden_traits=frozenset({"X"}), limit=50)) == 20
    assert len(seen) == 1


async def test_no_answer_is_unavailable_never_no_candidates(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/empty.sqlite")
    broken = LocalPlacement(db)
    with pytest.raises(PlacementUnavailable):
        await broken.candidates({"VCPU": 1}, forbidden_traits=frozenset(), limit=1)
    with pytest.raises(PlacementUnavailable):
        await broken.claim("c", "p", {"VCPU": 1}, **OWNER)
    await db.close()


def test_state_machine(tmp_path: Path) -> None:
    async def opened() -> tuple[Placement, placement_model.Close]:
        db = await make_database(tmp_path / str(uuid4()))
        return LocalPlacement(db), db.close

    placement_model.check(opened, examples=20, steps=25)
