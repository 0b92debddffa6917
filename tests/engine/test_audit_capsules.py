"""``zun-manage audit`` on a product with a real containerd: sandboxes, what the engine forgot, devices, namespaces."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.engine.test_audit import audit, forget
from tests.support.capsule_cloud import CapsuleCloud
from tests.support.engine import OWNER_LABEL, Engine
from tests.support.namespaces import devices, run
from tests.support.wait import wait_until
from zun.runtime.cri.adapter import CriPods
from zun.runtime.cri.facts import PART_LABEL, SANDBOX
from zun.runtime.cri.protocol import message
from zun.runtime.docker_facts import UUID_LABEL

pytestmark = [pytest.mark.xdist_group("capsules"), pytest.mark.timeout(600)]


@pytest.fixture
def cloud(tmp_path: Path, engine: Engine) -> Iterator[CapsuleCloud]:
    """Of a product that looks for leftovers so seldom that the audit has to."""
    made = CapsuleCloud(tmp_path, engine)
    made.product.conf(
        DEFAULT={"sync_container_state_interval": "-1"},
        compute={"reaper_interval": "600", "orphan_grace_seconds": "3600"},
    )
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture
def foreign_sandbox(cloud: CapsuleCloud) -> Iterator[str]:
    """Another deployment's, in the same engine, labelled as ours are."""
    uuid = str(uuid4())
    logs = cloud.containerd.logs / uuid
    logs.mkdir()
    config = message("PodSandboxConfig")(
        metadata={"name": "theirs", "uid": uuid, "namespace": "zun"},
        labels={UUID_LABEL: uuid, PART_LABEL: SANDBOX, OWNER_LABEL: f"{uuid4()}/somewhere"},
        log_directory=str(logs),
        linux={
            "cgroup_parent": f"{cloud.containerd.groups}/theirs",
            "security_context": {"namespace_options": {"network": 2}},
        },
    )

    async def make(pods: CriPods) -> str:
        return str((await pods._client.call("RunPodSandbox", config=config)).pod_sandbox_id)

    made = cloud._crictl(make)
    yield made
    cloud._crictl(lambda pods: pods.remove_sandbox(uuid))


@pytest.fixture
def foreign_pair() -> Iterator[str]:
    """Devices of another's, marked as ours are."""
    name = f"zt{uuid4().hex[:8]}"
    run("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p")
    run("ip", "link", "set", name, "alias", f"zun {uuid4()}/somewhere {uuid4()} {uuid4()}")
    yield name
    run("ip", "link", "del", name, check=False)


def namespaces(cloud: CapsuleCloud) -> tuple[Path, Path]:
    """As containerd makes them: one with nothing in it, one with an interface."""
    folder = cloud.containerd.root / "state" / "io.containerd.grpc.v1.cri" / "netns"
    found = []
    for script in ("true", "ip link add zunv0 type veth peer name zunv1"):
        path = folder / f"cni-{uuid4()}"
        path.touch()
        subprocess.run(["unshare", f"--net={path}", "sh", "-c", script], check=True)
        found.append(path)
    return found[0], found[1]


def begin_anew(cloud: CapsuleCloud) -> None:
    cloud.containerd.kill()
    cloud.containerd.start()


def make_engine_forget(cloud: CapsuleCloud, sandbox: str) -> None:
    """It runs on, and the engine does not know it."""
    begin_anew(cloud)
    cloud._crictl(lambda pods: pods._client.call("Containers.Delete", id=sandbox))
    begin_anew(cloud)


def test_what_no_record_claims_is_told_and_removed_and_all_else_stays(
    cloud: CapsuleCloud, foreign_sandbox: str, foreign_pair: str
) -> None:
    product = cloud.product
    kept, lost, forgotten = cloud.create({}, name="kept"), cloud.create({}, name="lost"), cloud.create({}, name="gone")
    for uuid in (kept, lost, forgotten):
        cloud.wait(uuid, "Running")
    member = cloud.show(forgotten)["containers"][0]["uuid"]
    shim = cloud._crictl(lambda pods: pods.sandbox(forgotten)).sandbox_id
    assert audit(product, "--heal", "--grace", "0", code=0)["findings"] == []
    product.terminate()
    empty, lively = namespaces(cloud)
    make_engine_forget(cloud, shim)
    for uuid in (lost, forgotten):
        forget(product, uuid)
    wait_until(lambda: cloud.has_ready_sandbox(kept), 30, "the engine is back")
    seen = audit(product, code=1)
    kinds = {(one["kind"], one["container"]) for one in seen["findings"]}
    both = {(kind, uuid) for kind in ("interface", "port", "allocation") for uuid in (lost, forgotten)}
    assert kinds == both | {
        ("sandbox", lost),
        ("member", member),
        ("shim", forgotten),
        ("network_namespace", ""),
    }
    healed = audit(product, "--heal", "--grace", "0", code=0)
    assert {one["state"] for one in healed["findings"]} == {"removed"}
    assert not empty.exists()
    assert lively.exists()
    assert audit(product, code=0)["findings"] == []
    subprocess.run(["umount", str(lively)], check=True)
    lively.unlink()
    assert cloud.sandboxes() == sorted([kept, *_uuids(cloud, foreign_sandbox)])
    assert foreign_pair in devices()
    product.start()
    cloud.wait(kept, "Running")
    cloud.delete(kept)
    product.terminate()  # quota that lost records counted is nobody's to give back


def _uuids(cloud: CapsuleCloud, sandbox: str) -> list[str]:
    """Of the capsule, where the sandbox is ready."""

    async def ask(pods: CriPods) -> list[str]:
        return [one.uuid for one in await pods.sandboxes() if one.sandbox_id == sandbox and one.ready]

    return list(cloud._crictl(ask))
