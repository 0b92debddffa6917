"""Addresses, interfaces and networks as Docker made them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from ipaddress import IPv6Network
from typing import Any
from uuid import uuid4

import pytest

from tests.support.runtimes import DockerBench, conf_with
from zun.domain.errors import EngineError
from zun.domain.observed import Attachment, EngineNetwork
from zun.runtime.docker import DockerRuntime


def joined(docker: DockerBench, uuid: str) -> dict[str, Any]:
    found: dict[str, Any] = docker.inspected(uuid)["NetworkSettings"]["Networks"]
    return found


async def test_fixed_address_and_mac_inside_the_container(docker: DockerBench) -> None:
    attachment = docker.attachment(docker.network(), index=23, mac="02:11:22:33:44:55")
    uuid = await docker.running(attachments=[attachment])
    seen = await docker.runtime.execute(uuid, ["ip", "addr", "show", "dev", "eth0"], 60)
    assert f"inet {attachment.address}/24" in seen.output
    assert "02:11:22:33:44:55" in seen.output


async def test_further_networks_are_joined_with_their_addresses(docker: DockerBench) -> None:
    attachments = [docker.attachment(docker.network(), index=index) for index in (11, 12, 13)]
    uuid = await docker.running(attachments=attachments)
    found = {name: facts["IPAddress"] for name, facts in joined(docker, uuid).items()}
    assert found == {attachment.network_id: attachment.address for attachment in attachments}


async def test_both_versions_of_one_network_are_one_interface(docker: DockerBench) -> None:
    network = docker.network()
    prefix = IPv6Network((0xFD << 120 | uuid4().int >> 72 << 64, 64))
    six = EngineNetwork(network.name, str(prefix), str(prefix[1]))
    first = docker.attachment(network, index=9)
    second = Attachment(network.name, "p6", "s6", str(prefix[9]), first.mac, 6, False, six)
    uuid = await docker.running(attachments=[first, second])
    (facts,) = joined(docker, uuid).values()
    assert (facts["IPAddress"], facts["GlobalIPv6Address"]) == (first.address, second.address)


async def test_no_attachment_is_no_network(docker: DockerBench) -> None:
    uuid = await docker.running()
    seen = await docker.runtime.execute(uuid, ["ip", "link"], 60)
    assert "eth0" not in seen.output


async def test_create_again_joins_what_is_missing(docker: DockerBench) -> None:
    first, second = docker.attachment(docker.network()), docker.attachment(docker.network())
    spec = docker.spec(attachments=[first, second])
    engine_id = await docker.runtime.create(spec)
    docker.engine.post(f"/networks/{second.network_id}/disconnect", {"Container": engine_id, "Force": True})
    assert set(joined(docker, spec.uuid)) == {first.network_id}
    assert await docker.runtime.create(spec) == engine_id
    assert set(joined(docker, spec.uuid)) == {first.network_id, second.network_id}


async def test_two_processes_make_one_network(docker: DockerBench) -> None:
    network = docker.network()
    others = [DockerRuntime(conf_with(api_url=docker.engine.url)) for _ in range(4)]
    try:
        for _ in range(3):
            await asyncio.gather(*(other.ensure_network(network) for other in others))
            rows = [row for row in docker.engine.get("/networks") if row["Name"] == network.name]
            assert len(rows) == 1
            assert rows[0]["Labels"] == {"org.openstack.zun.network": network.name}
            assert rows[0]["IPAM"]["Config"] == [{"Subnet": network.subnet, "Gateway": network.gateway}]
            await docker.runtime.remove_network(network.name)
    finally:
        for other in others:
            await other.close()


async def test_network_without_a_subnet_is_made_once_by_two_processes(docker: DockerBench) -> None:
    network = EngineNetwork(f"{docker.prefix}-plain")
    others = [DockerRuntime(conf_with(api_url=docker.engine.url)) for _ in range(4)]
    try:
        await asyncio.gather(*(other.ensure_network(network) for other in others))
        assert [row["Name"] for row in docker.engine.get("/networks")].count(network.name) == 1
    finally:
        for other in others:
            await other.close()


async def test_options_reach_the_bridge(docker: DockerBench) -> None:
    network = replace(docker.network(), options={"com.docker.network.driver.mtu": "1400"})
    uuid = await docker.running(attachments=[docker.attachment(network)])
    seen = await docker.runtime.execute(uuid, ["ip", "link", "show", "dev", "eth0"], 60)
    assert "mtu 1400" in seen.output


async def test_network_that_went_before_the_start_is_made_again(docker: DockerBench) -> None:
    first, second = docker.attachment(docker.network()), docker.attachment(docker.network())
    networks = docker.runtime._networks
    ensure, done = networks.ensure, list[str]()

    async def ensure_and_lose(network: Any) -> None:
        await ensure(network)
        if network.name == second.network_id and not done:
            done.append(network.name)
            docker.engine.remove_network(network.name)

    networks.ensure = ensure_and_lose  # type: ignore[method-assign]
    uuid = await docker.running(attachments=[first, second])
    assert done == [second.network_id]
    assert set(joined(docker, uuid)) == {first.network_id, second.network_id}


async def addresses(docker: DockerBench, uuid: str) -> str:
    return (await docker.runtime.execute(uuid, ["ip", "-4", "addr"], 60)).output


async def test_a_network_joined_later_has_its_address_and_stays_over_a_restart(docker: DockerBench) -> None:
    first, second = docker.attachment(docker.network()), docker.attachment(docker.network(), index=33)
    uuid = await docker.running(attachments=[first])
    await docker.runtime.connect_network(uuid, [second])
    assert f"inet {second.address}/24" in await addresses(docker, uuid)
    await docker.runtime.reboot(uuid, 0)
    shown = await addresses(docker, uuid)
    assert f"inet {first.address}/24" in shown
    assert f"inet {second.address}/24" in shown


async def test_a_network_left_is_not_joined_again_by_a_restart(docker: DockerBench) -> None:
    """Also the last one, to which Docker itself returns: its address may be another's by then."""
    first, second = docker.attachment(docker.network()), docker.attachment(docker.network())
    uuid = await docker.running(attachments=[first, second])
    await docker.runtime.disconnect_network(uuid, first.engine_network.name)
    await docker.runtime.reboot(uuid, 0)
    assert set(joined(docker, uuid)) == {second.network_id}
    await docker.runtime.disconnect_network(uuid, second.engine_network.name)
    await docker.runtime.reboot(uuid, 0)
    assert "eth" not in await addresses(docker, uuid)
    for network in (first.network_id, second.network_id):
        docker.engine.remove_network(network)


