"""The network port over the testbed's Neutron, its engine simulated: what is made, found again and given back."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.database import make_database
from tests.support.testbed import MACHINE, OWN_ACCOUNT, Testbed
from tests.support.testbed_project import Project
from tests.support.wait import eventually
from zun import conf as zun_conf
from zun.domain.caller import Caller
from zun.domain.clock import SystemClock
from zun.domain.container import Container, RequestedNetwork
from zun.domain.errors import (
    Conflict,
    ExternalNetworkAttachForbidden,
    InvalidValue,
    NetworkNotFound,
    NetworkSetupFailed,
    PortInUse,
    PortNotUsable,
    SecurityGroupCannotBeApplied,
    ServiceUnavailable,
    Unauthorized,
)
from zun.network.kuryr import KuryrNetwork
from zun.openstack.cloud import OpenStack
from zun.runtime.simulated import SimulatedRuntime
from zun.store.database import Database

_CONF = f"""
{OWN_ACCOUNT}
[neutron]
agent_host = {MACHINE}
[network]
idle_seconds = 0
"""


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    made = await make_database(tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def make_network(tmp_path: Path, db: Database) -> AsyncIterator[Callable[..., KuryrNetwork]]:
    """One more process' view of the same database and Neutron."""
    opened: list[OpenStack] = []

    def make(more: str = "") -> KuryrNetwork:
        file = tmp_path / f"zun{len(opened)}.conf"
        file.write_text(_CONF + more)
        conf = zun_conf.load(files=[str(file)])
        opened.append(OpenStack(conf))
        return KuryrNetwork(opened[-1].neutron, db, conf, SimulatedRuntime(), SystemClock())

    yield make
    for cloud in opened:
        await cloud.close()


@pytest.fixture
def network(make_network: Callable[..., KuryrNetwork]) -> KuryrNetwork:
    return make_network()


@pytest.fixture
def caller(project: Project) -> Caller:
    return caller_of(project)


def caller_of(project: Project) -> Caller:
    account = project.account
    roles = frozenset({"member", "reader"})
    return Caller(account.user_id, project.id, roles=roles, token=account.token)


def container(project: Project, **fields: Any) -> Container:
    made = Container(
        uuid=str(uuid4()),
        name="one",
        project_id=project.id,
        user_id="user",
        image="busybox",
        image_driver="docker",
        status="Creating",
    )
    return dataclasses.replace(made, **fields)


# -- what requests name ------------------------------------------------------------------------------


async def test_without_nets_the_projects_oldest_network_is_used(
    network: KuryrNetwork, project: Project, caller: Caller
) -> None:
    def made_at(ident: str) -> str:
        return str(project.neutron("GET", f"/networks/{ident}")["network"]["created_at"])

    oldest = made_at(project.network_id)  # Neutron counts in seconds
    await eventually(lambda: made_at(project.add_network()[0]) > oldest, 10, "a younger network is there")
    assert await network.resolve(caller, []) == [RequestedNetwork(project.network_id)]


@pytest.mark.xdist_group("shared-networks")  # others of the cloud would be found
async def test_a_network_shared_with_the_project_is_used_where_it_has_none(
    network: KuryrNetwork, project: Project, new_project: Callable[..., Project], testbed: Testbed
) -> None:
    poor = new_project()
    answer = caller_of(poor)
    policy = {"object_type": "network", "object_id": project.network_id, "action": "access_as_shared"}
    body = {"rbac_policy": {**policy, "target_tenant": poor.id}}
    made = testbed.admin.call("network", "POST", "/v2.0/rbac-policies", json=body)["rbac_policy"]["id"]
    try:
        [found] = await network.resolve(answer, [])
        assert found.network_id == project.network_id
    finally:
        testbed.admin.call("network", "DELETE", f"/v2.0/rbac-policies/{made}")


