"""Containers' interfaces on a Linux bridge, in real network namespaces."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import AsyncIterator

import pytest

from tests.support.namespaces import Namespace, devices, run
from zun.domain.errors import NetworkSetupFailed
from zun.plumbing import bridges
from zun.plumbing.plumber import Plumber
from zun.plumbing.vif import Route, Vif

OWNER = f"test-deployment/{uuid.uuid4().hex[:8]}"  # tests side by side leave each other alone


def vif(number: int, bridge: str, container: str = "", **more: object) -> Vif:
    values = {
        "port_id": str(uuid.uuid4()),
        "container": container or str(uuid.uuid4()),
        "owner": OWNER,
        "mac": f"fa:16:3e:00:00:{number:02x}",
        "mtu": 1400,
        "switch": "bridge",
        "bridge": bridge,
        "addresses": (f"10.93.0.{number}/24", f"fd93::{number:x}/64"),
    }
    return Vif(**values | more)  # type: ignore[arg-type]


@pytest.fixture
async def plumber(bridge: str) -> AsyncIterator[Plumber]:
    found = Plumber(OWNER)
    yield found
    for container in await found.containers():
        await found.remove(container)
    assert not await found.containers()
    await found.close()


async def test_two_containers_on_a_bridge_reach_each_other(
    plumber: Plumber, bridge: str, namespaces: list[Namespace]
) -> None:
    for number, namespace in enumerate(namespaces, 1):
        one = vif(number, bridge)
        await plumber.prepare(one)
        await plumber.connect([one], namespace.fd)
    first, second = namespaces
    assert first.pings("10.93.0.2")
    assert first.pings("fd93::2")
    shown = first.ip("addr", "show", "eth0")
    assert "fa:16:3e:00:00:01" in shown
    assert "mtu 1400" in shown
    assert "fd93::1/64 scope global nodad" in shown
    assert "tentative" not in next(line for line in shown.splitlines() if "fd93" in line)
    assert "UP" in first.ip("link", "show", "lo")
    assert second.pings("fd93::1")


async def test_interfaces_are_named_in_the_order_asked_with_their_routes(
    plumber: Plumber, bridge: str, namespaces: list[Namespace]
) -> None:
    container = str(uuid.uuid4())
    routes = (Route("0.0.0.0/0", "10.93.0.254"), Route("::/0", "fd93::fe"), Route("10.200.0.0/16", "10.93.0.253"))
    none = vif(3, bridge, container, addresses=("10.94.0.3/24",))
    one = vif(1, bridge, container, routes=routes)
    for item in (one, none):
        await plumber.prepare(item)
    await plumber.connect([none, one], namespaces[0].fd)
    assert "10.94.0.3/24" in namespaces[0].ip("addr", "show", "eth0")
    assert "10.93.0.1/24" in namespaces[0].ip("addr", "show", "eth1")
    shown = namespaces[0].ip("route")
    assert "default via 10.93.0.254 dev eth1" in shown
    assert "10.200.0.0/16 via 10.93.0.253 dev eth1" in shown
    assert "default via fd93::fe dev eth1" in namespaces[0].ip("-6", "route")
    assert shown.count("default") == 1


async def test_a_gateway_outside_the_subnet_is_on_the_link(
    plumber: Plumber, bridge: str, namespaces: list[Namespace]
) -> None:
    one = vif(1, bridge, routes=(Route("0.0.0.0/0", "10.99.0.1"),))
    await plumber.prepare(one)
    await plumber.connect([one], namespaces[0].fd)
    assert "default via 10.99.0.1 dev eth0 proto static onlink" in namespaces[0].ip("route")


async def test_repeating_any_step_changes_nothing(plumber: Plumber, bridge: str, namespaces: list[Namespace]) -> None:
    one = vif(1, bridge, routes=(Route("0.0.0.0/0", "10.93.0.254"),))
    await plumber.prepare(one)
    await plumber.prepare(one)
    await plumber.connect([one], namespaces[0].fd)
    before = namespaces[0].ip("addr")
    await plumber.prepare(one)
    await plumber.connect([one], namespaces[0].fd)
    assert namespaces[0].ip("addr") == before
    await plumber.remove(one.container)
    await plumber.remove(one.container)
    assert one.tap not in devices()
    assert "eth0" not in namespaces[0].ip("link")


async def test_an_interface_moves_to_the_next_namespace_of_its_container(
    plumber: Plumber, bridge: str, namespaces: list[Namespace]
) -> None:
    one = vif(1, bridge)
    await plumber.prepare(one)
    await plumber.connect([one], namespaces[0].fd)
    await plumber.connect([one], namespaces[1].fd, former=namespaces[0].fd)
    assert "eth0" not in namespaces[0].ip("link")
    assert "10.93.0.1/24" in namespaces[1].ip("addr", "show", "eth0")
    await plumber.take_out([one], namespaces[1].fd)
    assert one.spare in devices()
    assert "eth0" not in namespaces[1].ip("link")
    await plumber.connect([one], namespaces[1].fd)
    assert "10.93.0.1/24" in namespaces[1].ip("addr", "show", "eth0")


async def test_an_interface_that_died_with_its_namespace_is_made_anew(
    plumber: Plumber, bridge: str, namespaces: list[Namespace]
) -> None:
    one = vif(1, bridge)
    await plumber.prepare(one)
    await plumber.connect([one], namespaces[0].fd)
    namespaces[0].close()
    await plumber.connect([one], namespaces[1].fd)
    assert "10.93.0.1/24" in namespaces[1].ip("addr", "show", "eth0")
    assert one.tap in run("ip", "link", "show", "master", bridge)


async def test_a_pair_whose_maker_died_half_way_is_made_anew_and_one_that_is_down_comes_up(
    plumber: Plumber, bridge: str, namespaces: list[Namespace]
) -> None:
    one = vif(1, bridge)
    run("ip", "link", "add", one.tap, "type", "veth", "peer", "name", one.spare)
    assert await plumber.prepare(one)
    assert await plumber.containers() == {one.container}
    await plumber.connect([one], namespaces[0].fd)
    assert not await plumber.problems([one], namespaces[0].fd)
    run("ip", "link", "set", one.tap, "down")
    assert await plumber.problems([one], namespaces[0].fd) == [f"{one.tap} is down"]
    assert not await plumber.prepare(one)
    assert not await plumber.problems([one], namespaces[0].fd)


async def test_an_interface_left_in_a_namespace_nobody_remembers_is_made_anew(
    plumber: Plumber, bridge: str, namespaces: list[Namespace]
) -> None:
    one = vif(1, bridge)
    await plumber.prepare(one)
    await plumber.connect([one], namespaces[0].fd)
    await plumber.connect([one], namespaces[1].fd)
    assert "eth0" not in namespaces[0].ip("link")
    assert "10.93.0.1/24" in namespaces[1].ip("addr", "show", "eth0")


async def test_what_is_left_is_recognised_and_what_is_not_ours_is_not_touched(
    plumber: Plumber, bridge: str, namespaces: list[Namespace]
) -> None:
    ours = vif(1, bridge)
    theirs = dataclasses.replace(vif(2, bridge), owner="other/host")
    other = Plumber("other/host")
    try:
        await plumber.prepare(ours)
        await other.prepare(theirs)
        assert await plumber.containers() == {ours.container}
        await plumber.remove(theirs.container)
        assert theirs.tap in devices()
    finally:
        await other.remove(theirs.container)
        await other.close()
    assert theirs.tap not in devices()


async def test_a_port_that_cannot_be_plugged_is_named(plumber: Plumber) -> None:
    one = vif(1, "a-bridge-name-that-is-too-long")
    with pytest.raises(NetworkSetupFailed, match=one.port_id):
        await plumber.prepare(one)


async def test_a_bridge_of_others_is_known_by_its_address(bridge: str) -> None:
    address = "10.93.4.1/24"
    assert not bridges.is_others(bridge, address)  # there is none
    run("ip", "link", "add", bridge, "type", "bridge")
    run("ip", "addr", "add", address, "dev", bridge)
    assert not bridges.is_others(bridge, address)  # it is down
    run("ip", "link", "set", bridge, "up")
    assert bridges.is_others(bridge, address)
    assert not bridges.is_others(bridge, "10.93.4.1/25")
    assert not bridges.is_others(bridge, "10.93.4.2/24")
    run("ip", "link", "set", bridge, "alias", f"zun-bridge {OWNER} network")
    assert not bridges.is_others(bridge, address)  # ours
    run("ip", "link", "set", bridge, "alias", "")
    run("ip", "addr", "flush", "dev", bridge)
    assert not bridges.is_others(bridge, address)
    assert not bridges.is_others("lo", "127.0.0.1/8")


async def test_what_is_prepared_again_is_put_on_its_bridge_again(plumber: Plumber, bridge: str) -> None:
    one = vif(7, bridge)
    assert await plumber.prepare(one)
    assert f"master {bridge}" in run("ip", "link", "show", one.tap)
    run("ip", "link", "set", one.tap, "nomaster")
    run("ip", "link", "set", bridge, "down")
    assert not await plumber.prepare(one)
    assert f"master {bridge}" in run("ip", "link", "show", one.tap)
    assert ",UP" in run("ip", "link", "show", bridge)
