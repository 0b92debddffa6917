"""Sandboxes on a real containerd: what they have, and that one that cannot be made leaves nothing (S2.8, S2.16)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.support.containerd import Containerd
from tests.support.pods import CriBench
from tests.support.wait import eventually
from zun.domain.errors import SandboxFailed


def group(bench: CriBench, controller: str, capsule: str, name: str) -> str:
    return Path(f"/sys/fs/cgroup/{controller}{bench.engine.groups}/{capsule}/{name}").read_text().strip()


async def nothing_left(bench: CriBench) -> None:
    await eventually(bench.empty, 20, f"nothing is left of the sandbox, {bench.engine.leftovers()}")
    assert not await bench.pods.sandboxes()


async def test_unknown_handler_is_named_and_leaves_nothing(cri: CriBench) -> None:
    with pytest.raises(SandboxFailed, match='no runtime for "kata" is configured'):
        await cri.capsule(handler="kata")
    await nothing_left(cri)


async def test_handlers_of_the_engine_are_told(cri: CriBench) -> None:
    info = await cri.pods.info()
    assert (info.name, info.version[:1]) == ("containerd", "1")
    assert set(info.handlers) >= {"runc", "runsc"}


async def test_addresses_are_those_of_the_plug_in(cri: CriBench) -> None:
    capsule = await cri.capsule()
    box = await cri.box(capsule)
    assert len(box.addresses) == 1
    member = await cri.running(capsule)
    assert f"inet {box.addresses[0]}/" in await cri.sh(member, "ip addr show eth0")


async def test_refusal_of_the_plug_in_is_told_and_leaves_nothing(cri: CriBench) -> None:
    addresses = {"type": "host-local", "subnet": "192.0.2.0/30", "rangeStart": "192.0.2.2", "rangeEnd": "192.0.2.2"}
    cri.engine.use_network({"type": "ptp", "ipam": {**addresses, "dataDir": f"{cri.engine.root}/one"}})
    try:
        await eventually(lambda: _working(cri, "192.0.2.2"), 20, "the only address is given")
        first = await cri.capsule()
        with pytest.raises(SandboxFailed, match="no IP addresses available"):
            await cri.capsule()
        assert [one.uuid for one in await cri.pods.sandboxes()] == [first]
        await cri.pods.remove_sandbox(first)
        await nothing_left(cri)
    finally:
        cri.engine.use_network()
    await eventually(lambda: _working(cri, "100."), 20, "the network is there again")


async def test_engine_without_a_network_says_where_it_looks(cri: CriBench) -> None:
    cri.engine.use_network_file(None)
    try:
        await eventually(
            lambda: _failing(cri, f"NetworkReady is false.*{cri.engine.root}/net.d"), 20, "the hint is told"
        )
        await nothing_left(cri)
    finally:
        cri.engine.use_network()
    await eventually(lambda: _working(cri, "100."), 20, "the network is there again")


async def test_cancelled_making_leaves_nothing(cri: CriBench) -> None:
    for pause in (0.0, 0.02, 0.05, 0.1, 0.15):
        making = asyncio.create_task(cri.capsule())
        await asyncio.sleep(pause)
        if making.cancel():
            with pytest.raises(asyncio.CancelledError):
                await making
        else:  # it was made already
            await cri.pods.remove_sandbox(await making)
        await nothing_left(cri)


async def test_capsule_is_made_again_while_its_cancelled_making_is_undone(cri: CriBench) -> None:
    spec = cri.sandbox_spec()
    for _ in range(3):
        making = asyncio.create_task(cri.pods.run_sandbox(spec))
        await asyncio.sleep(0.03)
        making.cancel()
        await asyncio.sleep(0)
        making.cancel()
        await asyncio.wait({making})
    assert (await cri.pods.run_sandbox(spec)).ready
    assert [one.uuid for one in await cri.pods.sandboxes()] == [spec.uuid]
    await cri.running(spec.uuid)


async def test_the_same_call_many_times_at_once_is_one(cri: CriBench) -> None:
    spec = cri.sandbox_spec()
    boxes = await asyncio.gather(*(cri.pods.run_sandbox(spec) for _ in range(4)))
    assert len({one.sandbox_id for one in boxes}) == 1
    await cri.running(spec.uuid)
    others = CriBench(cri.engine)  # as of another process: the agent that was killed, and the next one
    try:
        await asyncio.gather(*(bench.pods.remove_sandbox(spec.uuid) for bench in (cri, others, cri, others)))
    finally:
        await others.pods.close()
    assert not await cri.pods.sandboxes()


async def test_sandbox_whose_shim_died_is_removed(cri: CriBench) -> None:
    capsule = await cri.capsule()
    members = [await cri.running(capsule), await cri.running(capsule, tty=True, stdin=True)]
    for shim in cri.engine.shims():
        shim.kill()
    await cri.pods.stop(members[0], 1)
    await cri.pods.remove_sandbox(capsule)
    await nothing_left(cri)


async def test_limits_hold_for_the_whole_capsule_and_go_with_it(cri: CriBench) -> None:
    capsule = await cri.capsule(cpu_millicores=250, memory_mib=48)
    assert group(cri, "cpu", capsule, "cpu.cfs_quota_us") == "25000"
    assert group(cri, "cpu", capsule, "cpu.shares") == "256"
    assert group(cri, "memory", capsule, "memory.limit_in_bytes") == str(48 << 20)
    # No limit of its own, and still it is killed.
    member = await cri.running(capsule, "tail", "/dev/zero")
    found = await cri.reaches(member, "exited", 60)
    assert (found.exit_code, found.oom_killed) == (137, True)
    await cri.pods.remove_sandbox(capsule)
    await nothing_left(cri)


async def test_capsule_grows_with_its_members(cri: CriBench) -> None:
    capsule = await cri.capsule(cpu_millicores=300, memory_mib=64)
    first = await cri.running(capsule, cpu_millicores=200, memory_mib=32)
    await cri.running(capsule, cpu_millicores=100, memory_mib=32)
    await cri.pods.update(first, cpu_millicores=500, memory_mib=96, swap_mib=0)
    assert group(cri, "cpu", capsule, "cpu.cfs_quota_us") == "60000"
    assert group(cri, "memory", capsule, "memory.limit_in_bytes") == str(128 << 20)
    assert await cri.sh(first, "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us") == "50000"
    assert await cri.sh(first, "cat /sys/fs/cgroup/memory/memory.limit_in_bytes") == str(96 << 20)


async def test_hostname_name_servers_and_ports_below_1024(cri: CriBench) -> None:
    capsule = await cri.capsule(hostname="web-1", name_servers=("192.0.2.53", "192.0.2.54"))
    member = await cri.running(capsule)
    assert await cri.sh(member, "hostname; echo $HOSTNAME; grep nameserver /etc/resolv.conf") == (
        "web-1\nweb-1\nnameserver 192.0.2.53\nnameserver 192.0.2.54"
    )
    assert await cri.sh(member, "cat /proc/sys/net/ipv4/ip_unprivileged_port_start") == "0"


async def test_hostname_is_never_the_nodes(cri: CriBench) -> None:
    capsule = await cri.capsule()
    assert await cri.sh(await cri.running(capsule), "hostname") == f"capsule-{capsule[:8]}"


async def test_labels_and_annotations_are_kept_and_ours_win(cri: CriBench) -> None:
    capsule = await cri.capsule(
        labels={"app": "shop", "org.openstack.zun.owner": "forged"}, annotations={"note": "with\nlines"}
    )
    box = await cri.box(capsule)
    assert box.owner == cri.owner
    told = cri.engine.inspect_sandbox(box.sandbox_id)
    assert told["labels"]["app"] == "shop"
    assert told["annotations"]["note"] == "with\nlines"


async def test_without_groups_of_ours_capsules_still_run(containerd: Containerd) -> None:
    bench = CriBench(containerd, cgroup_parent="")
    try:
        await bench.open()
        member = await bench.running(await bench.capsule(memory_mib=64), memory_mib=32, pids=20)
        assert await bench.sh(member, "cat /sys/fs/cgroup/memory/memory.limit_in_bytes") == str(32 << 20)
    finally:
        await bench.close()


async def _failing(bench: CriBench, words: str) -> bool:
    try:
        capsule = await bench.capsule()
    except SandboxFailed as error:
        return re.search(words, error.message) is not None
    await bench.pods.remove_sandbox(capsule)  # the engine has not read its configuration yet
    return False


async def _working(bench: CriBench, address: str) -> bool:
    try:
        box = await bench.box(await bench.capsule())
    except SandboxFailed:
        return False
    await bench.pods.remove_sandbox(box.uuid)
    return box.addresses[0].startswith(address)
