"""The embedded network: a subnet for each project, an address for each interface, and nothing left when idle."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from tests.support.database import make_database
from tests.support.virtual_clock import StandingClock
from zun.conf import ConfigError
from zun.domain.caller import Caller
from zun.domain.container import Container, RequestedNetwork
from zun.domain.errors import (
    Conflict,
    EngineUnreachable,
    InvalidValue,
    NetworkNotFound,
    NetworkSetupFailed,
    PortNotFound,
)
from zun.domain.observed import EngineNetwork, EngineSpec
from zun.network import local
from zun.network.local import LocalNetwork
from zun.network.subnets import first_free, parse_routes
from zun.runtime.simulated import SimulatedRuntime
from zun.store import local_networks
from zun.store.database import Database
from zun.store.tables import local_ports

ADA = Caller(user_id="ada", project_id="blue")
BOB = Caller(user_id="bob", project_id="red")


def conf(**changed: Any) -> Any:
    values = {"subnet_pool": "10.208.0.0/12", "subnet_prefix": 20, "network_idle_seconds": 600, "mtu": 0}
    return SimpleNamespace(local=SimpleNamespace(**values | changed))


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database = await make_database(tmp_path)
    yield database
    await database.close()


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def runtime() -> SimulatedRuntime:
    return SimulatedRuntime()


@pytest.fixture
def make(
    db: Database, runtime: SimulatedRuntime, clock: StandingClock, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., LocalNetwork]:
    monkeypatch.setattr(local, "host_routes", lambda: [IPv4Network("10.208.0.0/24")])
    return lambda **changed: LocalNetwork(db, runtime, conf(**changed), clock)


@pytest.fixture
def network(make: Callable[..., LocalNetwork]) -> LocalNetwork:
    return make()


def container(uuid: str | None = None) -> Container:
    return Container(uuid or str(uuid4()), "c", "blue", "ada", "busybox", "docker", "Creating")


async def test_no_nets_is_the_projects_own_network(network: LocalNetwork) -> None:
    (mine,) = await network.resolve(ADA, [])
    (again,) = await network.resolve(ADA, [])
    (other,) = await network.resolve(BOB, [])
    assert mine == again
    assert mine.network_id != other.network_id


async def test_subnets_avoid_the_hosts_routes_and_each_other(network: LocalNetwork, db: Database) -> None:
    for project in ("blue", "red", "green"):
        await network.default_network(project)
    async with db.read() as connection:
        assert sorted(await local_networks.cidrs(connection)) == ["10.208.16.0/20", "10.208.32.0/20", "10.208.48.0/20"]


async def test_used_up_pool_is_told(make: Callable[..., LocalNetwork]) -> None:
    small = make(subnet_pool="10.209.0.0/28", subnet_prefix=29)
    await small.default_network("blue")
    await small.default_network("red")
    with pytest.raises(Conflict, match="subnet_pool"):
        await small.default_network("green")


@pytest.mark.parametrize("changed", [{"subnet_pool": "nonsense"}, {"subnet_pool": "10.0.0.0/24"}])
def test_wrong_pool_is_told(make: Callable[..., LocalNetwork], changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"\[local\]/subnet_p"):
        make(**changed)


async def test_resolve_by_id_and_name(network: LocalNetwork) -> None:
    assert (await network.resolve(ADA, [{"network": "default"}])) == await network.resolve(ADA, [])
    (mine,) = await network.resolve(ADA, [])
    assert await network.resolve(ADA, [{"network": mine.network_id}]) == [mine]
    for wrong in (mine.network_id, "nonsense", "%d"):
        with pytest.raises(NetworkNotFound, match=wrong):
            await network.resolve(BOB, [{"network": wrong}])
    with pytest.raises(InvalidValue, match="more than once"):
        await network.resolve(ADA, [{"network": "default"}, {"network": mine.network_id}])


async def test_shared_networks_are_found_and_a_name_twice_is_ambiguous(network: LocalNetwork, db: Database) -> None:
    values = {"subnet_uuid": "s", "shared": True, "is_default": False, "created_at": datetime(2026, 1, 1)}
    for uuid, project, third in (("n1", "red", 1), ("n2", "green", 2)):
        row = values | {"uuid": uuid, "project_id": project, "cidr": f"10.9.{third}.0/24", "gateway": f"10.9.{third}.1"}
        async with db.write() as connection:
            assert await local_networks.insert(connection, row | {"name": "common"})
    assert await network.resolve(ADA, [{"network": "n1"}]) == [RequestedNetwork("n1")]
    with pytest.raises(Conflict, match="common"):
        await network.resolve(ADA, [{"network": "common"}])


async def test_user_ports_do_not_exist(network: LocalNetwork) -> None:
    with pytest.raises(PortNotFound, match="p1"):
        await network.resolve(ADA, [{"port": "p1"}])


@pytest.mark.parametrize(
    "address", ["10.208.16.0", "10.208.16.1", "10.208.31.255", "10.208.32.5", "192.0.2.1", "nonsense", "::1"]
)
async def test_fixed_addresses_that_are_not_possible(network: LocalNetwork, address: str) -> None:
    with pytest.raises(InvalidValue, match=address):
        await network.resolve(ADA, [{"network": "default", "v4-fixed-ip": address}])


async def test_fixed_address(network: LocalNetwork) -> None:
    nets = [{"network": "default", "v4-fixed-ip": "10.208.16.9"}]
    asked = await network.resolve(ADA, nets)
    (got,) = await network.ensure_ports(container(), asked)
    assert (got.address, got.mac) == ("10.208.16.9", "02:42:0a:d0:10:09")
    with pytest.raises(InvalidValue, match="in use"):
        await network.resolve(ADA, nets)
    with pytest.raises(NetworkSetupFailed, match="in use"):  # resolved before the other took it
        await network.ensure_ports(container(), asked)
    with pytest.raises(InvalidValue, match="IPv4 only"):
        await network.resolve(ADA, [{"network": "default", "v6-fixed-ip": "fd00::1"}])


async def test_security_groups(network: LocalNetwork) -> None:
    assert await network.security_groups(ADA, []) == []
    assert await network.security_groups(ADA, ["default"]) == []
    with pytest.raises(InvalidValue, match=r"^Security group web not found\.$"):
        await network.security_groups(ADA, ["default", "web"])


async def test_ports_are_found_again_s1_21(make: Callable[..., LocalNetwork]) -> None:
    network = make(mtu=1400)
    asked = await network.resolve(ADA, [])
    one = container()
    (first,) = await network.ensure_ports(one, asked)
    assert await network.ensure_ports(one, asked) == [first]
    row = await network.default_network("blue")
    options = {
        "com.docker.network.driver.mtu": "1400",
        "com.docker.network.bridge.name": f"zbr{row['uuid'].replace('-', '')[:11]}",
    }
    assert first.engine_network == EngineNetwork(
        f"zun-{row['uuid']}", "10.208.16.0/20", "10.208.16.1", "bridge", options
    )
    assert (first.network_id, first.subnet_id) == (row["uuid"], row["subnet_uuid"])
    assert (first.address, first.version, first.preserve_on_delete) == ("10.208.16.2", 4, False)


async def test_two_networks_keep_the_order_asked(network: LocalNetwork) -> None:
    blue, red = (await network.resolve(ADA, []))[0], (await network.resolve(BOB, []))[0]
    one = container()
    both = await network.ensure_ports(one, [blue, red])
    assert [got.network_id for got in both] == [blue.network_id, red.network_id]
    assert await network.ensure_ports(one, [red, blue]) == list(reversed(both))
    assert await network.ensure_ports(one, [red]) == [both[1]]


async def test_released_addresses_are_given_again_lowest_first_s3_5(network: LocalNetwork) -> None:
    asked = await network.resolve(ADA, [])
    many = [container() for _ in range(4)]
    addresses = [(await network.ensure_ports(one, asked))[0].address for one in many]
    assert addresses == [f"10.208.16.{n}" for n in (2, 3, 4, 5)]
    for one in (many[2], many[0]):
        await network.release_ports(one.uuid)
        await network.release_ports(one.uuid)
    assert [(await network.ensure_ports(container(), asked))[0].address for _ in range(3)] == [
        f"10.208.16.{n}" for n in (2, 4, 6)
    ]
    await network.release_ports(str(uuid4()))


async def test_a_large_network_goes_on_behind_its_highest_address_and_then_fills_its_gaps(
    make: Callable[..., LocalNetwork], db: Database
) -> None:
    network = make(subnet_pool="10.209.0.0/24", subnet_prefix=24)
    asked = await network.resolve(ADA, [])
    many = [container() for _ in range(252)]
    for number, one in enumerate(many, 2):
        (got,) = await network.ensure_ports(one, asked)
        assert got.address == f"10.209.0.{number}"

    async def again(*numbers: int) -> list[str]:
        for number in numbers:
            await network.release_ports(many[number - 2].uuid)
        return [(await network.ensure_ports(container(), asked))[0].address for _ in numbers]

    assert await again(200, 150) == ["10.209.0.254", "10.209.0.150"]  # behind the highest, then the lowest there is
    assert await again(20, 201) == ["10.209.0.20", "10.209.0.200"]  # one of the first is given before all others
    assert (await network.ensure_ports(container(), asked))[0].address == "10.209.0.201"
    with pytest.raises(NetworkSetupFailed, match="no free address"):
        await network.ensure_ports(container(), asked)


async def test_full_network_is_told(make: Callable[..., LocalNetwork]) -> None:
    network = make(subnet_pool="10.209.0.0/29", subnet_prefix=29)
    asked = await network.resolve(ADA, [])
    got = [(await network.ensure_ports(container(), asked))[0].address for _ in range(5)]
    assert got == [f"10.209.0.{n}" for n in (2, 3, 4, 5, 6)]  # not the gateway, not the broadcast address
    with pytest.raises(NetworkSetupFailed, match="no free address"):
        await network.ensure_ports(container(), asked)


async def test_unknown_network_is_told(network: LocalNetwork) -> None:
    with pytest.raises(NetworkSetupFailed, match="nowhere"):
        await network.ensure_ports(container(), [RequestedNetwork("nowhere")])


async def test_a_failure_at_the_second_network_keeps_no_address(network: LocalNetwork, db: Database) -> None:
    (blue,) = await network.resolve(ADA, [])
    with pytest.raises(NetworkSetupFailed):
        await network.ensure_ports(container(), [blue, RequestedNetwork("nowhere")])
    async with db.read() as connection:
        assert (await connection.execute(sa.select(local_ports))).first() is None


async def test_fifty_at_once_get_fifty_addresses(network: LocalNetwork) -> None:
    asked = await network.resolve(ADA, [])
    got = await asyncio.gather(*(network.ensure_ports(container(), asked) for _ in range(50)))
    assert len({one.address for (one,) in got}) == len({one.mac for (one,) in got}) == 50
    assert len({one.port_id for (one,) in got}) == 50


async def test_one_container_asked_for_twice_at_once(network: LocalNetwork) -> None:
    asked = await network.resolve(ADA, [])
    one = container()
    got = await asyncio.gather(*(network.ensure_ports(one, asked) for _ in range(10)))
    assert all(each == got[0] for each in got)


async def test_two_processes_make_the_first_network_at_once(tmp_path: Path) -> None:
    db = await make_database(tmp_path)
    await db.close()
    code = f"""
