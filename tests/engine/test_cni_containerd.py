"""Sandboxes of a real containerd, wired by the real CNI pair, on the embedded network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.cni import CniNode
from tests.support.cni_place import Place, capsule_row
from tests.support.containerd import Containerd
from tests.support.database import make_database
from tests.support.namespaces import devices, run
from tests.support.pods import CriBench
from tests.support.product import Product
from tests.support.subnets import SubnetClaim
from tests.support.wait import eventually
from zun import conf as zun_conf
from zun.domain.caller import Caller
from zun.domain.errors import SandboxFailed
from zun.domain.observed import Attachment
from zun.network.local import bridge_of
from zun.plumbing.routing import chain_of
from zun.runtime.pods import Sandbox
from zun.runtime.simulated import SimulatedRuntime

ADA = Caller(user_id="ada", project_id="blue")


@pytest.fixture(scope="module")
def subnets() -> Iterator[SubnetClaim]:
    claim = SubnetClaim()
    yield claim
    claim.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, subnets: SubnetClaim) -> Iterator[CniNode]:
    more = f"[local]\nsubnet_pool = {subnets.cidr}\nsubnet_prefix = 24\n"
    made = CniNode(tmp_path_factory.mktemp("cni"), more).install()
    yield made
    made.kill()


@pytest.fixture(scope="module")
def engine_of_pods(node: CniNode) -> Iterator[Containerd]:
    """Its configuration is what ``zun-cni-daemon install`` wrote."""
    made = Containerd(plugins=node.plugin.parent)
    try:
        done = node.run("install", "--bin-dir", str(node.plugin.parent), "--conf-dir", str(made.root / "net.d"))
        assert "10-test.conflist: remove it" in done.stderr
        (made.root / "net.d" / "10-test.conflist").unlink()
        yield made.start()
    finally:
        made.close()


class Rig:
    """Capsules of one test, as the node's agent makes them."""

    def __init__(self, place: Place, bench: CriBench) -> None:
        self.place = place
        self.bench = bench
        self.node = place.node

    async def ports(self) -> tuple[str, Attachment]:
        row = capsule_row(ADA)
        self.place.plugged.append((row.uuid, ""))
        [attachment] = await self.place.network.ensure_ports(row, await self.place.local.resolve(ADA, []))
        return row.uuid, attachment

    async def capsule(self) -> tuple[str, Attachment, Sandbox]:
        uuid, attachment = await self.ports()
        box = await self.bench.pods.run_sandbox(self.bench.sandbox_spec(uuid=uuid))
        return uuid, attachment, box

    def tap(self, attachment: Attachment) -> str:
        return f"tap{attachment.port_id[:11]}"


@pytest.fixture
async def rig(node: CniNode, engine_of_pods: Containerd, tmp_path: Path) -> AsyncIterator[Rig]:
    await asyncio.to_thread(node.start)
    conf = zun_conf.load(files=[str(node.conf_file)])
    conf.set_override("container_driver", "simulated")
    db = await make_database(tmp_path)
    place = Place(node, db, SimulatedRuntime(), conf)
    bench = CriBench(engine_of_pods)
    await bench.open()
    yield Rig(place, bench)
    await bench.close()
    bridge = bridge_of((await place.local.default_network("blue"))["uuid"])
    await place.empty()
    await db.close()
    assert await asyncio.to_thread(node.terminate) == 0
    assert bridge not in devices()
    assert chain_of(bridge) not in await asyncio.to_thread(run, "iptables-save")
    assert node.handovers.capsules() == frozenset()


async def test_the_sandbox_has_the_ports_address_and_mac(rig: Rig) -> None:
    uuid, attachment, box = await rig.capsule()
    assert box.ready
    assert list(box.addresses) == [attachment.address]
    member = await rig.bench.running(uuid)
    shown = await rig.bench.sh(member, "ip addr show eth0")
    assert f"inet {attachment.address}/24" in shown
    assert attachment.mac in shown
    row = await rig.place.local.default_network("blue")
    assert f"default via {row['gateway']} dev eth0" in await rig.bench.sh(member, "ip route")
    await rig.bench.pods.remove_sandbox(uuid)
    assert rig.tap(attachment) not in devices()


