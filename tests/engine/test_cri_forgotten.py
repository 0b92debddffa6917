"""What a containerd that was killed has forgotten: ours is found and removed, nobody else's is ever touched."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.containerd import Containerd
from tests.support.pods import CriBench
from tests.support.wait import eventually
from zun.domain.errors import EngineUnreachable
from zun.runtime.cri.protocol import message
from zun.runtime.pods import Forgotten


async def forget(bench: CriBench, ident: str) -> None:
    """The engine, started anew, does not know a sandbox that runs on."""
    bench.engine.kill()
    bench.engine.start()
    await bench.pods._client.call("Containers.Delete", id=ident)
    bench.engine.kill()
    bench.engine.start()
    await eventually(lambda: _answers(bench), 20, "the engine is back")
    assert ident not in [row.id for row in (await bench.pods._client.call("ListPodSandbox")).items]


async def _answers(bench: CriBench) -> bool:
    try:
        await bench.pods.list()
    except EngineUnreachable:
        return False
    return True


async def test_sandbox_that_the_engine_forgot_is_told_and_ended_with_all_it_held(cri: CriBench) -> None:
    capsule, other = await cri.capsule(), await cri.capsule()
    member = await cri.running(other)
    ident = (await cri.box(capsule)).sandbox_id
    assert await cri.pods.forgotten() == []
    await forget(cri, ident)
    (shim,) = [one for one in await cri.pods.forgotten() if one.kind == "shim"]
    assert shim == Forgotten("shim", ident, capsule)
    assert await cri.pods.end_forgotten(shim)
    assert not await cri.pods.end_forgotten(Forgotten("namespace", "/nowhere"))
    assert not [line for line in cri.engine.leftovers() if ident in line or capsule in line]
    assert await cri.sh(member, "echo on") == "on"


async def test_removal_of_a_capsule_ends_what_the_engine_forgot_of_it(cri: CriBench) -> None:
    spec = cri.sandbox_spec()
    ident = (await cri.pods.run_sandbox(spec)).sandbox_id
    await forget(cri, ident)
    await cri.pods.remove_sandbox(spec.uuid)
    assert not [one for one in await cri.pods.forgotten() if one.kind == "shim"]
    assert (await cri.pods.run_sandbox(spec)).ready


async def test_bundle_that_nothing_works_in_and_nobody_has_a_record_of_is_removed(cri: CriBench) -> None:
    """Left half written where a shim was starting as containerd was killed; what is being made has its record first."""
    capsule = await cri.capsule()
    member = await cri.running(capsule)
    folder = cri.engine.root / "state/io.containerd.runtime.v2.task/k8s.io"
    names = (await cri.box(capsule)).sandbox_id, (await cri.seen(member)).engine_id
    assert sorted(one.name for one in folder.iterdir()) == sorted(names)
    left = folder / (uuid4().hex * 2)
    left.mkdir()
    (left / "address").write_text("unix:///nowhere")
    (found,) = await cri.pods.forgotten()
    assert found == Forgotten("shim", left.name)
    assert await cri.pods.end_forgotten(found)
    assert sorted(one.name for one in folder.iterdir()) == sorted(names)
    assert await cri.sh(member, "echo on") == "on"


async def test_member_starts_though_a_killed_engine_left_its_bundle_half_written(cri: CriBench) -> None:
    """containerd makes no second one beside it and starts the container never: its next attempt is another."""
    capsule = await cri.capsule()
    spec = cri.member_spec(capsule)
    made = await cri.pods.create(spec)
    left = cri.engine.root / "state/io.containerd.runtime.v2.task/k8s.io" / made
    cri.engine.kill()
    (left / "rootfs").mkdir(parents=True)
    cri.engine.start()
    await eventually(lambda: _answers(cri), 20, "the engine is back")
    assert left.exists()
    await cri.pods.start(spec.uuid)
    assert await cri.sh(spec.uuid, "echo on") == "on"
    assert not left.exists()


async def test_what_the_engine_has_is_not_ended(cri: CriBench) -> None:
    capsule = await cri.capsule()
    box = await cri.box(capsule)
    assert not await cri.pods.end_forgotten(Forgotten("shim", box.sandbox_id, capsule))
    assert (await cri.box(capsule)).ready


@pytest.fixture
async def foreign(cri: CriBench, tmp_path: Path) -> AsyncIterator[str]:
    """The id of a pod that another user of this engine runs."""
    logs = tmp_path / str(uuid4())
    logs.mkdir()
    config = message("PodSandboxConfig")(
        metadata={"name": "theirs", "uid": logs.name, "namespace": "zun"},
        log_directory=str(logs),
        linux={"cgroup_parent": f"{cri.engine.groups}/theirs"},
    )
    made = await cri.pods._client.call("RunPodSandbox", config=config)
    yield made.pod_sandbox_id
    for shim in cri.engine.shims():
        if made.pod_sandbox_id in shim.cmdline():
            for process in [*shim.children(recursive=True), shim]:
                process.kill()
    cri.engine.clean_after(made.pod_sandbox_id)


async def test_pod_of_another_is_never_touched(cri: CriBench, foreign: str) -> None:
    """Not even when the engine has forgotten it: neither told, nor ended, nor its namespace."""
    await forget(cri, foreign)
    assert await cri.pods.forgotten() == []
    assert next(shim for shim in cri.engine.shims() if foreign in shim.cmdline()).children()


@pytest.fixture
def namespaces(containerd: Containerd) -> Path:
    return containerd.root / "state" / "io.containerd.grpc.v1.cri" / "netns"


def mounted(folder: Path, *, interface: bool = False) -> Path:
    """A network namespace as containerd makes them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"cni-{uuid4()}"
    path.touch()
    script = "ip link add zunv0 type veth peer name zunv1" if interface else "true"
    subprocess.run(["unshare", f"--net={path}", "sh", "-c", script], check=True)
    return path


