"""Random verbs on a Placement and on two dicts, for each Placement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import uuid4

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from zun.placement.base import Inventory, Placement, Provider

OWNER = {"project_id": "p", "user_id": "u"}
HOSTS = ("h0", "h1")
CONSUMERS = ("a", "b", "c")
CLASSES = ("VCPU", "MEMORY_MB")
INVENTORIES = st.builds(
    Inventory, st.integers(1, 8), st.integers(0, 1), st.sampled_from([1.0, 1.5, 0.29]), st.integers(0, 4)
)
AMOUNTS = st.dictionaries(st.sampled_from(CLASSES), st.integers(1, 5), min_size=1)

Close = Callable[[], Awaitable[None]]


class AgainstModel(RuleBasedStateMachine):
    """``open`` gives an empty Placement and how it is closed."""

    open: Callable[[], Awaitable[tuple[Placement, Close]]]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.providers: dict[str, Provider] = {}
        self.held: dict[str, tuple[str, dict[str, int]]] = {}
        self.uuids = {name: str(uuid4()) for name in (*HOSTS, *CONSUMERS)}

    @initialize()
    def begin(self) -> None:
        self.placement, self.close = self.runner.run(type(self).open())

    def room(self, host: str, wanted: dict[str, int], without: str = "") -> bool:
        one = self.providers.get(host)
        if one is None:
            return False
        for name, amount in wanted.items():
            inventory = one.inventories.get(name)
            if inventory is None or amount > (inventory.max_unit or inventory.total):
                return False
            taken = sum(held.get(name, 0) for who, (at, held) in self.held.items() if at == host and who != without)
            if taken + amount > inventory.capacity:
                return False
        return True

    @rule(host=st.sampled_from(HOSTS), inventories=st.dictionaries(st.sampled_from(CLASSES), INVENTORIES))
    def set_provider(self, host: str, inventories: dict[str, Inventory]) -> None:
        wanted = Provider(self.uuids[host], f"{host}-{self.uuids[host]}", inventories)
        assert self.runner.run(self.placement.set_provider(wanted)) == (self.providers.get(host) != wanted)
        self.providers[host] = wanted

    @rule(consumer=st.sampled_from(CONSUMERS), host=st.sampled_from(HOSTS), wanted=AMOUNTS)
    def claim(self, consumer: str, host: str, wanted: dict[str, int]) -> None:
        same = self.held.get(consumer) == (host, wanted)
        expected = same or self.room(host, wanted, without=consumer)
        claim = self.placement.claim(self.uuids[consumer], self.uuids[host], wanted, **OWNER)
        assert self.runner.run(claim) == expected
        if expected:
            self.held[consumer] = (host, wanted)

    @rule(consumer=st.sampled_from(CONSUMERS))
    def release(self, consumer: str) -> None:
        self.runner.run(self.placement.release(self.uuids[consumer]))
        self.held.pop(consumer, None)

    @rule(wanted=AMOUNTS)
    def candidates(self, wanted: dict[str, int]) -> None:
        found = self.runner.run(self.placement.candidates(wanted, forbidden_traits=frozenset(), limit=9))
        assert {one.provider_uuid for one in found} == {self.uuids[host] for host in HOSTS if self.room(host, wanted)}
        few = self.runner.run(self.placement.sample(wanted, forbidden_traits=frozenset(), size=9, limit=9))
        assert {one.provider_uuid for one in few} == {one.provider_uuid for one in found}

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        for host in HOSTS:
            expected = {self.uuids[who]: held for who, (at, held) in self.held.items() if at == host}
            assert self.runner.run(self.placement.consumers(self.uuids[host])) == expected

    def teardown(self) -> None:
        if hasattr(self, "close"):
            self.runner.run(self.close())
        self.runner.close()


def check(make: Callable[[], Awaitable[tuple[Placement, Close]]], *, examples: int, steps: int) -> None:
    """Runs the machine on what ``make`` opens."""

    class Machine(AgainstModel):
        open = staticmethod(make)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