import asyncio
from types import SimpleNamespace
from zun.domain.clock import SystemClock
from zun.network.local import LocalNetwork
from zun.store.database import Database
async def main():
    db = Database({"sqlite:///" + str(tmp_path) + "/zun.sqlite"!r})
    local = SimpleNamespace({", ".join(f"{k}={v!r}" for k, v in vars(conf().local).items())})
    network = LocalNetwork(db, None, SimpleNamespace(local=local), SystemClock())
    print((await network.default_network("blue"))["uuid"])
    await db.close()
asyncio.run(main())
"""
    both = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
        for _ in range(2)
    ]
    answers = [(await process.communicate())[0] for process in both]
    assert answers[0] == answers[1]
    assert len(answers[0].strip()) == 36


async def _on_engine(runtime: SimulatedRuntime, network: LocalNetwork, one: Container) -> str:
    (got,) = await network.ensure_ports(one, await network.resolve(ADA, []))
    await runtime.ensure_network(got.engine_network)
    return got.engine_network.name


async def test_idle_networks_leave_the_engine_and_return(
    network: LocalNetwork, runtime: SimulatedRuntime, clock: StandingClock
) -> None:
    one = container()
    name = await _on_engine(runtime, network, one)
    await runtime.ensure_network(EngineNetwork("zun-of-somebody-else"))
    await clock.sleep(10_000)
    await network.collect_idle()
    assert name in await runtime.list_networks("zun-")  # a port is on it
    await network.release_ports(one.uuid)
    await clock.sleep(599)
    await network.collect_idle()
    assert name in await runtime.list_networks("zun-")  # not idle for long enough
    await clock.sleep(1)
    await network.collect_idle()
    assert list(await runtime.list_networks("zun-")) == ["zun-of-somebody-else"]
    await network.collect_idle()
    assert await _on_engine(runtime, network, container()) == name  # the row stayed


async def test_a_network_with_a_container_still_on_it_stays(
    network: LocalNetwork, runtime: SimulatedRuntime, clock: StandingClock
) -> None:
    one = container()
    attachments = await network.ensure_ports(one, await network.resolve(ADA, []))
    image = runtime.add_image("busybox")
    await runtime.create(EngineSpec(one.uuid, "d/h", image.image_id, "c", attachments=attachments))
    await network.release_ports(one.uuid)
    await clock.sleep(10_000)
    await network.collect_idle()
    assert await runtime.list_networks("zun-") == [attachments[0].engine_network.name]
    await runtime.remove(one.uuid, force=True)
    await network.collect_idle()
    assert not await runtime.list_networks("zun-")


async def test_engine_away_is_not_hidden(network: LocalNetwork, runtime: SimulatedRuntime) -> None:
    runtime.fail_next("list_networks", EngineUnreachable("no answer"))
    with pytest.raises(EngineUnreachable):
        await network.collect_idle()


def test_parse_routes() -> None:
    text = (
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
        "eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    )
    assert parse_routes(text) == [IPv4Network("172.17.0.0/16"), IPv4Network("192.168.0.0/24")]


SUBNETS = st.builds(
    lambda at, prefix: IPv4Network((at, prefix), strict=False), st.integers(0x0A000000, 0x0A000400), st.integers(20, 32)
)


@given(st.lists(SUBNETS, max_size=12), st.integers(24, 29))
def test_first_free_is_the_lowest_that_overlaps_nothing(taken: list[IPv4Network], prefix: int) -> None:
    pool = IPv4Network("10.0.0.0/22")
    free = [one for one in pool.subnets(new_prefix=prefix) if not any(one.overlaps(each) for each in taken)]
    assert first_free(pool, prefix, taken) == (free[0] if free else None)


async def test_attach_and_detach_are_idempotent_and_give_the_address_back(
    network: LocalNetwork, runtime: SimulatedRuntime, db: Database
) -> None:
    box = container()
    (wanted,) = await network.resolve(ADA, [])
    runtime.adopt(EngineSpec(box.uuid, "test/host", "busybox", "c"))
    (first,) = await network.attach(box, wanted)
    assert await network.attach(box, wanted) == [first]
    assert runtime.joined(box.uuid) == [f"zun-{wanted.network_id}"]
    for _ in range(2):
        await network.detach(box, wanted.network_id)
    assert runtime.joined(box.uuid) == []
    async with db.read() as connection:
        assert not await local_networks.ports_of(connection, box.uuid)
        assert not await local_networks.address_taken(connection, wanted.network_id, 2)


async def test_detach_without_a_container_in_the_engine(network: LocalNetwork, db: Database) -> None:
    box = container()
    (wanted,) = await network.resolve(ADA, [])
    await network.ensure_ports(box, [wanted])
    await network.detach(box, wanted.network_id)
    async with db.read() as connection:
        assert not await local_networks.ports_of(connection, box.uuid)


async def test_the_engine_that_does_not_answer_keeps_the_address(
    network: LocalNetwork, runtime: SimulatedRuntime, db: Database
) -> None:
    """The container may still be on the bridge: the address cannot be another's."""
    box = container()
    (wanted,) = await network.resolve(ADA, [])
    await network.ensure_ports(box, [wanted])
    runtime.faults.unreachable = True
    with pytest.raises(EngineUnreachable):
        await network.detach(box, wanted.network_id)
    async with db.read() as connection:
        assert await local_networks.address_taken(connection, wanted.network_id, 2)


