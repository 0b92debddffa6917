"""The runtime port's contract, on every runtime: networks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest

from tests.support.runtimes import Bench
from zun.domain.errors import (
    EngineConflict,
    EngineNotFound,
)


async def test_networks_are_made_once_and_removed_when_empty(bench: Bench) -> None:
    network = bench.network()
    await asyncio.gather(*(bench.runtime.ensure_network(network) for _ in range(5)))
    assert await bench.runtime.list_networks(bench.prefix) == [network.name]
    uuid = await bench.created(attachments=[bench.attachment(network)])
    with pytest.raises(EngineConflict):
        await bench.runtime.remove_network(network.name)
    await bench.runtime.remove(uuid, force=True)
    await bench.runtime.remove_network(network.name)
    await bench.runtime.remove_network(network.name)
    assert await bench.runtime.list_networks(bench.prefix) == []


async def test_network_of_the_name_with_another_subnet_is_a_conflict(bench: Bench) -> None:
    network = bench.network()
    await bench.runtime.ensure_network(network)
    with pytest.raises(EngineConflict, match=network.name):
        await bench.runtime.ensure_network(replace(bench.network(), name=network.name))


async def test_create_makes_its_networks(bench: Bench) -> None:
    network, other = bench.network(), bench.network()
    await bench.running(attachments=[bench.attachment(network), bench.attachment(other)])
    assert set(await bench.runtime.list_networks(bench.prefix)) == {network.name, other.name}


@pytest.mark.parametrize("first", [True, False], ids=["beside its network", "without a network before"])
async def test_connect_and_disconnect_are_idempotent(bench: Bench, first: bool) -> None:
    own = [bench.attachment(bench.network())] if first else []
    added = bench.attachment(bench.network())
    name = added.engine_network.name
    uuid = await bench.running(attachments=own)
    for _ in range(2):
        await bench.runtime.connect_network(uuid, [added])
    with pytest.raises(EngineConflict):
        await bench.runtime.remove_network(name)
    for _ in range(2):
        await bench.runtime.disconnect_network(uuid, name)
    await bench.runtime.disconnect_network(uuid, f"{bench.prefix}-never")
    await bench.runtime.remove_network(name)


async def test_connect_and_disconnect_without_the_container(bench: Bench) -> None:
    uuid = str(uuid4())
    with pytest.raises(EngineNotFound):
        await bench.runtime.connect_network(uuid, [bench.attachment(bench.network())])
    with pytest.raises(EngineNotFound):
        await bench.runtime.disconnect_network(uuid, bench.network().name)
