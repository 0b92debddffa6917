"""The CNI pair on real network namespaces and a Linux bridge: ADD, CHECK, DEL, and what they are when repeated."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cni import CniNode, path_of, sandbox_id
from tests.support.cni import vif as any_vif
from tests.support.namespaces import Namespace, devices, run
from tests.support.wait import wait_until
from zun.plumbing.vif import Route, Vif


@pytest.fixture
def node(tmp_path: Path) -> Iterator[CniNode]:
    made = CniNode(tmp_path / "node").install().start()
    yield made
    made.kill()


class Capsules:
    """Of one test, on its bridge; nothing of them is left at its end."""

    def __init__(self, node: CniNode, bridge: str) -> None:
        self.node = node
        self.bridge = bridge
        self.vifs: list[Vif] = []

    def vif(self, number: int, capsule: str = "", **more: object) -> Vif:
        made = any_vif(number, self.bridge, self.node.handovers.owner, capsule, **more)
        self.vifs.append(made)
        return made

    def taps(self) -> set[str]:
        return {vif.tap for vif in self.vifs} & devices()


@pytest.fixture
def capsules(node: CniNode, bridge: str) -> Iterator[Capsules]:
    made = Capsules(node, bridge)
    yield made
    left = made.taps()
    for tap in left:
        run("ip", "link", "del", tap, check=False)
    assert not left, f"left on the host: {left}"


def test_two_sandboxes_reach_each_other(node: CniNode, capsules: Capsules, namespaces: list[Namespace]) -> None:
    made = []
    for number, namespace in enumerate(namespaces, 1):
        one = capsules.vif(number)
        capsule, sandbox = node.hand_over([one], name_servers=("192.0.2.53",)), sandbox_id()
        found = node.add(capsule, sandbox, namespace).ok()
        assert found["cniVersion"] == "1.0.0"
        assert found["interfaces"] == [
            {"name": "eth0", "mac": one.mac, "sandbox": path_of(namespace)},
            {"name": one.tap},
        ]
        assert [ip["address"] for ip in found["ips"]] == list(one.addresses)
        assert all(ip["interface"] == 0 and "version" not in ip for ip in found["ips"])
        assert found["dns"] == {"nameservers": ["192.0.2.53"]}
        assert node.check(capsule, sandbox, namespace).text == ""
        made.append((capsule, sandbox, namespace))
    first, second = namespaces
    shown = first.ip("addr", "show", "eth0")
    assert "fa:16:3e:00:02:01" in shown
    assert "mtu 1400" in shown
    for address in ("10.94.0.2", "fd94::2"):
        assert first.pings(address)
        with second.serving(8000, "hello"):
            wait_until(lambda address=address: first.fetch(address, 8000) == "hello", 60, "TCP passes")  # type: ignore[misc]
    for capsule, sandbox, namespace in made:
        assert node.delete(capsule, sandbox, namespace).ok() is None
        assert "eth0" not in namespace.ip("link")


def test_cni_0_4_names_the_version_of_each_address(
    node: CniNode, capsules: Capsules, namespaces: list[Namespace]
) -> None:
    routes = (Route("0.0.0.0/0", "10.94.0.254"), Route("::/0", "fd94::fe"), Route("10.200.0.0/16", "10.94.0.253"))
    capsule, sandbox = node.hand_over([capsules.vif(1, routes=routes)]), sandbox_id()
    found = node.add(capsule, sandbox, namespaces[0], version="0.4.0").ok()
    assert found["cniVersion"] == "0.4.0"
    assert [(ip["version"], ip["gateway"]) for ip in found["ips"]] == [("4", "10.94.0.254"), ("6", "fd94::fe")]
    assert found["routes"] == [{"dst": route.destination, "gw": route.gateway} for route in routes]
    shown = namespaces[0].ip("route")
    assert "default via 10.94.0.254 dev eth0" in shown
    assert "10.200.0.0/16 via 10.94.0.253 dev eth0" in shown
    assert "default via fd94::fe dev eth0" in namespaces[0].ip("-6", "route")
    config = {**node.config("0.4.0"), "prevResult": found}
    assert node.check(capsule, sandbox, namespaces[0], version="0.4.0").ok() is None
    assert node.delete(capsule, sandbox, namespaces[0], version="0.4.0").ok() is None
    assert config["prevResult"]


def test_several_networks_are_served_by_one_add_in_the_order_asked(
    node: CniNode, capsules: Capsules, namespaces: list[Namespace]
) -> None:
    capsule = str(uuid.uuid4())
    vifs = [
        capsules.vif(1, capsule),
        capsules.vif(7, capsule, addresses=("10.95.7.7/24",), routes=(Route("0.0.0.0/0", "10.95.7.1"),)),
        capsules.vif(8, capsule, addresses=("10.96.8.8/24",), mtu=1300),
    ]
    sandbox = sandbox_id()
    node.hand_over(vifs)
    found = node.add(capsule, sandbox, namespaces[0]).ok()
    assert [one["name"] for one in found["interfaces"] if "sandbox" in one] == ["eth0", "eth1", "eth2"]
    assert [ip["interface"] for ip in found["ips"]] == [0, 0, 1, 2]
    for number, one in enumerate(vifs):
        shown = namespaces[0].ip("addr", "show", f"eth{number}")
        assert one.mac in shown
        assert one.addresses[0] in shown
        assert f"mtu {one.mtu}" in shown
    assert namespaces[0].ip("route").count("default via 10.95.7.1 dev eth1") == 1
    assert node.delete(capsule, sandbox, namespaces[0]).ok() is None


def test_add_and_del_may_be_repeated(node: CniNode, capsules: Capsules, namespaces: list[Namespace]) -> None:
    capsule, sandbox = node.hand_over([capsules.vif(1)]), sandbox_id()
    first = node.add(capsule, sandbox, namespaces[0]).ok()
    before = namespaces[0].ip("addr")
    assert node.add(capsule, sandbox, namespaces[0]).ok() == first
    assert namespaces[0].ip("addr") == before
    assert node.delete(capsule, sandbox, namespaces[0]).ok() is None
    assert not capsules.taps()
    assert node.delete(capsule, sandbox, namespaces[0]).ok() is None
    node.handovers.remove(capsule)
    assert node.delete(capsule, sandbox).ok() is None
    assert node.delete(str(uuid.uuid4()), sandbox_id()).ok() is None
    assert node.delete("", sandbox_id()).ok() is None


def test_del_finds_by_marks_what_has_no_interface_data_any_more(
    node: CniNode, capsules: Capsules, namespaces: list[Namespace]
) -> None:
    capsule, sandbox = node.hand_over([capsules.vif(1), capsules.vif(2)]), sandbox_id()
    node.add(capsule, sandbox, namespaces[0]).ok()
    node.handovers.remove(capsule)
    assert "no interface data" in node.check(capsule, sandbox, namespaces[0]).failed()
    namespaces[0].close()
    assert node.delete(capsule, sandbox).ok() is None


def test_a_late_del_of_a_former_sandbox_takes_nothing_from_the_present_one(
    node: CniNode, capsules: Capsules, namespaces: list[Namespace]
) -> None:
    capsule = node.hand_over([capsules.vif(1)])
    former, present = sandbox_id(), sandbox_id()
    node.add(capsule, former, namespaces[0]).ok()
    node.add(capsule, present, namespaces[1]).ok()
    assert "eth0" not in namespaces[0].ip("link")
    assert node.delete(capsule, former, namespaces[0]).ok() is None
    assert node.check(capsule, present, namespaces[1]).ok() is None
    assert "not in sandbox" in node.check(capsule, former, namespaces[0]).failed()
    assert node.delete(capsule, present, namespaces[1]).ok() is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["addr", "del", "10.94.0.1/24", "dev", "eth0"], "eth0 lacks address 10.94.0.1/24"),
        (["link", "set", "eth0", "mtu", "1280"], "MTU 1280 instead of 1400"),
        (["link", "set", "eth0", "address", "fa:16:3e:99:99:99"], "MAC fa:16:3e:99:99:99"),
        (["link", "set", "eth0", "down"], "eth0 is down"),
        (["route", "del", "default"], "lacks the route to 0.0.0.0/0 by 10.94.0.254"),
        (["link", "del", "eth0"], "is not in the namespace"),
    ],
)
def test_check_tells_what_was_changed_in_the_namespace(
    node: CniNode, capsules: Capsules, namespaces: list[Namespace], change: list[str], told: str
) -> None:
    routes = (Route("0.0.0.0/0", "10.94.0.254"),)
    capsule, sandbox = node.hand_over([capsules.vif(1, routes=routes)]), sandbox_id()
    node.add(capsule, sandbox, namespaces[0]).ok()
    namespaces[0].ip(*change)
    assert told in node.check(capsule, sandbox, namespaces[0]).failed()
    assert node.delete(capsule, sandbox, namespaces[0]).ok() is None


def test_check_tells_what_was_changed_on_the_host(
    node: CniNode, capsules: Capsules, namespaces: list[Namespace]
) -> None:
    one = capsules.vif(1)
    capsule, sandbox = node.hand_over([one]), sandbox_id()
    node.add(capsule, sandbox, namespaces[0]).ok()
    run("ip", "link", "set", one.tap, "nomaster")
    assert f"not a port of bridge {one.bridge}" in node.check(capsule, sandbox, namespaces[0]).failed()
    assert node.add(capsule, sandbox, namespaces[0]).ok(), "another ADD repairs it"
    assert node.check(capsule, sandbox, namespaces[0]).ok() is None
    assert node.delete(capsule, sandbox, namespaces[0]).ok() is None


def test_what_cannot_be_plugged_leaves_nothing(node: CniNode, capsules: Capsules, namespaces: list[Namespace]) -> None:
    capsule = str(uuid.uuid4())
    good = capsules.vif(1, capsule)
    bad = replace(capsules.vif(2, capsule), bridge="a-name-longer-than-devices-may-have")
    node.hand_over([good, bad])
    assert bad.port_id in node.add(capsule, sandbox_id(), namespaces[0]).failed()
    assert not capsules.taps()
    assert "eth0" not in namespaces[0].ip("link")


def test_interfaces_survive_the_daemon_and_the_next_one_goes_on(
    node: CniNode, capsules: Capsules, namespaces: list[Namespace]
) -> None:
    capsule, sandbox = node.hand_over([capsules.vif(1)]), sandbox_id()
    node.add(capsule, sandbox, namespaces[0]).ok()
    node.kill()
    before = namespaces[0].ip("addr")
    assert "zun-cni-daemon" in node.delete(capsule, sandbox, namespaces[0]).failed()
    node.start()
    assert namespaces[0].ip("addr") == before
    assert node.check(capsule, sandbox, namespaces[0]).ok() is None
    assert node.terminate() == 0
    node.start()
    assert node.check(capsule, sandbox, namespaces[0]).ok() is None
    assert node.delete(capsule, sandbox, namespaces[0]).ok() is None


@pytest.mark.parametrize("round_", range(6))
def test_a_daemon_killed_while_it_plugs_or_unplugs_leaves_what_the_next_one_finishes(
    node: CniNode, capsules: Capsules, namespaces: list[Namespace], round_: int
) -> None:
    capsule = str(uuid.uuid4())
    vifs = [capsules.vif(number, capsule) for number in range(1, 6)]
    sandbox = sandbox_id()
    node.hand_over(vifs)
    reached = [
        lambda: (node.handovers.noted(capsule)) is not None,
        lambda: len(capsules.taps()) >= 1,
        lambda: len(capsules.taps()) >= 3,
        lambda: "eth1" in namespaces[0].ip("link"),
    ]
    if round_ < 4:
        plugging = node.begin("ADD", capsule, sandbox, path_of(namespaces[0]))
        wait_until(reached[round_], 60, "it has come so far")
    else:
        node.add(capsule, sandbox, namespaces[0]).ok()
        plugging = node.begin("DEL", capsule, sandbox, path_of(namespaces[0]))
        wait_until(lambda: len(capsules.taps()) < (5 if round_ == 4 else 3), 60, "it has come so far")
    node.kill()
    plugging.communicate(timeout=120)
    node.start()
    found = node.add(capsule, sandbox, namespaces[0]).ok()
    assert len(found["ips"]) == 10
    assert node.check(capsule, sandbox, namespaces[0]).ok() is None
    assert node.delete(capsule, sandbox, namespaces[0]).ok() is None


def test_twenty_at_once(node: CniNode, capsules: Capsules) -> None:
    namespaces = [Namespace() for _ in range(20)]
    try:
        begun = []
        for number, namespace in enumerate(namespaces, 1):
            capsule, sandbox = node.hand_over([capsules.vif(number)]), sandbox_id()
            begun.append((capsule, sandbox, namespace, node.begin("ADD", capsule, sandbox, path_of(namespace))))
        for *_, process in begun:
            out, _ = process.communicate(timeout=60)
            assert process.returncode == 0, out
        assert namespaces[0].pings("10.94.0.20")
        for capsule, sandbox, namespace, _ in begun:
            assert node.delete(capsule, sandbox, namespace).ok() is None
    finally:
        for namespace in namespaces:
            namespace.close()