async def test_networks_change_while_stopped_and_paused(docker: DockerBench) -> None:
    first, second = docker.attachment(docker.network()), docker.attachment(docker.network(), index=44)
    uuid = await docker.created(attachments=[first])
    await docker.runtime.disconnect_network(uuid, first.engine_network.name)
    await docker.runtime.start(uuid)
    await docker.runtime.pause(uuid)
    await docker.runtime.connect_network(uuid, [second])
    await docker.runtime.unpause(uuid)
    assert set(joined(docker, uuid)) == {second.network_id}
    assert f"inet {second.address}/24" in await addresses(docker, uuid)


async def test_a_refused_network_is_not_taken_for_joined(docker: DockerBench) -> None:
    network = docker.network()
    taken = await docker.running(attachments=[docker.attachment(network, index=9)])
    uuid = await docker.running()
    wanted = docker.attachment(network, index=9)
    for _ in range(2):
        with pytest.raises(EngineError):
            await docker.runtime.connect_network(uuid, [wanted])
    assert "eth" not in await addresses(docker, uuid)
    await docker.runtime.remove(taken, force=True)
    await docker.runtime.connect_network(uuid, [wanted])
    assert f"inet {wanted.address}/24" in await addresses(docker, uuid)


async def test_leaving_a_network_that_was_removed_behind_our_back(docker: DockerBench) -> None:
    attachment = docker.attachment(docker.network())
    uuid = await docker.created(attachments=[attachment])
    docker.engine.remove_network(attachment.network_id)
    await docker.runtime.disconnect_network(uuid, attachment.engine_network.name)
    assert set(joined(docker, uuid)) == {"none"}
    await docker.runtime.start(uuid)