async def test_an_external_network_needs_the_right_to_it(
    network: KuryrNetwork, project: Project, caller: Caller, testbed: Testbed
) -> None:
    change = {"network": {"router:external": True}}
    testbed.admin.call("network", "PUT", f"/v2.0/networks/{project.network_id}", json=change)
    nets = [{"network": project.network_id}]
    with pytest.raises(ExternalNetworkAttachForbidden):
        await network.resolve(caller, nets)
    assert await network.resolve(caller, nets, external=True) == [RequestedNetwork(project.network_id)]


async def test_a_name_twice_is_ambiguous_and_an_id_is_not(
    network: KuryrNetwork, project: Project, caller: Caller
) -> None:
    second, _ = project.add_network()
    with pytest.raises(Conflict, match="Multiple networks"):
        await network.resolve(caller, [{"network": f"{project.name}-net"}])
    found = await network.resolve(caller, [{"network": second}, {"network": project.network_id}])
    assert [one.network_id for one in found] == [second, project.network_id]
    with pytest.raises(InvalidValue, match="more than once"):
        await network.resolve(caller, [{"network": second}, {"network": second}])


async def test_a_network_of_others_or_without_subnet_is_refused(
    network: KuryrNetwork, project: Project, caller: Caller, new_project: Callable[..., Project]
) -> None:
    foreign, _ = new_project().add_network()
    with pytest.raises(NetworkNotFound):
        await network.resolve(caller, [{"network": foreign}])
    bare = project.neutron("POST", "/networks", json={"network": {"name": "bare"}})["network"]["id"]
    with pytest.raises(InvalidValue, match="no subnet"):
        await network.resolve(caller, [{"network": bare}])


async def test_a_port_of_others_on_ones_own_network_is_not_usable(
    network: KuryrNetwork, project: Project, caller: Caller, testbed: Testbed, new_project: Callable[..., Project]
) -> None:
    body = {"port": {"network_id": project.network_id, "project_id": new_project().id}}
    port = testbed.admin.call("network", "POST", "/v2.0/ports", json=body)["port"]["id"]
    with pytest.raises(PortNotUsable):
        await network.resolve(caller, [{"port": port}])
    testbed.admin.call("network", "DELETE", f"/v2.0/ports/{port}")


async def test_a_token_that_ended_is_told(network: KuryrNetwork, caller: Caller) -> None:
    with pytest.raises(Unauthorized):
        await network.resolve(dataclasses.replace(caller, token="no token"), [])


async def test_security_groups_by_name_and_id(network: KuryrNetwork, project: Project, caller: Caller) -> None:
    def make(name: str) -> str:
        body = {"security_group": {"name": name}}
        return str(project.neutron("POST", "/security-groups", json=body)["security_group"]["id"])

    one, two = make("one"), make("two")
    assert await network.security_groups(caller, ["two", one]) == [two, one]
    with pytest.raises(InvalidValue, match=r"^Security group none not found\.$"):
        await network.security_groups(caller, ["one", "none"])
    make("two")
    with pytest.raises(Conflict):
        await network.security_groups(caller, ["two"])


# -- ports -------------------------------------------------------------------------------------------


async def test_ports_are_found_again_by_another_process(
    make_network: Callable[..., KuryrNetwork], project: Project, testbed: Testbed
) -> None:
    row, asked = container(project), [RequestedNetwork(project.network_id)]
    first = await make_network().ensure_ports(row, asked)
    again = make_network()
    assert await again.ensure_ports(row, asked) == first
    assert len(testbed.ports(device_id=row.uuid)) == 1
    await again.release_ports(row.uuid)
    await again.release_ports(row.uuid)
    assert not testbed.ports(device_id=row.uuid)


async def test_a_port_made_twice_is_one_again(network: KuryrNetwork, project: Project, testbed: Testbed) -> None:
    row = container(project)
    for _ in range(2):
        body = {"port": {"network_id": project.network_id, "project_id": project.id, "device_id": row.uuid}}
        testbed.admin.call("network", "POST", "/v2.0/ports", json=body)
    [attachment] = await network.ensure_ports(row, [RequestedNetwork(project.network_id)])
    assert [port["id"] for port in testbed.ports(device_id=row.uuid)] == [attachment.port_id]
    await network.release_ports(row.uuid)


