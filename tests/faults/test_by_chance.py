"""Random verbs, faults, kills and restarts, on one product with real Docker, against a model (``chance``).

``make test`` runs the same 30 sequences each time; ``make nightly`` runs 500 others. A sequence that fails prints its
steps and its seed: ``ZUN_CHANCE_SEED=<seed> make test ARGS=tests/faults/test_by_chance.py``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.faults.chance import FAULTS, Driven
from tests.support.engine import Engine

SEQUENCES = int(os.environ.get("ZUN_CHANCE_SEQUENCES", "30"))
SEED = int(os.environ.get("ZUN_CHANCE_SEED", "7"))
STEPS = 7
MOST = 3
"""Containers at once."""
_waits = st.sampled_from([True, True, False])
_places = st.integers(0, MOST - 1)


def _some(machine: Chance) -> bool:
    """Is there a container?"""
    return bool(machine.driven.model)


def _verb(name: str) -> Callable[[Chance, int, bool], None]:
    """A rule of its own for each: chance leaves some rules out of a sequence, and takes others more often."""

    def act(self: Chance, place: int, wait: bool) -> None:
        self.driven.act(self.one(place), name, wait=wait)

    act.__name__ = name
    made: Callable[[Chance, int, bool], None] = precondition(_some)(rule(place=_places, wait=_waits)(act))
    return made


class Chance(RuleBasedStateMachine):
    """One sequence. ``driven`` is set by the test."""

    driven: Driven

    def one(self, place: int) -> str:
        uuids = list(self.driven.model)
        return uuids[place % len(uuids)]

    @initialize(run=st.booleans(), mount=st.booleans(), heal=st.booleans())
    def begin(self, run: bool, mount: bool, heal: bool) -> None:
        self.driven.create(run=run, mount=mount, heal=heal, wait=True)

    @precondition(lambda self: len(self.driven.model) < MOST)
    @rule(run=st.booleans(), mount=st.booleans(), heal=st.booleans(), wait=_waits)
    def create(self, run: bool, mount: bool, heal: bool, wait: bool) -> None:
        self.driven.create(run=run, mount=mount, heal=heal, wait=wait)

    start, stop, reboot, kill = _verb("start"), _verb("stop"), _verb("reboot"), _verb("kill")
    pause, unpause, rebuild = _verb("pause"), _verb("unpause"), _verb("rebuild")

    @precondition(_some)
    @rule(place=_places, how=st.sampled_from(["plain", "force", "stop"]), wait=_waits)
    def delete(self, place: int, how: str, wait: bool) -> None:
        self.driven.delete(self.one(place), how, wait=wait)

    @precondition(_some)
    @rule(place=_places)
    def execute(self, place: int) -> None:
        self.driven.execute(self.one(place))

    @precondition(_some)
    @rule(place=_places, memory=st.sampled_from([32, 48, 64]))
    def update(self, place: int, memory: int) -> None:
        self.driven.update(self.one(place), memory)

    @precondition(_some)
    @rule(place=_places, away=st.booleans())
    def network(self, place: int, away: bool) -> None:
        self.driven.network_attach(self.one(place), away=away)

    @precondition(_some)
    @rule(place=_places, what=st.sampled_from(["kill", "pause", "remove"]))
    def behind(self, place: int, what: str) -> None:
        self.driven.behind(self.one(place), what)

    @precondition(lambda self: not self.driven.failing)
    @rule(name=st.sampled_from(FAULTS))
    def fault(self, name: str) -> None:
        self.driven.fault(name)

    @precondition(lambda self: self.driven.failing)
    @rule()
    def end_faults(self) -> None:
        self.driven.end_faults()

    @precondition(_some)
    @rule(kill=st.booleans())
    def restart(self, kill: bool) -> None:
        self.driven.restart(kill=kill)

    def teardown(self) -> None:
        try:
            self.driven.settle()
        finally:
            self.driven.clear()


@pytest.fixture
def driven(tmp_path: Path, engine: Engine, busybox: str) -> Iterator[Driven]:
    made = Driven(tmp_path, engine, busybox)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.timeout(300 + 60 * SEQUENCES)
def test_nothing_is_left_doubled_or_lied_about_whatever_happens(driven: Driven) -> None:
    Chance.driven = driven
    settings = hypothesis.settings(
        max_examples=SEQUENCES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],  # shrinking would run what failed many times, and none is quite the same
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.debug if os.environ.get("ZUN_CHANCE_TELL") else hypothesis.Verbosity.normal,
    )
    began = time.monotonic()
    print(f"ZUN_CHANCE_SEED={SEED}")
    run_state_machine_as_test(hypothesis.seed(SEED)(Chance), settings=settings)
    print(f"{SEQUENCES} sequences in {time.monotonic() - began:.0f} s")
