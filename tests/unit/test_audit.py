"""The audit's own course: ages, grace time, looks before and after a removal, kinds that fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.support.virtual_clock import StandingClock
from zun.cli.audit import duration, text
from zun.compute.audit.audit import Audit
from zun.compute.audit.base import Kind, Leftover, NotHere, Report, Scope
from zun.compute.audit.ledger import Ledger
from zun.conf import ConfigError
from zun.domain.errors import EngineUnreachable
from zun.domain.held import moment


class World:
    """What is left, by name with its age, and what becomes of those that are removed."""

    def __init__(self, clock: StandingClock, **left: datetime | None) -> None:
        self.clock, self.left = clock, dict(left)
        self.removed: list[str] = []
        self.stubborn: set[str] = set()

    async def look(self) -> Sequence[Leftover]:
        return [Leftover(name, "why", partial(self.remove, name), since=since) for name, since in self.left.items()]

    async def remove(self, name: str) -> str:
        self.removed.append(name)
        if name in self.stubborn:
            return "it resists"
        del self.left[name]
        return ""

    def kind(self, name: str = "thing", look: Callable[[], Awaitable[Sequence[Leftover]]] | None = None) -> Kind:
        return Kind(name, Scope.NODE, look or self.look)


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


async def run(folder: Path, clock: StandingClock, *kinds: Kind, heal: bool = True, grace: float = 60) -> Report:
    audit = Audit("node1", clock, Ledger(str(folder)), heal=heal, grace=timedelta(seconds=grace))
    return await audit.run(kinds)


def states(report: Report) -> dict[str, str]:
    return {finding.name: str(finding.state) for finding in report.findings}


async def test_only_what_is_older_than_the_grace_time_is_removed(tmp_path: Path, clock: StandingClock) -> None:
    world = World(clock, old=clock.now() - timedelta(hours=1), young=clock.now() - timedelta(seconds=5))
    told = await run(tmp_path, clock, world.kind(), heal=False)
    assert (states(told), world.removed, told.exit_code) == ({"old": "found", "young": "found"}, [], 1)
    report = await run(tmp_path, clock, world.kind())
    assert (states(report), world.removed, report.exit_code) == ({"old": "removed", "young": "young"}, ["old"], 1)
    clock.moment += timedelta(minutes=2)
    assert (await run(tmp_path, clock, world.kind())).exit_code == 0
    assert world.removed == ["old", "young"]


async def test_what_tells_no_age_is_as_old_as_the_first_look_at_it(tmp_path: Path, clock: StandingClock) -> None:
    world = World(clock, pair=None)
    assert states(await run(tmp_path, clock, world.kind())) == {"pair": "young"}
    clock.moment += timedelta(seconds=61)
    report = await run(tmp_path, clock, world.kind())
    assert (states(report), report.findings[0].age) == ({"pair": "removed"}, 61)
    world.left["pair"] = None
    assert states(await run(tmp_path, clock, world.kind())) == {"pair": "young"}, "it is another one"


async def test_what_went_before_it_was_removed_is_not_touched(tmp_path: Path, clock: StandingClock) -> None:
    world = World(clock, brief=clock.now() - timedelta(hours=1))
    looks = 0

    async def once() -> Sequence[Leftover]:
        nonlocal looks
        looks += 1
        return await world.look() if looks == 1 else []

    report = await run(tmp_path, clock, world.kind(look=once))
    assert (states(report), world.removed, report.exit_code) == ({"brief": "removed"}, [], 0)
    assert report.findings[0].note == "it went by itself"


async def test_what_cannot_be_removed_is_told_with_the_reason(tmp_path: Path, clock: StandingClock) -> None:
    world = World(clock, hard=clock.now() - timedelta(hours=1), soft=clock.now() - timedelta(hours=1))
    world.stubborn = {"hard"}
    report = await run(tmp_path, clock, world.kind())
    assert states(report) == {"hard": "kept", "soft": "removed"}
    assert report.exit_code == 1
    assert "it resists" in text(report, heal=True)


async def test_a_kind_that_cannot_be_told_stops_no_other(tmp_path: Path, clock: StandingClock) -> None:
    world = World(clock, old=clock.now() - timedelta(hours=1))

    async def away() -> Sequence[Leftover]:
        raise EngineUnreachable("no answer")

    async def none() -> Sequence[Leftover]:
        raise NotHere("no engine here")

    kinds = [world.kind("engine", away), world.kind("sandbox", none), world.kind()]
    report = await run(tmp_path, clock, *kinds)
    assert (world.removed, report.exit_code, report.looked_at) == (["old"], 2, ["thing"])
    assert "no answer" in report.failed["engine"]
    assert report.skipped == {"sandbox": "no engine here"}


@pytest.mark.parametrize("content", ["", "[]", '{"thing": {"pair": "yesterday"}}', '{"thing": 3}'])
async def test_a_ledger_that_cannot_be_read_is_begun_anew(tmp_path: Path, clock: StandingClock, content: str) -> None:
    (tmp_path / "audit.json").write_text(content)
    assert states(await run(tmp_path, clock, World(clock, pair=None).kind())) == {"pair": "young"}
    assert clock.now().isoformat() in (tmp_path / "audit.json").read_text()


@pytest.mark.parametrize(
    ("given", "seconds"), [("0", 0), ("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86400)]
)
def test_lengths_of_time(given: str, seconds: int) -> None:
    assert duration(given) == timedelta(seconds=seconds)


@pytest.mark.parametrize("given", ["", "ten", "-1", "1.5h", "10 m", "10w", "9999999999d", "999999999d"])
def test_lengths_of_time_that_are_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="--grace"):
        duration(given)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5)),
        ("2026-01-02T03:04:05.5+01:00", datetime(2026, 1, 2, 2, 4, 5, 500000)),
        ("2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5)),
        ("soon", None),
        (None, None),
    ],
)
def test_times_of_services(given: str | None, meant: datetime | None) -> None:
    assert moment(given) == meant