@pytest.fixture
def three(namespaces: Path) -> Iterator[tuple[Path, Path, Path]]:
    """Namespaces: with nothing in it, with an interface, with a process."""
    found = mounted(namespaces), mounted(namespaces, interface=True), mounted(namespaces)
    inhabitant = subprocess.Popen(["nsenter", f"--net={found[2]}", "sleep", "600"])
    yield found
    inhabitant.kill()
    inhabitant.wait()
    for path in found:
        if path.exists():
            subprocess.run(["umount", str(path)], check=False)
            path.unlink()


async def test_namespace_with_nothing_in_it_is_removed_when_the_engine_has_begun_anew(
    cri: CriBench, three: tuple[Path, Path, Path]
) -> None:
    empty = three[0]
    capsule = await cri.capsule()
    assert await cri.pods.forgotten() == [], "the engine may be making a sandbox with it"
    cri.engine.kill()
    cri.engine.start()
    await eventually(lambda: _answers(cri), 20, "the engine is back")
    (found,) = await cri.pods.forgotten()
    assert found == Forgotten("namespace", str(empty))
    assert await cri.pods.end_forgotten(found)
    assert [path.exists() for path in three] == [False, True, True]
    assert (await cri.box(capsule)).ready
    await cri.pods.remove_sandbox(capsule)


async def test_sandbox_that_cri_cannot_remove_goes_all_the_same_and_its_capsule_can_be_made_again(
    cri: CriBench,
) -> None:
    """As with a member whose end a killed containerd has missed: CRI lists both until it begins anew."""
    spec = cri.sandbox_spec()
    await cri.pods.run_sandbox(spec)
    member = cri.member_spec(spec.uuid)
    await cri.pods.create(member)
    await cri.pods.start(member.uuid)
    await cri.pods._client.call("Containers.Delete", id=(await cri.seen(member.uuid)).engine_id)
    await cri.pods.remove_sandbox(spec.uuid)
    assert not [one for one in await cri.pods.sandboxes() if one.uuid == spec.uuid]
    await eventually(cri.empty, 20, "nothing is left of it")
    assert (await cri.pods.run_sandbox(spec)).ready
    await cri.pods.create(member)
    await cri.pods.start(member.uuid)
    assert (await cri.seen(member.uuid)).state == "running"
    await cri.pods.remove_sandbox(spec.uuid)
    cri.engine.kill()
    cri.engine.start()
    await eventually(lambda: _answers(cri), 20, "the engine is back")
    assert not await cri.pods.list()
