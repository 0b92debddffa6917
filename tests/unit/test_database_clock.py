"""The clock of a deployment: the database server's, carried on by a clock that nobody moves."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.database import make_database
from zun.store.clock import DatabaseClock
from zun.store.database import Database

START = 1_800_000_000.0


def near(seconds: float) -> Any:
    return pytest.approx(seconds, rel=0, abs=0.01)


class Clocks:
    """Of this machine, and of a server; seconds."""

    def __init__(self) -> None:
        self.steady = 5000.0
        self.ahead = 0.0
        self.server = START
        self.on_the_way = 0.0

    def wall(self) -> float:
        return START + self.steady - 5000.0 + self.ahead

    async def ask(self) -> float:
        self.steady += self.on_the_way
        return self.server + self.steady - 5000.0


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database = await make_database(tmp_path)
    yield database
    await database.close()


def clock_of(clocks: Clocks, db: Database, *, server: bool) -> DatabaseClock:
    return DatabaseClock(db, steady=lambda: clocks.steady, wall=clocks.wall, server=clocks.ask if server else None)


async def test_a_machine_whose_clock_is_wrong_has_the_servers(
    clocks: Clocks, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    clocks.ahead = -7200
    clock = clock_of(clocks, db, server=True)
    with caplog.at_level(logging.WARNING):
        await clock.look()
        await clock.look()
    assert clock.timestamp() == near(START)
    assert [record.getMessage() for record in caplog.records] == [
        "action=clock result=this machine's clock and the database's differ by=-7200 s"
    ]
    clocks.ahead = 3600
    clocks.steady += 10
    assert clock.timestamp() == near(START + 10)


async def test_a_slow_answer_moves_nothing_that_it_does_not_contradict(clocks: Clocks, db: Database) -> None:
    clock = clock_of(clocks, db, server=True)
    await clock.look()
    clocks.on_the_way = 4.0
    await clock.look()
    assert clock.timestamp() == near(START + 4)
    clocks.server += 60  # set right by its administrator
    await clock.look()
    assert START + 64 <= clock.timestamp() <= START + 68 + 1e-3


@pytest.mark.parametrize("moved", [3600, -3600])
async def test_the_machines_own_clock_is_followed_slowly(
    clocks: Clocks, db: Database, moved: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock = clock_of(clocks, db, server=False)
    await clock.look()
    clocks.ahead = moved
    with caplog.at_level(logging.WARNING):
        await clock.look()
        assert clock.timestamp() == near(START)
        minutes = 0
        while clock.timestamp() != near(clocks.wall()):
            minutes += 1
            clocks.steady += 60
            before = clock.timestamp()
            await clock.look()
            assert abs(clock.timestamp() - before) <= 6.01
    assert 590 <= minutes <= 610
    assert len(caplog.records) == 1


async def test_small_corrections_are_taken_at_once_and_so_is_a_clock_that_was_never_right(
    clocks: Clocks, db: Database
) -> None:
    clock = clock_of(clocks, db, server=False)
    await clock.look()
    for ahead in (0.5, -0.3, 40 * 365 * 86400.0):
        clocks.ahead = ahead
        await clock.look()
        assert clock.timestamp() == near(clocks.wall())


@pytest.mark.parametrize("days", [1, 40])
async def test_a_machine_that_slept_is_right_when_it_wakes(clocks: Clocks, db: Database, days: int) -> None:
    clock = clock_of(clocks, db, server=False)
    await clock.look()
    clocks.steady += days * 86400
    assert clock.timestamp() == near(clocks.wall())


@pytest.mark.parametrize("moved", [3600, -3600])
async def test_a_process_that_is_started_later_has_the_clock_of_the_others(
    clocks: Clocks, db: Database, moved: int
) -> None:
    first = clock_of(clocks, db, server=False)
    await first.look()
    clocks.steady += 100
    clocks.ahead = moved
    later = clock_of(clocks, db, server=False)
    await later.look()
    assert later.timestamp() == near(first.timestamp())
    await first.look()
    await later.look()
    assert first.timestamp() == near(START + 100 + (10 if moved > 0 else -10))
    assert first.timestamp() == near(later.timestamp())
    for clock in (first, later) * 5:
        clocks.steady += 15
        await clock.look()
    await first.look()
    assert abs(first.timestamp() - later.timestamp()) <= 1.51
    assert abs(first.timestamp() - (START + 250)) == near(25)


async def test_without_tables_the_machines_clock_is_taken(clocks: Clocks, tmp_path: Path) -> None:
    empty = Database(f"sqlite:///{tmp_path}/new.sqlite")
    try:
        clock = clock_of(clocks, empty, server=False)
        await clock.look()
        assert clock.timestamp() == near(clocks.wall())
    finally:
        await empty.close()