async def test_two_capsules_reach_each_other_by_tcp(rig: Rig) -> None:
    first, _, _ = await rig.capsule()
    second, attachment, _ = await rig.capsule()
    page = "mkdir /www; echo hello > /www/index.html; exec httpd -f -p 8000 -h /www"
    await rig.bench.running(second, "sh", "-c", page)
    member = await rig.bench.running(first)

    async def said() -> bool:
        ask = f"wget -qO- http://{attachment.address}:8000/ || true"
        return await rig.bench.sh(member, ask) == "hello"

    await eventually(said, 60, "TCP passes")


async def test_a_stopped_and_removed_sandbox_is_unplugged_twice_and_can_be_made_again(rig: Rig) -> None:
    uuid, attachment, former = await rig.capsule()
    await rig.bench.pods.stop_sandbox(uuid)
    assert rig.tap(attachment) not in devices()
    await rig.bench.pods.remove_sandbox(uuid)
    await eventually(lambda: rig.node.log().count(f"action=del capsule={uuid}") >= 2, 30, "both are in the log")
    [same] = await rig.place.network.ensure_ports(capsule_row(ADA, uuid=uuid), await rig.place.local.resolve(ADA, []))
    assert same.address == attachment.address
    again = await rig.bench.pods.run_sandbox(rig.bench.sandbox_spec(uuid=uuid))
    assert again.sandbox_id != former.sandbox_id
    assert list(again.addresses) == [attachment.address]


async def test_sandboxes_outlive_the_daemon_which_may_die_between_add_and_del(rig: Rig) -> None:
    uuid, attachment, _ = await rig.capsule()
    member = await rig.bench.running(uuid)
    await asyncio.to_thread(rig.node.kill)
    gateway = (await rig.place.local.default_network("blue"))["gateway"]
    assert " 0% packet loss" in await rig.bench.sh(member, f"ping -c 1 -W 20 {gateway}")
    other, waits = await rig.ports()
    making = asyncio.create_task(rig.bench.pods.run_sandbox(rig.bench.sandbox_spec(uuid=other)))
    await eventually(lambda: asyncio.to_thread(_called, rig.node), 60, "the plug-in waits for the daemon")
    await asyncio.to_thread(rig.node.start)
    assert list((await making).addresses) == [waits.address]
    await asyncio.to_thread(rig.node.kill)
    given_up, lost = await rig.ports()
    with (
        impatient(rig.node),
        pytest.raises(SandboxFailed, match=r"zun-cni-daemon at .*cni\.sock: .*Connection refused"),
    ):
        await rig.bench.pods.run_sandbox(rig.bench.sandbox_spec(uuid=given_up))
    await asyncio.to_thread(rig.node.start)
    box = await rig.bench.pods.run_sandbox(rig.bench.sandbox_spec(uuid=given_up))
    assert list(box.addresses) == [lost.address]
    for one in (uuid, other, given_up):
        await rig.bench.pods.remove_sandbox(one)
    assert not {rig.tap(attachment), rig.tap(waits), rig.tap(lost)} & devices()


def _called(node: CniNode) -> bool:
    """Has the engine started the plug-in, and is it there still?"""
    return any(str(node.plugin) in (process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))


@contextmanager
def impatient(node: CniNode) -> Iterator[None]:
    """Within the block the plug-in gives a daemon that is not there up at once."""
    text = node.plugin.read_text()
    node.impatient()
    try:
        yield
    finally:
        node.plugin.write_text(text)


async def test_the_engines_error_carries_the_daemons_words(rig: Rig) -> None:
    spec = rig.bench.sandbox_spec()
    with pytest.raises(SandboxFailed, match=f"This node has no interface data of capsule {spec.uuid}"):
        await rig.bench.pods.run_sandbox(spec)
    assert not [box for box in await rig.bench.pods.sandboxes() if box.uuid == spec.uuid]


async def test_many_at_once(rig: Rig) -> None:
    made = await asyncio.gather(*(rig.capsule() for _ in range(8)))
    assert all(list(box.addresses) == [attachment.address] for _, attachment, box in made)
    await asyncio.gather(*(rig.bench.pods.remove_sandbox(uuid) for uuid, _, _ in made))
    assert not {rig.tap(attachment) for _, attachment, _ in made} & devices()


async def test_a_product_of_one_process_is_its_own_daemon(product: Product) -> None:
    socket = Path(zun_conf.load(files=[str(product.state.conf_file)]).cni_daemon.socket)
    await eventually(socket.is_socket, 60, "it listens")
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(socket))) as http:
        assert (await http.get("http://node/healthz")).json() == {"status": "ok", "waiting": 0}
    await asyncio.to_thread(product.stop)
    assert not await asyncio.to_thread(socket.exists)
