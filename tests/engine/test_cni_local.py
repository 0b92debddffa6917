"""Capsules on the embedded networks: addresses from the database, on Docker's bridge or on one of our own."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cni import CniNode
from tests.support.cni_place import Place, capsule_row, reaches
from tests.support.database import make_database
from tests.support.namespaces import Namespace, devices, run
from tests.support.runtimes import DockerBench
from tests.support.subnets import SubnetClaim
from tests.support.wait import eventually
from zun import conf as zun_conf
from zun.domain.caller import Caller
from zun.domain.errors import Conflict, EngineUnreachable
from zun.domain.observed import EngineSpec
from zun.network.local import bridge_of
from zun.plumbing.routing import chain_of
from zun.runtime.simulated import SimulatedRuntime
from zun.store.database import Database


def rules() -> str:
    return run("iptables-save")


@pytest.fixture
def ada() -> Caller:
    return Caller(user_id="ada", project_id="blue")


@pytest.fixture
def bob() -> Caller:
    return Caller(user_id="bob", project_id="red")


@pytest.fixture
def subnets() -> Iterator[SubnetClaim]:
    claim = SubnetClaim()
    yield claim
    claim.close()


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    made = await make_database(tmp_path)
    yield made
    await made.close()


@pytest.fixture
def node(tmp_path: Path, subnets: SubnetClaim) -> Iterator[CniNode]:
    more = f"[local]\nsubnet_pool = {subnets.cidr}\nsubnet_prefix = 24\nmtu = 1450\n"
    made = CniNode(tmp_path / "node", more).install().start()
    yield made
    assert made.terminate() == 0


@pytest.fixture
async def make_place(node: CniNode, db: Database) -> AsyncIterator[Callable[..., Place]]:
    made: list[Place] = []

    def make(runtime: Any, driver: str) -> Place:
        conf = zun_conf.load(files=[str(node.conf_file)])
        conf.set_override("container_driver", driver)
        made.append(Place(node, db, runtime, conf))
        return made[-1]

    before = await asyncio.to_thread(rules)
    yield make
    for place in made:
        await place.empty()
    left = {name for name in devices() if name.startswith("zbr")}
    ours = {bridge_of(row) for place in made for row in await networks_of(place)}
    assert not left & ours
    for name in ours:
        assert chain_of(name) not in await asyncio.to_thread(rules), before


async def networks_of(place: Place) -> list[str]:
    return [(await place.local.default_network(project))["uuid"] for project in ("blue", "red")]


@pytest.fixture
def own(make_place: Callable[..., Place]) -> Place:
    """Without Docker."""
    return make_place(SimulatedRuntime(), "simulated")


async def test_two_capsules_on_a_bridge_of_our_own_reach_each_other_and_the_gateway(own: Place, ada: Caller) -> None:
    first, _ = await own.capsule(ada)
    second, address = await own.capsule(ada)
    await reaches(first, second, address)
    row = await own.local.default_network("blue")
    assert first.pings(row["gateway"])
    shown = first.ip("route")
    assert f"default via {row['gateway']} dev eth0" in shown
    assert "mtu 1450" in first.ip("link", "show", "eth0")
    assert f"inet {row['gateway']}/24" in run("ip", "addr", "show", bridge_of(row["uuid"]))


async def test_networks_of_two_projects_are_apart(own: Place, ada: Caller, bob: Caller) -> None:
    first, _ = await own.capsule(ada)
    second, address = await own.capsule(bob)
    assert not first.pings(address)
    third, near = await own.capsule(bob)
    await reaches(third, second, address)
    await reaches(second, third, near)


async def test_what_is_beyond_the_host_is_reached_under_the_hosts_address(own: Place, ada: Caller) -> None:
    inside, _ = await own.capsule(ada)
    outside = Namespace()
    name = f"zot{uuid.uuid4().hex[:8]}"
    try:
        run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", outside.name)
        run("ip", "addr", "add", "198.51.100.1/30", "dev", name)
        run("ip", "link", "set", name, "up")
        outside.ip("addr", "add", "198.51.100.2/30", "dev", "eth0")
        outside.ip("link", "set", "eth0", "up")
        assert "default" not in outside.ip("route"), "it cannot answer but to the host"
        await reaches(inside, outside, "198.51.100.2")
    finally:
        run("ip", "link", "del", name, check=False)
        outside.close()


async def test_an_idle_bridge_goes_with_its_rules_and_comes_again(own: Place, ada: Caller) -> None:
    await own.capsule(ada)
    bridge = bridge_of((await own.local.default_network("blue"))["uuid"])
    await own.idle()
    assert bridge in devices(), "it has a port"
    assert chain_of(bridge) in rules()
    await own.network.release_ports(own.plugged[0][0])
    await own.network.collect_idle()
    assert bridge in devices(), "used a moment ago"
    await own.idle()
    assert bridge not in devices()
    assert chain_of(bridge) not in rules()
    first, _ = await own.capsule(ada)
    second, address = await own.capsule(ada)
    await reaches(first, second, address)


async def test_ensure_is_repeatable_and_release_leaves_nothing(own: Place, ada: Caller) -> None:
    asked = await own.local.resolve(ada, [])
    row = capsule_row(ada)
    given = await own.network.ensure_ports(row, asked)
    own.plugged.append((row.uuid, ""))
    assert await own.network.ensure_ports(row, asked) == given
    handover = own.node.handovers.get(row.uuid)
    assert handover is not None
    [one] = handover.vifs
    assert one.tap in devices()
    assert (one.mac, one.port_id, not handover.awaited) == (given[0].mac, given[0].port_id, True)
    for _ in range(2):
        await own.network.release_ports(row.uuid)
        assert one.tap not in devices()
        assert own.node.handovers.get(row.uuid) is None
    other = capsule_row(ada)
    own.plugged.append((other.uuid, ""))
    [again] = await own.network.ensure_ports(other, asked)
    assert again.address == given[0].address, "the address was given back"


async def test_what_a_capsule_without_a_row_left_is_removed_after_a_while(own: Place, ada: Caller) -> None:
    await own.capsule(ada)
    [(capsule, _)] = own.plugged
    handover = own.node.handovers.get(capsule)
    assert handover is not None
    await own.network.collect_idle()
    assert handover.vifs[0].tap in devices()
    await own.clock.sleep(31)
    await own.network.collect_idle()
    assert handover.vifs[0].tap not in devices()
    assert own.node.handovers.capsules() == frozenset()


async def test_capsules_and_containers_of_one_network_reach_each_other(
    docker: DockerBench, make_place: Callable[..., Place], ada: Caller
) -> None:
    place = make_place(docker.runtime, "docker")
    asked = await place.local.resolve(ada, [])
    row = capsule_row(ada)
    attachments = await place.local.ensure_ports(row, asked)
    place.plugged.append((row.uuid, ""))
    page = "mkdir /www; echo hello > /www/index.html; httpd -f -p 8000 -h /www"
    spec = EngineSpec(
        row.uuid, docker.owner, docker.image, "a-name", command=["sh", "-c", page], attachments=attachments
    )
    try:
        await docker.runtime.create(spec)
        await docker.runtime.start(row.uuid)
        first, address = await place.capsule(ada)
        second, _ = await place.capsule(ada)
        wanted = f"http://{attachments[0].address}:8000/"
        await eventually(
            lambda: asyncio.to_thread(lambda: first.run("busybox", "wget", "-qO-", wanted, check=False) == "hello\n"),
            60,
            "the capsule reaches the container",
        )
        await reaches(second, first, address)
        with first.serving(8001, "hello"):
            fetch = f"nc -w 3 {address} 8001"
            done = await docker.runtime.execute(row.uuid, ["sh", "-c", fetch], 20)
            assert done.output.strip() == "hello"
        [network] = asked
        with pytest.raises(Conflict):
            await place.local.remove_network(network.network_id)
    finally:
        await docker.runtime.remove(row.uuid, force=True)
    assert bridge_of(asked[0].network_id) in devices()
    assert chain_of(bridge_of(asked[0].network_id)) not in rules(), "the rules are Docker's"


async def test_a_bridge_made_while_docker_was_away_is_taken_up_by_docker(
    docker: DockerBench, make_place: Callable[..., Place], ada: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make_place(docker.runtime, "docker")
    found, ensure = docker.runtime.list_networks, docker.runtime.ensure_network

    async def away(*_: object) -> Any:
        raise EngineUnreachable("no answer")

    monkeypatch.setattr(docker.runtime, "ensure_network", away)
    monkeypatch.setattr(docker.runtime, "list_networks", away)
    first, _ = await place.capsule(ada)
    monkeypatch.setattr(docker.runtime, "ensure_network", ensure)
    monkeypatch.setattr(docker.runtime, "list_networks", found)
    second, address = await place.capsule(ada)
    await reaches(first, second, address)
    network = (await place.local.default_network("blue"))["uuid"]
    assert await place.local.engine_name(network)
    inspected = run("docker", "network", "inspect", f"zun-{network}")
    assert bridge_of(network) in inspected
    assert bridge_of(network) in devices()