async def test_a_network_with_ports_is_not_removed_though_the_engine_knows_of_none(
    network: LocalNetwork, runtime: SimulatedRuntime
) -> None:
    """Interfaces of capsules are on the engine's bridge behind its back."""
    asked = await network.resolve(ADA, [])
    one = container()
    await network.make_network(asked[0].network_id)
    await network.ensure_ports(one, asked)
    with pytest.raises(Conflict, match="has ports"):
        await network.remove_network(asked[0].network_id)
    assert not await network.is_idle(asked[0].network_id)
    await network.release_ports(one.uuid)
    assert await network.remove_network(asked[0].network_id)
    assert await network.is_idle(str(uuid4()))


async def test_make_and_remove_the_bridge(network: LocalNetwork, runtime: SimulatedRuntime) -> None:
    box = container()
    (wanted,) = await network.resolve(ADA, [])
    name = await network.make_network(wanted.network_id)
    assert name in runtime.networks
    runtime.adopt(EngineSpec(box.uuid, "test/host", "busybox", "c"))
    await network.attach(box, wanted)
    with pytest.raises(Conflict, match="in use"):
        await network.remove_network(wanted.network_id)
    await network.detach(box, wanted.network_id)
    assert await network.remove_network(wanted.network_id)
    assert not await network.remove_network(wanted.network_id)
    with pytest.raises(NetworkNotFound):
        await network.make_network("nonsense")
