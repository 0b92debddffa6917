"""What one container costs Neutron and the switch, in calls: nothing is asked that is known, nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cloud.test_network_neutron import container
from tests.cloud.test_network_neutron import db as db
from tests.support.namespaces import OVS_DATABASE, devices, ovs_ports
from tests.support.testbed import MACHINE, OWN_ACCOUNT, Testbed
from tests.support.testbed_project import Project
from zun import conf as zun_conf
from zun.domain.clock import SystemClock
from zun.domain.container import RequestedNetwork
from zun.network.direct import DirectNetwork
from zun.openstack.cloud import OpenStack
from zun.plumbing import links
from zun.plumbing.ovs import OpenVSwitch
from zun.store.database import Database

_CONF = f"""
{OWN_ACCOUNT}
[neutron]
agent_host = {MACHINE}
[network]
driver = direct
ovsdb_connection = {OVS_DATABASE}
"""


class Counted:
    """A direct network whose calls of Neutron and commands of the switch are noted."""

    def __init__(self, conf: Any, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cloud = OpenStack(conf)
        self.network = DirectNetwork(self.cloud.neutron, db, conf, SystemClock(), "counted")
        self._calls: list[str] = []
        self._commands: list[str] = []
        request, run = self.cloud.neutron.request, OpenVSwitch._run

        async def noted_request(method: str, path: str, **more: Any) -> Any:
            names = " ".join(sorted({str(name) for name, _ in more.get("params") or ()}))
            self._calls.append(f"{method} {path.rpartition('/')[2] if method != 'DELETE' else 'port'} {names}".strip())
            return await request(method, path, **more)

        async def noted_run(switch: OpenVSwitch, arguments: Any) -> str:
            self._commands.append(next(word for word in arguments if not word.startswith("-")))
            return await run(switch, arguments)

        monkeypatch.setattr(self.cloud.neutron, "request", noted_request)
        monkeypatch.setattr(OpenVSwitch, "_run", noted_run)

    def calls(self) -> list[str]:
        """Of Neutron since the last look."""
        seen, self._calls = sorted(self._calls), []
        return seen

    def commands(self) -> list[str]:
        """Of the switch since the last look."""
        seen, self._commands = self._commands, []
        return seen


@pytest.fixture
async def counted(tmp_path: Path, db: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Counted]:
    (tmp_path / "zun.conf").write_text(_CONF)
    made = Counted(zun_conf.load(files=[str(tmp_path / "zun.conf")]), db, monkeypatch)
    yield made
    await made.network.close()
    await made.cloud.close()


async def test_a_container_costs_three_calls_and_two_commands(
    counted: Counted, project: Project, testbed: Testbed
) -> None:
    """One port made; later its list and its end."""
    asked = [RequestedNetwork(project.network_id)]
    first, second = container(project), container(project)
    [attachment] = await counted.network.ensure_ports(first, asked, new=True)
    assert counted.calls() == ["GET networks id", "GET subnets network_id", "POST ports"], "the network is new to it"
    assert counted.commands() == ["add-port"]
    await counted.network.ensure_ports(second, asked, new=True)
    assert counted.calls() == ["POST ports"]
    assert await counted.network.ensure_ports(first, asked) == [attachment]
    assert counted.calls() == ["GET ports device_id"], "a later try looks, and finds"
    tap = f"tap{attachment.port_id[:11]}"
    assert tap in ovs_ports("br-int")
    counted.commands()
    for one in (first, second):
        await counted.network.release_ports(one.uuid, exposed=False)
        assert counted.calls() == ["DELETE port", "GET ports device_id"]
        assert counted.commands() == ["del-port"]
    assert testbed.ports(project_id=project.id) == []
    assert tap not in ovs_ports("br-int")
    assert tap not in devices()
    await counted.network.release_ports(first.uuid)
    assert counted.calls() == ["GET ports device_id", "GET security-groups name"], "nothing is known of it any more"


async def test_a_port_left_on_the_switch_gives_way_to_the_new_device(counted: Counted, project: Project) -> None:
    """Only then there is a command more."""
    one, asked = container(project), [RequestedNetwork(project.network_id)]
    [attachment] = await counted.network.ensure_ports(one, asked, new=True)
    [vif] = counted.network._vifs[one.uuid]
    await asyncio.to_thread(links.remove_pair, vif.tap)
    counted.commands()
    await counted.network.ensure_ports(one, asked)
    assert counted.commands() == ["add-port", "del-port", "add-port"]
    assert f"tap{attachment.port_id[:11]}" in ovs_ports("br-int")
    await counted.network.release_ports(one.uuid)
