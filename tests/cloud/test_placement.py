"""The Placement port on the real service: the contract, what others put there, and Placement at fault."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.contract import placement_model
from tests.contract.placement_suite import *  # noqa: F403 - the tests of every Placement
from tests.contract.placement_suite import OFF, OWNER, C, D, provider
from tests.support.placement import PORT, Deployment, deployment
from tests.support.tcp_proxy import TcpProxy, tcp_proxy
from zun.domain.errors import Conflict, PlacementUnavailable
from zun.placement.base import Inventory, Placement
from zun.placement.openstack import OpenStackPlacement


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    with tcp_proxy(PORT) as before_placement:
        yield before_placement


@pytest.fixture
async def deployed(tmp_path: Path, proxy: TcpProxy) -> AsyncIterator[Deployment]:
    options = {"placement_client.endpoint_override": proxy.url}
    async with deployment(tmp_path, options) as made:
        yield made


@pytest.fixture
def placement(deployed: Deployment) -> Placement:
    return deployed.placement


def test_state_machine(tmp_path: Path) -> None:
    async def opened() -> tuple[Placement, placement_model.Close]:
        held = deployment(tmp_path)
        made = await held.__aenter__()

        async def close() -> None:
            await held.__aexit__(None, None, None)

        return made.placement, close

    placement_model.check(opened, examples=3, steps=12)


# -- calls -----------------------------------------------------------------------------------------


async def test_scheduling_is_one_call_and_a_new_claim_another(deployed: Deployment, proxy: TcpProxy) -> None:
    one = provider()
    await deployed.placement.set_provider(one)
    await deployed.placement.candidates({"VCPU": 1}, forbidden_traits=frozenset({OFF}), limit=5)
    before = len(proxy.calls)
    await deployed.placement.candidates({"VCPU": 1}, forbidden_traits=frozenset({OFF}), limit=5)
    assert await deployed.placement.claim(C, one.uuid, {"VCPU": 1}, **OWNER)
    look, claim = proxy.calls[before:]
    assert look.startswith("GET /allocation_candidates?")
    assert claim == f"PUT /allocations/{C}"
    assert deployed.cloud.auth.logins == 1


async def test_an_unchanged_node_asks_nothing_until_the_refresh_is_due(deployed: Deployment, proxy: TcpProxy) -> None:
    now = 0.0
    placement = OpenStackPlacement(
        deployed.cloud.placement, deployment_id=deployed.id, refresh=300, monotonic=lambda: now
    )
    one = provider()
    await placement.set_provider(one)
    before = len(proxy.calls)
    assert await placement.set_provider(one) is False
    assert len(proxy.calls) == before
    await deployed.outside.ask("DELETE", f"/resource_providers/{one.uuid}")
    now = 301.0
    assert await placement.set_provider(one) is True
    assert set(await deployed.outside.inventories(one.uuid)) == {"VCPU", "MEMORY_MB"}


async def test_a_claim_names_project_user_and_kind(deployed: Deployment) -> None:
    one = provider()
    await deployed.placement.set_provider(one)
    await deployed.placement.claim(C, one.uuid, {"VCPU": 1}, project_id="project", user_id="user")
    seen = await deployed.outside.ask("GET", f"/allocations/{C}")
    assert (seen["project_id"], seen["user_id"], seen["consumer_type"]) == ("project", "user", "CONTAINER")


# -- what others put there -------------------------------------------------------------------------


async def test_what_an_administrator_put_on_a_provider_stays(deployed: Deployment) -> None:
    one, outside = provider(), deployed.outside
    await deployed.placement.set_provider(one)
    path, aggregate = f"/resource_providers/{one.uuid}", str(uuid4())
    await outside.ask("POST", f"{path}/inventories", json={"resource_class": "VGPU", "total": 7})
    generation = (await outside.ask("GET", path))["generation"]
    body = {"traits": ["HW_CPU_X86_AVX2"], "resource_provider_generation": generation}
    generation = (await outside.ask("PUT", f"{path}/traits", json=body))["resource_provider_generation"]
    body = {"aggregates": [aggregate, deployed.id], "resource_provider_generation": generation}
    await outside.ask("PUT", f"{path}/aggregates", json=body)
    changed = dataclasses.replace(one, inventories={"VCPU": Inventory(9)}, traits=frozenset({OFF}))
    await deployed.placement.set_provider(changed)
    seen = await outside.inventories(one.uuid)
    assert {name: row["total"] for name, row in seen.items()} == {"VCPU": 9, "VGPU": 7}
    assert await outside.traits(one.uuid) == {"HW_CPU_X86_AVX2", OFF}
    assert set((await outside.ask("GET", f"{path}/aggregates"))["aggregates"]) == {aggregate, deployed.id}


async def test_providers_of_others_are_no_candidates(deployed: Deployment) -> None:
    await deployed.outside.provider(f"nova-{uuid4()}", VCPU=64, MEMORY_MB=64000)
    assert await deployed.placement.candidates({"VCPU": 1}, forbidden_traits=frozenset(), limit=5) == []


async def test_a_provider_of_our_name_is_a_clear_conflict_unless_it_is_shared(deployed: Deployment) -> None:
    name = f"host-{uuid4()}"
    theirs = await deployed.outside.provider(name, VCPU=64, MEMORY_MB=64000)
    ours = dataclasses.replace(provider(), name=name)
    with pytest.raises(Conflict, match="host_shared_with_nova"):
        await deployed.placement.set_provider(ours)
    assert await deployed.placement.provider_named(name) == theirs
    shared = dataclasses.replace(ours, uuid=theirs, inventories={}, shared=True, traits=frozenset({OFF}))
    assert await deployed.placement.set_provider(shared) is True
    assert await deployed.placement.set_provider(shared) is False
    assert (await deployed.outside.inventories(theirs))["VCPU"]["total"] == 64
    assert await deployed.outside.traits(theirs) == {OFF}
    (found,) = await deployed.placement.candidates({"VCPU": 1}, forbidden_traits=frozenset(), limit=5)
    assert found.provider_uuid == theirs


async def test_a_novas_instance_is_not_ours(deployed: Deployment) -> None:
    one = provider()
    await deployed.placement.set_provider(one)
    await deployed.outside.allocate(D, one.uuid, "INSTANCE", VCPU=1)
    await deployed.placement.claim(C, one.uuid, {"VCPU": 1}, **OWNER)
    assert set(await deployed.placement.consumers(one.uuid)) == {C, D}
    assert await deployed.placement.ours(C)
    assert not await deployed.placement.ours(D)


async def test_two_processes_that_write_one_provider_both_end(deployed: Deployment, tmp_path: Path) -> None:
    one = provider()
    other = OpenStackPlacement(deployed.cloud.placement, deployment_id=deployed.id)
    for total in range(4, 10):
        changed = dataclasses.replace(one, inventories={"VCPU": Inventory(total)})
        traits = dataclasses.replace(changed, traits=frozenset({OFF}))
        await asyncio.gather(deployed.placement.set_provider(changed), other.set_provider(traits))
        assert (await deployed.outside.inventories(one.uuid))["VCPU"]["total"] == total


# -- faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["refuse", "hang", "500"])
async def test_a_fault_is_told_as_placements_and_never_as_no_room(
    deployed: Deployment, proxy: TcpProxy, fault: str
) -> None:
    placement, one = deployed.placement, provider()
    await placement.set_provider(one)
    await placement.claim(D, one.uuid, {"VCPU": 1}, **OWNER)
    if fault == "hang":
        deployed.conf.set_override("timeout", 2.0, group="placement_client")
    proxy.mode(fault)
    calls = [
        placement.candidates({"VCPU": 1}, forbidden_traits=frozenset({OFF}), limit=5),
        placement.claim(C, one.uuid, {"VCPU": 1}, **OWNER),
        placement.release(D),
        placement.allocation(D),
        placement.consumers(one.uuid),
        placement.ours(D),
        placement.providers(),
        placement.provider_named("x"),
        placement.remove_provider(one.uuid),
        placement.set_provider(dataclasses.replace(one, traits=frozenset({OFF}))),
    ]
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(outcome, PlacementUnavailable), outcome
        assert "Placement is not available" in outcome.message
    proxy.mode("pass")
    deployed.conf.clear_override("timeout", group="placement_client")
    assert await placement.allocation(D) == {"VCPU": 1}
    assert await placement.claim(C, one.uuid, {"VCPU": 1}, **OWNER)
    await placement.release(D)
    assert await placement.set_provider(dataclasses.replace(one, traits=frozenset({OFF}))) is True


async def test_a_short_fault_is_waited_out(deployed: Deployment, proxy: TcpProxy) -> None:
    one = provider()
    await deployed.placement.set_provider(one)
    proxy.mode("refuse")
    claim = asyncio.create_task(deployed.placement.claim(C, one.uuid, {"VCPU": 1}, **OWNER))
    await asyncio.sleep(0)
    proxy.mode("pass")
    assert await claim


async def test_a_claim_whose_answer_was_lost_is_found_to_be_taken(deployed: Deployment, proxy: TcpProxy) -> None:
    one = provider(VCPU=4)
    await deployed.placement.set_provider(one)
    await deployed.outside.allocate(C, one.uuid, "CONTAINER", VCPU=4)
    assert await deployed.placement.claim(C, one.uuid, {"VCPU": 4}, **OWNER)
    assert await deployed.placement.allocation(C) == {"VCPU": 4}


async def test_names_deleted_from_placement_are_made_again(deployed: Deployment) -> None:
    placement, outside, trait = deployed.placement, deployed.outside, f"CUSTOM_ZUN_T{uuid4().hex.upper()}"
    forbidden = frozenset({trait})
    await placement.set_provider(provider())
    assert len(await placement.candidates({"VCPU": 1}, forbidden_traits=forbidden, limit=5)) == 1
    await outside.ask("DELETE", f"/traits/{trait}")
    assert len(await placement.candidates({"VCPU": 1}, forbidden_traits=forbidden, limit=5)) == 1
    await outside.ask("DELETE", f"/traits/{trait}")


async def test_keystone_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with tcp_proxy(35357) as proxy:
        options = {"keystone_authtoken.auth_url": f"{proxy.url}/v3"}
        async with deployment(tmp_path, options) as made:
            proxy.mode("refuse")
            begun = time.monotonic()
            with pytest.raises(PlacementUnavailable, match="Keystone"):
                await made.placement.allocation(C)
            assert time.monotonic() - begun < 60
