"""Interface data on their way from the agent to the CNI daemon, and what the runtime is told of them."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from tests.support.database import make_database
from zun import conf as zun_conf
from zun import parts
from zun.cni.result import result
from zun.domain.clock import SystemClock
from zun.network.cni import CniNetwork
from zun.network.cni_local import LocalSource
from zun.network.cni_neutron import NeutronSource
from zun.network.local import LocalNetwork
from zun.plumbing.handover import Handover, HandoverBroken, Handovers
from zun.plumbing.vif import Route, Vif
from zun.runtime.simulated import SimulatedRuntime


def vif(capsule: str, number: int = 1, **more: Any) -> Vif:
    values: dict[str, Any] = {
        "port_id": str(uuid4()),
        "container": capsule,
        "owner": "cni/x",
        "mac": "fa:16:3e:00:00:01",
        "mtu": 1400,
        "switch": "ovs",
        "bridge": "br-int",
        "addresses": (f"10.0.{number}.5/24", f"fd0{number}::5/64"),
        "routes": (Route("0.0.0.0/0", f"10.0.{number}.1"), Route("::/0", "fe80::1")),
        "checksum_offload": False,
    }
    return Vif(**{**values, **more})


@pytest.fixture
def handovers(tmp_path: Path) -> Handovers:
    return Handovers(str(tmp_path / "state"))


def test_what_is_stored_is_read_and_is_roots_alone(handovers: Handovers) -> None:
    uuid = str(uuid4())
    stored = Handover(uuid, (vif(uuid), vif(uuid, 2, routes=())), awaited=True, name_servers=("192.0.2.53",))
    handovers.put(stored)
    handovers.put(stored)
    assert handovers.get(uuid) == stored
    assert handovers.capsules() == {uuid}
    [file] = (handovers.root / "capsules").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(handovers.root.stat().st_mode) == 0o700


def test_the_sandbox_is_noted_beside_it_and_all_of_it_goes(handovers: Handovers) -> None:
    uuid = str(uuid4())
    assert handovers.noted(uuid) is None
    assert handovers.capsules() == frozenset()
    handovers.note(uuid, "abc")
    assert handovers.noted(uuid) == "abc"
    assert handovers.capsules() == {uuid}
    handovers.put(Handover(uuid, (vif(uuid),)))
    for _ in range(2):
        handovers.remove(uuid)
        assert handovers.get(uuid) is None
        assert handovers.capsules() == frozenset()


@pytest.mark.parametrize("ident", ["", "..", "../../etc/passwd", "x" * 36, "a/b"])
def test_what_is_no_uuid_names_no_file(handovers: Handovers, ident: str) -> None:
    for call in (handovers.get, handovers.noted, handovers.remove, handovers.there):
        with pytest.raises(ValueError):
            call(ident)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"version": 1}',
        '{"version": 2, "capsule": "x"}',
        '{"version": 1, "capsule": "00000000000000000000000000000000", "awaited": 0, "name_servers": [], "vifs": [{}]}',
    ],
)
def test_what_is_no_interface_data_is_told_with_the_files_name(handovers: Handovers, text: str) -> None:
    uuid = str(uuid4())
    handovers.put(Handover(uuid, (vif(uuid),)))
    [file] = (handovers.root / "capsules").iterdir()
    file.write_text(text)
    with pytest.raises(HandoverBroken, match=uuid):
        handovers.get(uuid)


def test_a_write_that_fails_leaves_what_was_there(handovers: Handovers) -> None:
    uuid = str(uuid4())
    stored = Handover(uuid, (vif(uuid),))
    handovers.put(stored)
    with pytest.raises(TypeError):
        handovers.put(Handover(uuid, (vif(uuid, mac=cast("Any", object())),)))
    assert handovers.get(uuid) == stored
    assert len(list((handovers.root / "capsules").iterdir())) == 1


def test_two_state_directories_have_marks_of_their_own(tmp_path: Path) -> None:
    first, second = Handovers(str(tmp_path / "a")), Handovers(str(tmp_path / "b"))
    assert first.owner != second.owner
    assert first.owner == Handovers(str(tmp_path / "a")).owner
    assert " " not in first.owner


def test_the_result_names_interfaces_addresses_and_gateways_within_reach() -> None:
    uuid = str(uuid4())
    found = Handover(uuid, (vif(uuid), vif(uuid, 2, routes=())), name_servers=("192.0.2.53",))
    told = result("1.0.0", found, ["eth0", "eth1"], "/run/netns/x")
    assert json.loads(json.dumps(told)) == told
    assert [one.get("sandbox") for one in told["interfaces"]] == ["/run/netns/x"] * 2 + [None] * 2
    assert told["ips"] == [
        {"address": "10.0.1.5/24", "interface": 0, "gateway": "10.0.1.1"},
        {"address": "fd01::5/64", "interface": 0},
        {"address": "10.0.2.5/24", "interface": 1},
        {"address": "fd02::5/64", "interface": 1},
    ]
    assert told["routes"] == [{"dst": "0.0.0.0/0", "gw": "10.0.1.1"}, {"dst": "::/0", "gw": "fe80::1"}]
    older = result("0.4.0", found, ["eth0", "eth1"], "/run/netns/x")
    assert [ip["version"] for ip in older["ips"]] == ["4", "6", "4", "6"]


async def test_capsules_are_on_the_networks_that_containers_are_on(tmp_path: Path) -> None:
    db = await make_database(tmp_path)
    conf = zun_conf.load(files=[])
    conf.set_override("state_path", str(tmp_path))
    runtime, clock = SimulatedRuntime(), SystemClock()
    local = LocalNetwork(db, runtime, conf, clock)
    neutron = cast("Any", SimpleNamespace(neutron=None))

    def chosen(network: Any, openstack: Any = None) -> Any:
        found = parts._pod_network(conf, db, clock, runtime, openstack, network)
        return found._source if isinstance(found, CniNetwork) else found

    assert isinstance(chosen(local), LocalSource)
    assert isinstance(chosen(cast("Any", object()), neutron), NeutronSource)
    conf.set_override("capsule_driver", "docker")
    assert chosen(local) is local, "Docker plugs as it does for containers"
    await db.close()
