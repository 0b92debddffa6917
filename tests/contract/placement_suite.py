"""What every Placement has to do: never hand out more than there is, and say exactly who holds what.

Imported whole by the test modules of each Placement, which define the fixture ``placement``: an empty deployment.
"""

from __future__ import annotations

import asyncio
import dataclasses
from uuid import uuid4

import pytest

from zun.domain.errors import Conflict
from zun.placement.base import Inventory, Placement, Provider

OWNER = {"project_id": "p", "user_id": "u"}
C, D, E = (str(uuid4()) for _ in range(3))
"""Consumers."""
OFF, LONGER_OFF = "CUSTOM_ZUN_TEST_OFF", "CUSTOM_ZUN_TEST_OFFX"


def provider(name: str = "one", *, traits: frozenset[str] = frozenset(), **totals: int) -> Provider:
    """A new one; no two tests, nor two runs, use the same name."""
    uuid = str(uuid4())
    totals = totals or {"VCPU": 4, "MEMORY_MB": 1000}
    return Provider(uuid, f"{name}-{uuid}", {key: Inventory(total) for key, total in totals.items()}, traits)


async def used(placement: Placement, uuid: str) -> dict[str, int]:
    total: dict[str, int] = {}
    for held in (await placement.consumers(uuid)).values():
        for name, amount in held.items():
            total[name] = total.get(name, 0) + amount
    return total


async def candidates(
    placement: Placement, wanted: dict[str, int], limit: int = 10, only: str | None = None
) -> set[str]:
    found = await placement.candidates(wanted, forbidden_traits=frozenset({OFF}), limit=limit, only=only)
    return {one.provider_uuid for one in found}


async def test_set_provider_writes_only_a_change_s6_4(placement: Placement) -> None:
    one = provider(traits=frozenset({LONGER_OFF}))
    assert await placement.set_provider(one) is True
    assert await placement.set_provider(one) is False
    grown = dataclasses.replace(one, inventories={"VCPU": Inventory(8, reserved=1, allocation_ratio=16.0)})
    assert await placement.set_provider(grown) is True
    assert await placement.set_provider(grown) is False
    (found,) = await placement.candidates({"VCPU": 1}, forbidden_traits=frozenset(), limit=5)
    assert dict(found.capacity) == {"VCPU": 112}


async def test_a_ratio_set_by_hand_is_kept_until_the_configuration_names_one_s6_9(placement: Placement) -> None:
    async def capacity() -> int:
        (found,) = await placement.candidates({"VCPU": 1}, forbidden_traits=frozenset(), limit=5)
        return found.capacity["VCPU"]

    one = provider(VCPU=4)
    first = dataclasses.replace(one, inventories={"VCPU": Inventory(4, allocation_ratio=16.0, keep_ratio=True)})
    by_hand = dataclasses.replace(one, inventories={"VCPU": Inventory(4, allocation_ratio=3.0)})
    again = dataclasses.replace(one, inventories={"VCPU": Inventory(5, allocation_ratio=16.0, keep_ratio=True)})
    await placement.set_provider(first)
    assert await capacity() == 64
    await placement.set_provider(by_hand)
    await placement.set_provider(again)
    assert await capacity() == 15


async def test_inventory_below_what_is_allocated_is_accepted(placement: Placement) -> None:
    one = provider(VCPU=4)
    await placement.set_provider(one)
    assert await placement.claim(C, one.uuid, {"VCPU": 3}, **OWNER)
    smaller = dataclasses.replace(one, inventories={"VCPU": Inventory(1)})
    assert await placement.set_provider(smaller) is True
    assert await placement.claim(C, one.uuid, {"VCPU": 3}, **OWNER)  # the same again stays
    assert not await placement.claim(C, one.uuid, {"VCPU": 2}, **OWNER)
    assert await placement.allocation(C) == {"VCPU": 3}


async def test_a_class_that_is_gone_gives_nothing_and_goes_with_its_last_holder(placement: Placement) -> None:
    one = provider(VCPU=4)
    await placement.set_provider(one)
    assert await placement.claim(C, one.uuid, {"VCPU": 3}, **OWNER)
    other = dataclasses.replace(one, inventories={"CUSTOM_ZUN_MILLICPU": Inventory(4000)})
    assert await placement.set_provider(other) is True
    assert await placement.set_provider(other) is False
    assert await placement.allocation(C) == {"VCPU": 3}
    assert await candidates(placement, {"VCPU": 1}) == set()
    assert not await placement.claim(D, one.uuid, {"VCPU": 1}, **OWNER)
    assert await placement.claim(C, one.uuid, {"CUSTOM_ZUN_MILLICPU": 3000}, **OWNER)
    assert await used(placement, one.uuid) == {"CUSTOM_ZUN_MILLICPU": 3000}
    assert await candidates(placement, {"CUSTOM_ZUN_MILLICPU": 1000}) == {one.uuid}
    back = dataclasses.replace(one, inventories={"VCPU": Inventory(4)})
    assert await placement.set_provider(back) is True
    assert await candidates(placement, {"VCPU": 4}) == {one.uuid}