async def test_one_of_two_containers_gets_a_port(network: KuryrNetwork, project: Project, testbed: Testbed) -> None:
    port = project.neutron("POST", "/ports", json={"port": {"network_id": project.network_id}})["port"]
    before = testbed.port(port["id"])
    asked = [RequestedNetwork(project.network_id, port_id=port["id"], preserve_on_delete=True)]
    rows = [container(project), container(project)]
    results = await asyncio.gather(*(network.ensure_ports(row, asked) for row in rows), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["NetworkSetupFailed", "list"]
    winner = next(row for row, result in zip(rows, results, strict=True) if isinstance(result, list))
    loser = next(row for row in rows if row is not winner)
    await network.release_ports(loser.uuid)
    held = testbed.port(port["id"])
    assert held is not None
    assert held["device_id"] == winner.uuid
    await network.release_ports(winner.uuid)
    after = testbed.port(port["id"])
    assert before is not None
    assert after is not None
    volatile = {"revision_number", "updated_at", "binding:vif_details"}
    assert {k: v for k, v in after.items() if k not in volatile} == {
        k: v for k, v in before.items() if k not in volatile
    }


async def test_a_port_in_use_is_refused(network: KuryrNetwork, project: Project, caller: Caller) -> None:
    body = {"port": {"network_id": project.network_id, "name": "mine", "device_id": "something"}}
    project.neutron("POST", "/ports", json=body)
    with pytest.raises(PortInUse):
        await network.resolve(caller, [{"port": "mine"}])


async def test_a_quota_is_told_in_neutrons_words_and_nothing_is_left(
    network: KuryrNetwork, project: Project, testbed: Testbed
) -> None:
    second, _ = project.add_network()
    quota = f"/v2.0/quotas/{project.id}"
    held = len([port for port in testbed.ports() if port["project_id"] == project.id])
    testbed.admin.call("network", "PUT", quota, json={"quota": {"port": held + 1}})
    row = container(project)
    with pytest.raises(NetworkSetupFailed, match=r"Neutron refused a port: Quota exceeded for resources"):
        await network.ensure_ports(row, [RequestedNetwork(project.network_id), RequestedNetwork(second)])
    assert not testbed.ports(device_id=row.uuid)
    testbed.admin.call("network", "DELETE", quota)


async def test_an_agent_that_neutron_does_not_know_is_told(
    make_network: Callable[..., KuryrNetwork], project: Project, testbed: Testbed
) -> None:
    network, row = make_network("[DEFAULT]\n"), container(project)
    network._ports._host = "nowhere.example.org"
    with pytest.raises(NetworkSetupFailed, match=r"could not bind port .* on host nowhere\.example\.org"):
        await network.ensure_ports(row, [RequestedNetwork(project.network_id)])
    await network.release_ports(row.uuid)
    assert not testbed.ports(device_id=row.uuid)


async def test_neutron_away_is_told_by_its_name(make_network: Callable[..., KuryrNetwork], project: Project) -> None:
    network = make_network("[neutron_client]\nendpoint_override = http://127.0.0.1:1\n")
    for call in (network.resolve(caller_of(project), []), network.release_ports(str(uuid4()))):
        with pytest.raises(ServiceUnavailable, match="Neutron is not available"):
            await call


# -- security groups ---------------------------------------------------------------------------------


async def test_the_group_of_exposed_ports_is_finished_after_a_crash_and_goes_with_the_ports(
    network: KuryrNetwork, project: Project, testbed: Testbed
) -> None:
    row = container(project, exposed_ports={"80/tcp": {}, "53/udp": {}})
    first = await network.expose(row)
    assert first is not None
    [group] = testbed.security_groups(name=f"zun-{row.uuid}")
    assert [group["id"]] == first
    ingress = [rule for rule in group["security_group_rules"] if rule["direction"] == "ingress"]
    assert len(ingress) == 4
    testbed.admin.call("network", "DELETE", f"/v2.0/security-group-rules/{ingress[0]['id']}")
    assert await network.expose(row) == first
    [group] = testbed.security_groups(name=f"zun-{row.uuid}")
    assert len([rule for rule in group["security_group_rules"] if rule["direction"] == "ingress"]) == 4
    row = dataclasses.replace(row, security_groups=first)
    await network.ensure_ports(row, [RequestedNetwork(project.network_id)])
    [port] = testbed.ports(device_id=row.uuid)
    assert port["security_groups"] == first
    await network.release_ports(row.uuid)
    assert not testbed.ports(device_id=row.uuid)
    assert not testbed.security_groups(name=f"zun-{row.uuid}")


async def test_a_users_group_of_that_name_stays(network: KuryrNetwork, project: Project, testbed: Testbed) -> None:
    row = container(project)
    body = {"security_group": {"name": f"zun-{row.uuid}"}}
    made = project.neutron("POST", "/security-groups", json=body)["security_group"]["id"]
    await network.release_ports(row.uuid)
    assert [group["id"] for group in testbed.security_groups(name=f"zun-{row.uuid}")] == [made]


async def test_groups_come_and_go_on_every_port(network: KuryrNetwork, project: Project, testbed: Testbed) -> None:
    body = {"security_group": {"name": "more"}}
    group = project.neutron("POST", "/security-groups", json=body)["security_group"]["id"]
    row = container(project)
    await network.ensure_ports(row, [RequestedNetwork(project.network_id)])
    [port] = testbed.ports(device_id=row.uuid)
    before = port["security_groups"]
    await network.change_security_groups(row.uuid, add=[group])
    [port] = testbed.ports(device_id=row.uuid)
    assert set(port["security_groups"]) == {*before, group}
    await network.change_security_groups(row.uuid, remove=[group])
    [port] = testbed.ports(device_id=row.uuid)
    assert port["security_groups"] == before
    bare = {"port": {"port_security_enabled": False, "security_groups": []}}
    testbed.admin.call("network", "PUT", f"/v2.0/ports/{port['id']}", json=bare)
    with pytest.raises(SecurityGroupCannotBeApplied):
        await network.change_security_groups(row.uuid, add=[group])
    await network.release_ports(row.uuid)


# -- the engine's networks ---------------------------------------------------------------------------


async def test_many_at_once_make_one_engine_network_and_its_pool_goes_when_it_is_idle(
    network: KuryrNetwork, project: Project, testbed: Testbed
) -> None:
    rows = [container(project) for _ in range(10)]
    asked = [RequestedNetwork(project.network_id)]
    found = await asyncio.gather(*(network.ensure_ports(row, asked) for row in rows))
    assert len({attachment.address for [attachment] in found}) == len(rows)

    def pools() -> list[dict[str, Any]]:
        rows = testbed.admin.call("network", "GET", "/v2.0/subnetpools")["subnetpools"]
        return [row for row in rows if project.network_id in row["description"]]

    [pool] = pools()
    assert pool["name"] == f"kuryrPool-{project.cidr}"
    await asyncio.gather(*(network.release_ports(row.uuid) for row in rows))
    await network.collect_idle()
    await network.collect_idle()
    assert not pools()
    assert not await network.remove_network(project.network_id)


async def test_networks_of_the_engine_are_made_and_removed_ahead(network: KuryrNetwork, project: Project) -> None:
    assert await network.make_network(project.network_id) == project.network_id
    assert await network.remove_network(project.network_id)
    with pytest.raises(NetworkNotFound):
        await network.make_network(str(uuid4()))


async def test_a_subnet_added_later_is_known_once_the_engines_network_is_empty(
    network: KuryrNetwork, project: Project
) -> None:
    row, asked = container(project), [RequestedNetwork(project.network_id)]
    await network.ensure_ports(row, asked)
    await network.release_ports(row.uuid)
    project.add_subnet(project.network_id, ip_version=6, cidr="fd00:78::/64")
    found = await network.ensure_ports(row, asked)
    assert [attachment.version for attachment in found] == [4, 6]
    await network.release_ports(row.uuid)
    await network.remove_network(project.network_id)
