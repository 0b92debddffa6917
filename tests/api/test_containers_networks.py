"""Join and leave networks, change security groups (§10.5): as a user sees it, on a node that works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.api import told
from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from tests.support.wait import eventually
from zun.control import reaper
from zun.domain.errors import EngineError, EngineUnreachable
from zun.domain.operation import Kind
from zun.store import local_networks, operations

URL = "/v1/containers"


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[SimulatedCloud]:
    async with simulated_cloud(tmp_path) as made:
        yield made


async def shared_network(cloud: SimulatedCloud, name: str = "second", third: int = 77) -> str:
    """A network that every project may use; its id."""
    values = {
        "uuid": str(uuid4()), "subnet_uuid": str(uuid4()), "name": name, "project_id": "infra", "shared": True,
        "cidr": f"10.233.{third}.0/24", "gateway": f"10.233.{third}.1", "is_default": False,
        "created_at": cloud.api.parts.clock.now(),
    }  # fmt: skip
    async with cloud.api.parts.db.write() as connection:
        assert await local_networks.insert(connection, values)
    return str(values["uuid"])


async def attach(cloud: SimulatedCloud, uuid: str, **params: str) -> httpx.Response:
    return await cloud.http.post(f"{URL}/{uuid}/network_attach", params=params)


async def detach(cloud: SimulatedCloud, uuid: str, **params: str) -> httpx.Response:
    return await cloud.http.post(f"{URL}/{uuid}/network_detach", params=params)


async def done(cloud: SimulatedCloud, uuid: str, answer: httpx.Response) -> dict[str, Any]:
    """The action of an accepted request, once it is over."""
    assert answer.status_code in (200, 202), answer.text
    assert answer.json() is None
    path = f"{URL}/{uuid}/container_actions/{answer.headers['x-openstack-request-id']}"
    found: dict[str, Any] = {}

    async def over() -> bool:
        found.update((await cloud.http.get(path)).json())
        return found.get("finish_time") is not None

    await eventually(over, 60, f"the action of {uuid} is over")
    return found


async def networks(cloud: SimulatedCloud, uuid: str) -> dict[str, list[str]]:
    shown = (await cloud.http.get(f"{URL}/{uuid}/network_list")).json()["networks"]
    return {one["net_id"]: [ip["ip_address"] for ip in one["fixed_ips"]] for one in shown}


async def running(cloud: SimulatedCloud, **body: Any) -> str:
    uuid = await cloud.create(**body)
    await cloud.wait(uuid, "Running")
    return uuid


async def test_attach_is_200_and_joins_with_the_address_asked(cloud: SimulatedCloud) -> None:
    uuid, second = await running(cloud), await shared_network(cloud)
    answer = await attach(cloud, uuid, network="second", fixed_ip="10.233.77.50")
    assert answer.status_code == 200
    action = await done(cloud, uuid, answer)
    assert (action["action"], action["message"]) == ("network_attach", None)
    shown = await cloud.wait(uuid, "Running")
    assert len(shown["addresses"]) == 2
    assert shown["addresses"][second][0]["addr"] == "10.233.77.50"
    assert (await networks(cloud, uuid))[second] == ["10.233.77.50"]
    assert cloud.runtime.joined(uuid)[1:] == [f"zun-{second}"]


async def test_detach_is_202_and_gives_the_address_to_the_next(cloud: SimulatedCloud) -> None:
    uuid, second = await running(cloud), await shared_network(cloud)
    await done(cloud, uuid, await attach(cloud, uuid, network=second, fixed_ip="10.233.77.50"))
    answer = await detach(cloud, uuid, network="second")
    assert answer.status_code == 202
    action = await done(cloud, uuid, answer)
    assert (action["action"], action["message"]) == ("network_detach", None)
    assert second not in await networks(cloud, uuid)
    other = await running(cloud)
    await done(cloud, other, await attach(cloud, other, network=second, fixed_ip="10.233.77.50"))


async def test_detach_by_port_takes_the_network_of_the_port(cloud: SimulatedCloud) -> None:
    uuid = await running(cloud)
    (items,) = (await cloud.wait(uuid, "Running"))["addresses"].values()
    await done(cloud, uuid, await detach(cloud, uuid, port=items[0]["port"]))
    shown = await cloud.wait(uuid, "Running")
    assert shown["addresses"] == {}
    assert cloud.runtime.joined(uuid) == []


async def test_the_last_network_may_be_left_and_the_default_joined_again(cloud: SimulatedCloud) -> None:
    uuid = await running(cloud)
    (mine,) = await networks(cloud, uuid)
    await done(cloud, uuid, await detach(cloud, uuid, network=mine))
    assert await networks(cloud, uuid) == {}
    await done(cloud, uuid, await attach(cloud, uuid))
    assert list(await networks(cloud, uuid)) == [mine]


async def test_what_is_wrong_is_told_and_changes_nothing(cloud: SimulatedCloud) -> None:
    uuid = await running(cloud)
    await shared_network(cloud)
    before = await networks(cloud, uuid)
    (mine,) = before
    for params, status, code in (
        ({"network": mine}, 400, "invalid"),
        ({}, 400, "invalid"),
        ({"network": "nowhere"}, 404, "network-not-found"),
        ({"port": "nowhere"}, 404, "port-not-found"),
        ({"port": "nowhere", "fixed_ip": "10.0.0.1"}, 404, "port-not-found"),
        ({"network": "second", "fixed_ip": "10.0.0.1"}, 400, "invalid-value"),
        ({"network": "second", "fixed_ip": "fd00::1"}, 400, "invalid-value"),
    ):
        assert told(await attach(cloud, uuid, **params))[:2] == (status, code), params
    for params in ({"network": "second"}, {"network": "nowhere"}, {"port": "nowhere"}):
        assert told(await detach(cloud, uuid, **params))[:2] == (400, "invalid"), params
    assert "is not attached to network second" in told(await detach(cloud, uuid, network="second"))[2]
    assert await networks(cloud, uuid) == before
    assert (await cloud.show(uuid) or {})["task_state"] is None


async def test_of_many_requests_for_one_network_one_is_taken(cloud: SimulatedCloud) -> None:
    uuid, second = await running(cloud), await shared_network(cloud)
    answers = await asyncio.gather(*(attach(cloud, uuid, network=second) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [200, 400, 400, 400]
    await cloud.wait(uuid, "Running")
    leaving = await asyncio.gather(*(detach(cloud, uuid, network=second) for _ in range(4)))
    assert sorted(answer.status_code for answer in leaving) == [202, 400, 400, 400]
    await cloud.wait(uuid, "Running")
    assert second not in await networks(cloud, uuid)


async def test_changes_asked_one_after_the_other_are_done_in_that_order(cloud: SimulatedCloud) -> None:
    uuid, second = await running(cloud), await shared_network(cloud)
    for _ in range(3):
        assert (await attach(cloud, uuid, network=second)).status_code == 200
        assert (await detach(cloud, uuid, network=second)).status_code == 202
    last = await attach(cloud, uuid, network=second)
    await done(cloud, uuid, last)
    assert second in await networks(cloud, uuid)


@pytest.mark.parametrize("status", ["Stopped", "Created", "Paused"])
async def test_networks_change_in_every_settled_state(cloud: SimulatedCloud, status: str) -> None:
    second = await shared_network(cloud)
    uuid = await cloud.create(run=status != "Created")
    await cloud.wait(uuid, "Created" if status == "Created" else "Running")
    if verb := {"Stopped": "stop", "Paused": "pause"}.get(status):
        await done(cloud, uuid, await cloud.http.post(f"{URL}/{uuid}/{verb}"))
    await done(cloud, uuid, await attach(cloud, uuid, network=second))
    assert (await cloud.wait(uuid, status))["status"] == status
    assert second in await networks(cloud, uuid)


async def test_rebuild_and_healing_make_the_changed_set_again(cloud: SimulatedCloud) -> None:
    second = await shared_network(cloud)
    uuid = await running(cloud, auto_heal=True)
    (mine,) = await networks(cloud, uuid)
    await done(cloud, uuid, await attach(cloud, uuid, network=second))
    await done(cloud, uuid, await detach(cloud, uuid, network=mine))
    await done(cloud, uuid, await cloud.http.post(f"{URL}/{uuid}/rebuild"))
    assert (list(await networks(cloud, uuid)), cloud.runtime.joined(uuid)) == ([second], [f"zun-{second}"])
    cloud.runtime.vanish(uuid)

    async def healed() -> bool:
        return await cloud.status(uuid) == "Running" and await cloud.runtime.inspect(uuid) is not None

    await eventually(healed, 60, "healed")
    assert (list(await networks(cloud, uuid)), cloud.runtime.joined(uuid)) == ([second], [f"zun-{second}"])
    await cloud.truth()


async def test_a_refused_attach_leaves_the_container_as_it_was_and_says_why(cloud: SimulatedCloud) -> None:
    uuid, second = await running(cloud), await shared_network(cloud)
    before = await networks(cloud, uuid)
    cloud.runtime.fail_next("connect_network", EngineError("no such plugin"))
    action = await done(cloud, uuid, await attach(cloud, uuid, network=second))
    assert action["message"] == "Error"
    shown = await cloud.wait(uuid, "Running")
    assert shown["status_reason"] == "Docker internal error: no such plugin."
    assert await networks(cloud, uuid) == before
    async with cloud.api.parts.db.read() as connection:
        assert len(await local_networks.ports_of(connection, uuid)) == 1
    await done(cloud, uuid, await attach(cloud, uuid, network=second))


@pytest.mark.parametrize("after", [False, True])
async def test_an_engine_that_is_away_for_a_moment_delays_it(cloud: SimulatedCloud, after: bool) -> None:
    uuid, second = await running(cloud), await shared_network(cloud)
    for method, request in (("connect_network", attach), ("disconnect_network", detach)):
        cloud.runtime.fail_next(method, EngineUnreachable("gone"), after=after)
        action = await done(cloud, uuid, await request(cloud, uuid, network=second))
        assert action["message"] is None
    assert second not in await networks(cloud, uuid)


@pytest.mark.parametrize("method", ["connect_network", "disconnect_network"])
async def test_an_agent_that_dies_in_the_middle_goes_on_when_it_returns(cloud: SimulatedCloud, method: str) -> None:
    uuid, second = await running(cloud), await shared_network(cloud)
    if method == "disconnect_network":
        await done(cloud, uuid, await attach(cloud, uuid, network=second))
    cloud.runtime.faults.hang(method)
    change = attach if method == "connect_network" else detach
    answer = await change(cloud, uuid, network=second)
    calls = cloud.runtime.faults.calls
    await eventually(lambda: calls[method] > 0, 30, "the engine is asked")
    await cloud.die()
    cloud.runtime.faults.resume(method)
    await cloud.live()
    assert (await done(cloud, uuid, answer))["message"] is None
    assert (second in await networks(cloud, uuid)) == (method == "connect_network")
    await cloud.truth()


async def test_an_attach_past_its_deadline_is_taken_back(cloud: SimulatedCloud) -> None:
    uuid, second = await running(cloud), await shared_network(cloud)
    cloud.runtime.faults.hang("connect_network")
    answer = await attach(cloud, uuid, network=second)
    calls = cloud.runtime.faults.calls
    await eventually(lambda: calls["connect_network"] > 0, 30, "the engine is asked")
    async with cloud.api.parts.db.write() as connection:
        (left,) = await operations.unfinished_of_container(connection, uuid)
        await operations.extend(connection, left.id, cloud.api.parts.clock.now() - timedelta(seconds=1))
    await reaper.reap_once(cloud.api.control, "test")
    assert (await done(cloud, uuid, answer))["message"] == "Error"
    cloud.runtime.faults.resume("connect_network")
    await cloud.wait(uuid, "Running")

    async def given_back() -> bool:
        async with cloud.api.parts.db.read() as connection:
            return len(await local_networks.ports_of(connection, uuid)) == 1

    await eventually(given_back, 60, "the port is given back")
    assert second not in await networks(cloud, uuid)


async def test_a_container_never_made_joins_nothing(cloud: SimulatedCloud) -> None:
    cloud.runtime.fail_next("start", EngineError("no"))
    uuid = await cloud.create()
    await cloud.wait(uuid, "Error")
    shown = await cloud.show(uuid) or {}
    assert shown["status"] == "Error"
    for request in (attach, detach):
        assert told(await request(cloud, uuid, network="default"))[:2] == (409, "conflict")


async def test_deleted_while_it_joins_leaves_nothing(cloud: SimulatedCloud) -> None:
    uuid, second = await running(cloud), await shared_network(cloud)
    assert (await attach(cloud, uuid, network=second)).status_code == 200
    assert (await cloud.http.delete(f"{URL}/{uuid}?force=true")).status_code == 204
    await cloud.wait(uuid, "gone")
    await cloud.truth()


async def test_security_groups_of_the_embedded_network(cloud: SimulatedCloud) -> None:
    """Only ``default`` exists, and every port is in it."""
    uuid = await running(cloud)
    old = cloud.api.client(("admin",), version="1.14")
    for verb, name, code in (
        ("add", "default", "security-group-cannot-be-applied"),
        ("remove", "default", "security-group-cannot-be-removed"),
        ("add", "nonsense", "invalid-value"),
    ):
        answer = await old.post(f"{URL}/{uuid}/{verb}_security_group", params={"name": name})
        assert told(answer)[:2] == (400, code)


class _Groups:
    """A network whose ports have groups; notes what it is told."""

    known = {"default": "g-default", "web": "g-web", "db": "g-db"}

    def __init__(self, real: Any) -> None:
        self._real = real
        self.told: list[tuple[Any, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def security_groups(self, caller: Any, names: Any) -> list[str]:
        return [self.known[name] for name in names]

    async def change_security_groups(self, uuid: str, *, add: Any = (), remove: Any = ()) -> None:
        self.told.append((list(add), list(remove)))


async def test_security_groups_change_ports_and_row(cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = _Groups(cloud.api.parts.network)
    object.__setattr__(cloud.api.control, "network", groups)
    assert cloud.node
    cloud.node.network = groups  # type: ignore[assignment]
    uuid = await running(cloud)
    old = cloud.api.client(("admin",), version="1.14")

    async def ask(verb: str, name: str) -> httpx.Response:
        return await old.post(f"{URL}/{uuid}/{verb}_security_group?name={name}")

    action = await done(cloud, uuid, await ask("add", "web"))
    assert action["action"] == Kind.ADD_SECURITY_GROUP
    assert (await cloud.wait(uuid, "Running"))["security_groups"] == ["g-default", "g-web"]
    assert told(await ask("add", "web"))[:2] == (400, "security-group-cannot-be-applied")
    assert told(await ask("remove", "db"))[:2] == (400, "security-group-cannot-be-removed")
    action = await done(cloud, uuid, await ask("remove", "default"))
    assert action["action"] == Kind.REMOVE_SECURITY_GROUP
    assert (await cloud.wait(uuid, "Running"))["security_groups"] == ["g-web"]
    assert groups.told == [(["g-web"], []), ([], ["g-default"])]
    answers = await asyncio.gather(*(ask("add", "db") for _ in range(3)))
    assert sorted(answer.status_code for answer in answers) == [202, 400, 400]


async def test_security_groups_need_a_settled_state(cloud: SimulatedCloud) -> None:
    cloud.runtime.fail_next("start", EngineError("no"))
    uuid = await cloud.create()
    await cloud.wait(uuid, "Error")
    old = cloud.api.client(("admin",), version="1.14")
    answer = await old.post(f"{URL}/{uuid}/add_security_group?name=default")
    expected = f"Cannot add_security_group container {uuid} in Error state"
    assert told(answer) == (409, "invalid-state-exception", expected)