async def test_two_providers_of_one_name_conflict(placement: Placement) -> None:
    one = provider()
    await placement.set_provider(one)
    with pytest.raises(Conflict, match=one.name):
        await placement.set_provider(dataclasses.replace(one, uuid=str(uuid4())))
    assert await placement.provider_named(one.name) == one.uuid
    assert await placement.provider_named("nobody") is None
    assert await placement.providers() == {one.uuid: one.name}


async def test_candidates_have_room_and_no_forbidden_trait_s1_9(placement: Placement) -> None:
    small, middle, big = (provider(str(cpus), VCPU=cpus, MEMORY_MB=100) for cpus in (1, 2, 8))
    off = provider("off", VCPU=8, MEMORY_MB=100, traits=frozenset({OFF}))
    like = provider("like", VCPU=8, MEMORY_MB=100, traits=frozenset({LONGER_OFF}))
    for one in (small, middle, big, off, like):
        await placement.set_provider(one)
    assert await candidates(placement, {"VCPU": 2, "MEMORY_MB": 100}) == {middle.uuid, big.uuid, like.uuid}
    assert await candidates(placement, {"VCPU": 2, "MEMORY_MB": 101}) == set()
    assert await candidates(placement, {"VCPU": 1, "DISK_GB": 1}) == set()
    assert await candidates(placement, {"CUSTOM_ZUN_MILLICPU": 1}) == set()
    assert len(await candidates(placement, {"VCPU": 1}, limit=2)) == 2
    assert await candidates(placement, {"VCPU": 2}, only=middle.uuid) == {middle.uuid}
    assert await candidates(placement, {"VCPU": 2}, only=small.uuid) == set()
    on_again = dataclasses.replace(off, traits=frozenset())
    assert await placement.set_provider(on_again) is True
    assert off.uuid in await candidates(placement, {"VCPU": 2})


async def test_a_sample_is_a_few_of_those_with_room_and_anyone_may_be_in_it(placement: Placement) -> None:
    roomy = [provider(str(number), VCPU=4, MEMORY_MB=100) for number in range(6)]
    full, off = provider("full", VCPU=1, MEMORY_MB=100), provider("off", VCPU=4, traits=frozenset({OFF}))
    for one in (*roomy, full, off):
        await placement.set_provider(one)
    seen: set[str] = set()
    for _ in range(200):
        found = await placement.sample({"VCPU": 2}, forbidden_traits=frozenset({OFF}), size=3, limit=10)
        assert 2 <= len({one.provider_uuid for one in found}) == len(found) <= 3  # the full one may take a place
        seen |= {one.provider_uuid for one in found}
        if len(seen) == len(roomy):
            break
    assert seen == {one.uuid for one in roomy}


async def test_a_sample_of_more_than_there_are_is_all_candidates(placement: Placement) -> None:
    for number in range(5):
        await placement.set_provider(provider(str(number), VCPU=number + 1, MEMORY_MB=100))
    found = await placement.sample({"VCPU": 2, "MEMORY_MB": 1}, forbidden_traits=frozenset({OFF}), size=5, limit=10)
    assert {one.provider_uuid for one in found} == await candidates(placement, {"VCPU": 2, "MEMORY_MB": 1})
    assert len(found) == 4
    assert await placement.sample({"DISK_GB": 1}, forbidden_traits=frozenset(), size=5, limit=10) == []


async def test_candidates_tell_use_and_capacity(placement: Placement) -> None:
    inventories = {"VCPU": Inventory(4, reserved=1, allocation_ratio=1.5), "MEMORY_MB": Inventory(9)}
    one = dataclasses.replace(provider(), inventories=inventories)
    await placement.set_provider(one)
    await placement.claim(C, one.uuid, {"VCPU": 2}, **OWNER)
    (found,) = await placement.candidates({"VCPU": 1}, forbidden_traits=frozenset(), limit=5)
    assert (found.provider_uuid, dict(found.used), dict(found.capacity)) == (
        one.uuid,
        {"VCPU": 2, "MEMORY_MB": 0},
        {"VCPU": 4, "MEMORY_MB": 9},
    )


async def test_max_unit_bounds_one_claim(placement: Placement) -> None:
    one = dataclasses.replace(provider(), inventories={"VCPU": Inventory(8, allocation_ratio=16.0, max_unit=4)})
    two = dataclasses.replace(provider(), inventories={"VCPU": Inventory(8, allocation_ratio=16.0)})
    await placement.set_provider(one)
    await placement.set_provider(two)
    assert not await placement.claim(C, one.uuid, {"VCPU": 5}, **OWNER)
    assert await placement.claim(C, one.uuid, {"VCPU": 4}, **OWNER)
    assert not await placement.claim(D, two.uuid, {"VCPU": 9}, **OWNER)  # no more than the node has
    assert await placement.claim(D, two.uuid, {"VCPU": 8}, **OWNER)


