"""What every Placement has to do: never hand out more than there is, and say exactly who holds what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.database import make_database
from zun.domain.errors import Conflict, PlacementUnavailable
from zun.placement.base import Inventory, Placement, Provider
from zun.placement.local import LocalPlacement
from zun.store.database import Database
from zun.store.tables import local_inventories, local_providers

OWNER = {"project_id": "p", "user_id": "u"}


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database = await make_database(tmp_path)
    yield database
    await database.close()


@pytest.fixture
def placement(db: Database) -> Placement:
    return LocalPlacement(db)


def provider(name: str = "one", *, traits: frozenset[str] = frozenset(), **totals: int) -> Provider:
    uuid = f"00000000-0000-0000-0000-{abs(hash(name)) % 10**12:012d}"
    totals = totals or {"VCPU": 4, "MEMORY_MB": 1000}
    return Provider(uuid, name, {key: Inventory(total) for key, total in totals.items()}, traits)


async def used(placement: Placement, name: str) -> dict[str, int]:
    found = await placement.candidates({}, forbidden_traits=frozenset(), limit=100)
    return next(dict(one.used) for one in found if one.name == name)


async def test_set_provider_writes_only_a_change_s6_4(placement: Placement, db: Database) -> None:
    one = provider(traits=frozenset({"CUSTOM_A"}))
    assert await placement.set_provider(one) is True
    assert await placement.set_provider(one) is False
    grown = Provider(one.uuid, one.name, {"VCPU": Inventory(8, reserved=1, allocation_ratio=16.0)}, one.traits)
    assert await placement.set_provider(grown) is True
    assert await placement.set_provider(grown) is False
    async with db.read() as connection:
        assert (await connection.execute(sa.select(local_providers.c.generation))).scalar_one() == 1
        classes = (await connection.execute(sa.select(local_inventories.c.resource_class))).scalars().all()
    assert classes == ["VCPU"]


async def test_inventory_below_what_is_allocated_is_accepted(placement: Placement) -> None:
    one = provider(VCPU=4)
    await placement.set_provider(one)
    assert await placement.claim("c", one.uuid, {"VCPU": 3}, **OWNER)
    smaller = Provider(one.uuid, one.name, {"VCPU": Inventory(1)})
    assert await placement.set_provider(smaller) is True
    assert await placement.claim("c", one.uuid, {"VCPU": 3}, **OWNER)  # the same again stays
    assert not await placement.claim("c", one.uuid, {"VCPU": 2}, **OWNER)
    assert await placement.allocation("c") == {"VCPU": 3}
    gone = Provider(one.uuid, one.name, {"MEMORY_MB": Inventory(5)})
    assert await placement.set_provider(gone) is True
    assert await placement.set_provider(gone) is False
    await placement.release("c")
    assert await used(placement, "one") == {"VCPU": 0, "MEMORY_MB": 0}


async def test_two_providers_of_one_name_conflict(placement: Placement) -> None:
    one = provider()
    await placement.set_provider(one)
    with pytest.raises(Conflict, match="one"):
        await placement.set_provider(Provider(str(uuid4()), "one", one.inventories))


async def test_candidates_have_room_and_no_forbidden_trait_s1_9(placement: Placement) -> None:
    for name, cpus in (("small", 1), ("middle", 2), ("big", 8)):
        await placement.set_provider(provider(name, VCPU=cpus, MEMORY_MB=100))
    await placement.set_provider(provider("off", VCPU=8, MEMORY_MB=100, traits=frozenset({"CUSTOM_OFF"})))
    await placement.set_provider(
        provider("like", VCPU=8, MEMORY_MB=100, traits=frozenset({"CUSTOM_OFFX", "CUSTOMAOFF"}))
    )
    forbidden = frozenset({"CUSTOM_OFF"})

    async def names(wanted: dict[str, int], limit: int = 10) -> set[str]:
        return {one.name for one in await placement.candidates(wanted, forbidden_traits=forbidden, limit=limit)}

    assert await names({"VCPU": 2, "MEMORY_MB": 100}) == {"middle", "big", "like"}
    assert await names({"VCPU": 2, "MEMORY_MB": 101}) == set()
    assert await names({"VCPU": 1, "DISK_GB": 1}) == set()
    assert len(await names({"VCPU": 1}, limit=2)) == 2


async def test_candidates_tell_use_and_capacity(placement: Placement) -> None:
    one = Provider(
        str(uuid4()), "one", {"VCPU": Inventory(4, reserved=1, allocation_ratio=1.5), "MEMORY_MB": Inventory(9)}
    )
    await placement.set_provider(one)
    await placement.claim("c", one.uuid, {"VCPU": 2}, **OWNER)
    (found,) = await placement.candidates({"VCPU": 1}, forbidden_traits=frozenset(), limit=5)
    assert (found.provider_uuid, dict(found.used), dict(found.capacity)) == (
        one.uuid,
        {"VCPU": 2, "MEMORY_MB": 0},
        {"VCPU": 4, "MEMORY_MB": 9},
    )


async def test_candidates_are_one_query(placement: Placement, db: Database) -> None:
    for number in range(20):
        await placement.set_provider(provider(f"host{number}"))
    seen: list[str] = []

    def on_execute(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        seen.append(statement)

    sa.event.listen(db._reader.sync_engine, "before_cursor_execute", on_execute)
    assert len(await placement.candidates({"VCPU": 1}, forbidden_traits=frozenset({"X"}), limit=50)) == 20
    assert len(seen) == 1


async def test_max_unit_bounds_one_claim(placement: Placement) -> None:
    one = Provider(str(uuid4()), "one", {"VCPU": Inventory(8, allocation_ratio=16.0, max_unit=4)})
    two = Provider(str(uuid4()), "two", {"VCPU": Inventory(8, allocation_ratio=16.0)})
    await placement.set_provider(one)
    await placement.set_provider(two)
    assert not await placement.claim("a", one.uuid, {"VCPU": 5}, **OWNER)
    assert await placement.claim("a", one.uuid, {"VCPU": 4}, **OWNER)
    assert not await placement.claim("b", two.uuid, {"VCPU": 9}, **OWNER)  # no more than the node has
    assert await placement.claim("b", two.uuid, {"VCPU": 8}, **OWNER)


async def test_claim_is_all_or_nothing_s1_12(placement: Placement) -> None:
    one = provider(VCPU=4, MEMORY_MB=100)
    await placement.set_provider(one)
    assert await placement.claim("c", one.uuid, {"VCPU": 1, "MEMORY_MB": 50}, **OWNER)
    assert not await placement.claim("d", one.uuid, {"VCPU": 1, "MEMORY_MB": 51}, **OWNER)
    assert not await placement.claim("c", one.uuid, {"VCPU": 1, "MEMORY_MB": 101}, **OWNER)
    assert not await placement.claim("e", one.uuid, {"VCPU": 1, "DISK_GB": 1}, **OWNER)
    assert not await placement.claim("e", str(uuid4()), {"VCPU": 1}, **OWNER)
    assert await used(placement, "one") == {"VCPU": 1, "MEMORY_MB": 50}
    assert await placement.consumers(one.uuid) == {"c": {"VCPU": 1, "MEMORY_MB": 50}}
    assert await placement.allocation("d") is None


async def test_claim_replaces_on_the_same_and_on_another_provider(placement: Placement) -> None:
    one, two = provider("one", VCPU=4), provider("two", VCPU=4)
    await placement.set_provider(one)
    await placement.set_provider(two)
    assert await placement.claim("c", one.uuid, {"VCPU": 3}, **OWNER)
    assert await placement.claim("c", one.uuid, {"VCPU": 4}, **OWNER)
    assert await placement.claim("c", two.uuid, {"VCPU": 2}, **OWNER)
    assert await used(placement, "one") == {"VCPU": 0}
    assert await placement.consumers(one.uuid) == {}
    assert await placement.consumers(two.uuid) == {"c": {"VCPU": 2}}


async def test_release_twice_gives_back_once_s3_11(placement: Placement) -> None:
    one = provider(VCPU=4)
    await placement.set_provider(one)
    await placement.claim("c", one.uuid, {"VCPU": 3}, **OWNER)
    await placement.claim("d", one.uuid, {"VCPU": 1}, **OWNER)
    await asyncio.gather(*(placement.release("c") for _ in range(5)))
    assert await used(placement, "one") == {"VCPU": 1}


async def test_remove_provider(placement: Placement) -> None:
    one = provider()
    await placement.set_provider(one)
    await placement.claim("c", one.uuid, {"VCPU": 1}, **OWNER)
    with pytest.raises(Conflict):
        await placement.remove_provider(one.uuid)
    await placement.release("c")
    await placement.remove_provider(one.uuid)
    await placement.remove_provider(one.uuid)
    assert await placement.candidates({}, forbidden_traits=frozenset(), limit=5) == []


async def test_fifty_claims_at_once_never_oversubscribe(placement: Placement) -> None:
    one = Provider(str(uuid4()), "one", {"VCPU": Inventory(10, allocation_ratio=2.0), "MEMORY_MB": Inventory(17)})
    await placement.set_provider(one)
    claims = (placement.claim(f"c{n}", one.uuid, {"VCPU": 1, "MEMORY_MB": 1}, **OWNER) for n in range(50))
    outcomes = await asyncio.gather(*claims)
    assert outcomes.count(True) == 17
    assert await used(placement, "one") == {"VCPU": 17, "MEMORY_MB": 17}
    assert len(await placement.consumers(one.uuid)) == 17


async def test_no_answer_is_unavailable_never_no_candidates(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/empty.sqlite")
    broken = LocalPlacement(db)
    with pytest.raises(PlacementUnavailable):
        await broken.candidates({"VCPU": 1}, forbidden_traits=frozenset(), limit=1)
    with pytest.raises(PlacementUnavailable):
        await broken.claim("c", "p", {"VCPU": 1}, **OWNER)
    await db.close()


HOSTS = ("h0", "h1")
CONSUMERS = ("a", "b", "c")
CLASSES = ("VCPU", "MEMORY_MB")
INVENTORIES = st.builds(
    Inventory, st.integers(1, 8), st.integers(0, 1), st.sampled_from([1.0, 1.5, 0.29]), st.integers(0, 4)
)
AMOUNTS = st.dictionaries(st.sampled_from(CLASSES), st.integers(1, 5), min_size=1)


class AgainstModel(RuleBasedStateMachine):
    """Random verbs on the real thing and on two dicts."""

    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.providers: dict[str, Provider] = {}
        self.held: dict[str, tuple[str, dict[str, int]]] = {}

    @initialize()
    def begin(self) -> None:
        self.db = self.runner.run(make_database(self.folder / str(uuid4())))
        self.placement = LocalPlacement(self.db)

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

    @rule(
        host=st.sampled_from(HOSTS),
        inventories=st.dictionaries(
            st.sampled_from(CLASSES),
            st.builds(
                Inventory, st.integers(1, 8), st.integers(0, 1), st.sampled_from([1.0, 1.5, 0.29]), st.integers(0, 4)
            ),
        ),
    )
    def set_provider(self, host: str, inventories: dict[str, Inventory]) -> None:
        wanted = Provider(host, host, inventories)
        assert self.runner.run(self.placement.set_provider(wanted)) == (self.providers.get(host) != wanted)
        self.providers[host] = wanted

    @rule(consumer=st.sampled_from(CONSUMERS), host=st.sampled_from(HOSTS), wanted=AMOUNTS)
    def claim(self, consumer: str, host: str, wanted: dict[str, int]) -> None:
        same = self.held.get(consumer) == (host, wanted)
        expected = same or self.room(host, wanted, without=consumer)
        assert self.runner.run(self.placement.claim(consumer, host, wanted, **OWNER)) == expected
        if expected:
            self.held[consumer] = (host, wanted)

    @rule(consumer=st.sampled_from(CONSUMERS))
    def release(self, consumer: str) -> None:
        self.runner.run(self.placement.release(consumer))
        self.held.pop(consumer, None)

    @rule(wanted=AMOUNTS)
    def candidates(self, wanted: dict[str, int]) -> None:
        found = self.runner.run(self.placement.candidates(wanted, forbidden_traits=frozenset(), limit=9))
        assert {one.name for one in found} == {host for host in HOSTS if self.room(host, wanted)}

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        for host in HOSTS:
            expected = {who: held for who, (at, held) in self.held.items() if at == host}
            assert self.runner.run(self.placement.consumers(host)) == expected
        for one in self.runner.run(self.placement.candidates({}, forbidden_traits=frozenset(), limit=9)):
            for name, amount in one.used.items():
                assert amount == sum(held.get(name, 0) for at, held in self.held.values() if at == one.name)

    def teardown(self) -> None:
        self.runner.run(self.db.close())
        self.runner.close()


def test_state_machine(tmp_path: Path) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    AgainstModel.folder = tmp_path
    run_state_machine_as_test(
        AgainstModel,
        settings=settings(
            max_examples=20,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
