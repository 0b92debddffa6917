"""The embedded Placement, network and identity side by side with themselves, on every kind of database."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from zun.domain.clock import SystemClock
from zun.domain.container import Container, RequestedNetwork
from zun.identity.local import LocalIdentity, create_token, revoke_token
from zun.network.local import LocalNetwork
from zun.placement.base import Inventory, Provider
from zun.placement.local import LocalPlacement
from zun.runtime.simulated import SimulatedRuntime
from zun.store.database import Database
from zun.store.tables import local_inventories, local_networks, local_ports

OWNER = {"project_id": "p", "user_id": "u"}
NODE = str(uuid4())


async def _used(db: Database) -> dict[str, int]:
    async with db.read() as connection:
        rows = await connection.execute(sa.select(local_inventories.c.resource_class, local_inventories.c.used))
        return {row.resource_class: row.used for row in rows}


async def test_claims_side_by_side_never_pass_the_inventory(db: Database) -> None:
    placement = LocalPlacement(db)
    inventories = {"VCPU": Inventory(4, allocation_ratio=2.0), "MEMORY_MB": Inventory(1000, reserved=100)}
    assert await placement.set_provider(Provider(NODE, "node", inventories, frozenset({"CUSTOM_A"})))
    assert not await placement.set_provider(Provider(NODE, "node", inventories, frozenset({"CUSTOM_A"})))
    consumers = [str(uuid4()) for _ in range(24)]

    async def claim(consumer: str) -> bool:
        return await placement.claim(consumer, NODE, {"VCPU": 1, "MEMORY_MB": 60}, **OWNER)

    won = await asyncio.gather(*map(claim, consumers))
    assert sum(won) == 8
    assert await _used(db) == {"VCPU": 8, "MEMORY_MB": 480}
    assert not await placement.candidates({"VCPU": 1}, forbidden_traits=frozenset(), limit=5)
    holders = [consumer for consumer, got in zip(consumers, won, strict=True) if got]
    assert set(await placement.consumers(NODE)) == set(holders)
    # The same again, a replacement, and two releases of one consumer at once: each counts once.
    await asyncio.gather(*(claim(holder) for holder in holders))
    assert await placement.claim(holders[0], NODE, {"MEMORY_MB": 10}, **OWNER)
    assert await placement.allocation(holders[0]) == {"MEMORY_MB": 10}
    await asyncio.gather(*(placement.release(holder) for holder in holders * 2))
    assert await _used(db) == {"VCPU": 0, "MEMORY_MB": 0}
    (found,) = await placement.candidates({"VCPU": 4}, forbidden_traits=frozenset({"CUSTOM"}), limit=5)
    assert (found.provider_uuid, found.capacity) == (NODE, {"VCPU": 8, "MEMORY_MB": 900})
    assert not await placement.candidates({}, forbidden_traits=frozenset({"CUSTOM_A"}), limit=5)


async def test_providers_made_and_claimed_from_at_once(db: Database) -> None:
    placement = LocalPlacement(db)

    async def grow(total: int) -> None:
        await placement.set_provider(Provider(NODE, "node", {"VCPU": Inventory(total)}))

    await grow(50)
    await asyncio.gather(
        *(grow(50 + number) for number in range(5)),
        *(placement.claim(str(uuid4()), NODE, {"VCPU": 1}, **OWNER) for _ in range(20)),
    )
    assert await _used(db) == {"VCPU": 20}


def _network(db: Database) -> LocalNetwork:
    values = {"subnet_pool": "10.208.0.0/12", "subnet_prefix": 20, "network_idle_seconds": 0, "mtu": 0}
    conf: Any = SimpleNamespace(local=SimpleNamespace(**values))
    return LocalNetwork(db, SimulatedRuntime(), conf, SystemClock())


def _container() -> Container:
    return Container(str(uuid4()), "c", "blue", "ada", "busybox", "docker", "Creating")


async def test_each_container_has_an_address_of_its_own(db: Database) -> None:
    network = _network(db)
    rows = await asyncio.gather(*(network.default_network("blue") for _ in range(8)))
    assert len({row["uuid"] for row in rows}) == 1
    red = await network.default_network("red")
    wanted = [RequestedNetwork(rows[0]["uuid"]), RequestedNetwork(red["uuid"])]
    made = [_container() for _ in range(16)]
    given = await asyncio.gather(*(network.ensure_ports(one, wanted) for one in made * 2))
    addresses = {one.address for attachments in given for one in attachments}
    assert len(addresses) == 32
    assert all([one.network_id for one in attachments] == [n.network_id for n in wanted] for attachments in given)
    # Some go while others come: nobody waits for ever, nobody shares.
    later = [_container() for _ in range(8)]
    await asyncio.gather(
        *(network.release_ports(one.uuid) for one in made), *(network.ensure_ports(one, wanted) for one in later)
    )
    async with db.read() as connection:
        held = list(await connection.execute(sa.select(local_ports.c.device_id, local_ports.c.address)))
    assert {row.device_id for row in held} == {one.uuid for one in later}
    assert len({row.address for row in held}) == 16
    await asyncio.gather(*(network.release_ports(one.uuid) for one in later))


async def test_projects_that_come_at_once_get_different_subnets(db: Database) -> None:
    network = _network(db)
    rows = await asyncio.gather(*(network.default_network(f"p{number}") for number in range(8)))
    assert len({row["cidr"] for row in rows}) == 8
    async with db.read() as connection:
        count = sa.select(sa.func.count()).select_from(local_networks)
        assert (await connection.execute(count)).scalar_one() == 8


async def test_tokens_are_believed_until_they_are_revoked(db: Database) -> None:
    conf: Any = SimpleNamespace(local=SimpleNamespace(token_cache_seconds=0))
    clock = SystemClock()
    identity = LocalIdentity(db, conf, clock)
    made = await asyncio.gather(*(create_token(db, clock, project_name="blue", role="member") for _ in range(6)))
    callers = [await identity.authenticate(token) for _, token in made]
    assert len({caller.project_id for caller in callers if caller is not None}) == 1
    assert await identity.authenticate(made[0][1].swapcase()) is None
    assert await revoke_token(db, clock, made[0][0])
    assert not await revoke_token(db, clock, made[0][0])
    assert await identity.authenticate(made[0][1]) is None
    assert await identity.authenticate(made[1][1]) is not None