async def test_claim_is_all_or_nothing_s1_12(placement: Placement) -> None:
    one = provider(VCPU=4, MEMORY_MB=100)
    await placement.set_provider(one)
    assert await placement.claim(C, one.uuid, {"VCPU": 1, "MEMORY_MB": 50}, **OWNER)
    assert not await placement.claim(D, one.uuid, {"VCPU": 1, "MEMORY_MB": 51}, **OWNER)
    assert not await placement.claim(C, one.uuid, {"VCPU": 1, "MEMORY_MB": 101}, **OWNER)
    assert not await placement.claim(E, one.uuid, {"VCPU": 1, "DISK_GB": 1}, **OWNER)
    assert not await placement.claim(E, str(uuid4()), {"VCPU": 1}, **OWNER)
    assert await placement.consumers(one.uuid) == {C: {"VCPU": 1, "MEMORY_MB": 50}}
    assert await placement.consumers(str(uuid4())) == {}
    assert await placement.allocation(D) is None
    assert await placement.ours(C)
    assert not await placement.ours(D)


async def test_claim_replaces_on_the_same_and_on_another_provider(placement: Placement) -> None:
    one, two = provider("one", VCPU=4), provider("two", VCPU=4)
    await placement.set_provider(one)
    await placement.set_provider(two)
    assert await placement.claim(C, one.uuid, {"VCPU": 3}, **OWNER)
    assert await placement.claim(C, one.uuid, {"VCPU": 4}, **OWNER)
    assert await placement.claim(C, two.uuid, {"VCPU": 2}, **OWNER)
    assert await placement.consumers(one.uuid) == {}
    assert await placement.consumers(two.uuid) == {C: {"VCPU": 2}}


async def test_release_twice_gives_back_once_s3_11(placement: Placement) -> None:
    one = provider(VCPU=4)
    await placement.set_provider(one)
    await placement.claim(C, one.uuid, {"VCPU": 3}, **OWNER)
    await placement.claim(D, one.uuid, {"VCPU": 1}, **OWNER)
    await asyncio.gather(*(placement.release(C) for _ in range(5)))
    await placement.release(E)
    assert await used(placement, one.uuid) == {"VCPU": 1}


async def test_remove_provider(placement: Placement) -> None:
    one = provider()
    await placement.set_provider(one)
    await placement.claim(C, one.uuid, {"VCPU": 1}, **OWNER)
    with pytest.raises(Conflict):
        await placement.remove_provider(one.uuid)
    await placement.release(C)
    await placement.remove_provider(one.uuid)
    await placement.remove_provider(one.uuid)
    assert await candidates(placement, {"VCPU": 1}) == set()
    assert await placement.set_provider(one) is True


async def test_fifty_claims_at_once_never_oversubscribe(placement: Placement) -> None:
    inventories = {"VCPU": Inventory(10, allocation_ratio=2.0), "MEMORY_MB": Inventory(17)}
    one = dataclasses.replace(provider(), inventories=inventories)
    await placement.set_provider(one)
    claims = (placement.claim(str(uuid4()), one.uuid, {"VCPU": 1, "MEMORY_MB": 1}, **OWNER) for _ in range(50))
    outcomes = await asyncio.gather(*claims)
    assert outcomes.count(True) == 17
    assert await used(placement, one.uuid) == {"VCPU": 17, "MEMORY_MB": 17}
    assert len(await placement.consumers(one.uuid)) == 17


async def test_writers_of_one_provider_and_claims_at_once_all_end(placement: Placement) -> None:
    one = provider(VCPU=100)
    await placement.set_provider(one)
    writes = (
        placement.set_provider(dataclasses.replace(one, inventories={"VCPU": Inventory(total)}))
        for total in (101, 102, 103)
    )
    claims = (placement.claim(str(uuid4()), one.uuid, {"VCPU": 1}, **OWNER) for _ in range(10))
    outcomes = await asyncio.gather(*writes, *claims)
    assert all(outcomes)
    assert await used(placement, one.uuid) == {"VCPU": 10}


async def test_claims_of_one_consumer_at_once_leave_one_of_them(placement: Placement) -> None:
    one, two = provider("one", VCPU=4), provider("two", VCPU=4)
    await placement.set_provider(one)
    await placement.set_provider(two)
    claims = [(uuid, amount) for uuid in (one.uuid, two.uuid) for amount in (1, 2, 3)]
    outcomes = await asyncio.gather(*(placement.claim(C, uuid, {"VCPU": amount}, **OWNER) for uuid, amount in claims))
    assert all(outcomes)
    held = await placement.allocation(C)
    assert held in ({"VCPU": 1}, {"VCPU": 2}, {"VCPU": 3})
    assert [await used(placement, one.uuid), await used(placement, two.uuid)] in ([held, {}], [{}, held])
