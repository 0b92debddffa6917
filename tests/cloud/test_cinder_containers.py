"""Containers with volumes of Cinder, the product as processes beside the testbed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import cinder_node as rig
from tests.support import signatures
from tests.support.cloud_product import CloudProduct
from tests.support.engine import Engine
from tests.support.tcp_proxy import TcpProxy, tcp_proxy
from tests.support.testbed import PORTS, Testbed
from tests.support.testbed_project import Project
from tests.support.wait import wait_until

pytestmark = pytest.mark.cloud


@pytest.fixture(scope="module")
def cinder_proxy() -> Iterator[TcpProxy]:
    with tcp_proxy(PORTS["Cinder"]) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def beside(
    tmp_path_factory: pytest.TempPathFactory, testbed: Testbed, engine: Engine, cinder_proxy: TcpProxy
) -> Iterator[CloudProduct]:
    """Cinder is what is tested: networks and Placement are the embedded ones."""
    product = CloudProduct(tmp_path_factory.mktemp("cinder") / "cloud", testbed, engine)
    product.conf(
        network={"driver": "local"},
        placement={"driver": "local"},
        cinder_client={"endpoint_override": f"{cinder_proxy.url}/v3", "timeout": 5},
        volume={"timeout_wait_volume_available": 5},
        compute={"abandoned_volume_seconds": 2, "reaper_interval": 1},
    )
    try:
        yield product.start()
    finally:
        product.close()


@pytest.fixture
def owner(testbed: Testbed, beside: CloudProduct) -> Iterator[Project]:
    """A project whose containers and volumes are gone after the test."""
    project = Project(testbed)
    yield project
    beside.clear()
    held = [one for volume in testbed.volumes(project_id=project.id) for one in rig.attachments(testbed, volume["id"])]
    devices = [one for volume in testbed.volumes(project_id=project.id) for one in rig.loops(volume["id"])]
    project.remove()
    assert (held, devices) == ([], [])


@pytest.fixture
def ask(beside: CloudProduct, owner: Project) -> Callable[..., httpx.Response]:
    """A create request of the project's user."""
    http = beside.http(owner.account)

    def create(mount: dict[str, Any], **body: Any) -> httpx.Response:
        wanted = {"image": beside.image, "command": ["sleep", "600"], "cpu": 0.1, "memory": "32"}
        mounts = [{"destination": "/data", **mount}]
        return http.post("/v1/containers?run=true", json={**wanted, "mounts": mounts, **body})

    return create


@pytest.fixture
def create(ask: Callable[..., httpx.Response], beside: CloudProduct, owner: Project) -> Callable[..., dict[str, Any]]:
    """A container as it ends: ``Running``, or what else is wanted."""

    def made(mount: dict[str, Any], wanted: str = "Running", **body: Any) -> dict[str, Any]:
        answer = ask(mount, **body)
        assert answer.status_code == 202, answer.text
        return wait(beside, owner, answer.json()["uuid"], wanted)

    return made


def wait(beside: CloudProduct, owner: Project, uuid: str, wanted: str) -> dict[str, Any]:
    http = beside.http(owner.account)

    def settled() -> dict[str, Any] | None:
        row = http.get(f"/v1/containers/{uuid}").json()
        assert row["status"] == wanted or row["status"] != "Error", row
        return dict(row) if row["status"] == wanted and row["task_state"] is None else None

    return wait_until(settled, 90, f"{uuid} is {wanted}") or {}


def delete(beside: CloudProduct, owner: Project, uuid: str) -> None:
    http = beside.http(owner.account)
    assert http.delete(f"/v1/containers/{uuid}?stop=true").status_code == 204
    wait_until(lambda: http.get(f"/v1/containers/{uuid}").status_code == 404, 90, f"{uuid} is gone")


def inside(uuid: str, *command: str) -> str:
    done = subprocess.run(["docker", "exec", f"zun-{uuid}", *command], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def docker(*command: str) -> None:
    subprocess.run(["docker", *command], check=True, capture_output=True)


def test_a_volume_made_for_the_mount_s1_8_s3_9(
    create: Callable[..., dict[str, Any]], beside: CloudProduct, owner: Project, testbed: Testbed
) -> None:
    row = create({"size": "1"})
    (volume,) = testbed.volumes(project_id=owner.id)
    assert (volume["status"], volume["attachments"][0]["server_id"]) == ("in-use", row["uuid"])
    inside(row["uuid"], "sh", "-c", "echo data >/data/kept")
    assert inside(row["uuid"], "cat", "/data/kept") == "data"
    delete(beside, owner, row["uuid"])
    assert testbed.volumes(project_id=owner.id) == []
    assert beside.mounts() == []


def test_a_users_volume_keeps_its_data_s1_18_s3_8(
    create: Callable[..., dict[str, Any]], beside: CloudProduct, owner: Project, testbed: Testbed, tmp_path: Path
) -> None:
    volume = rig.make_volume(owner, "mine")
    signatures.make_filesystem(rig.volume_file(volume), "xfs", tmp_path, "kept")
    row = create({"source": "mine"})
    assert inside(row["uuid"], "cat", "/data/kept") == "data"
    inside(row["uuid"], "sh", "-c", "echo more >/data/more")
    delete(beside, owner, row["uuid"])
    assert (testbed.volume(volume) or {})["status"] == "available"
    row = create({"source": volume})
    assert inside(row["uuid"], "cat", "/data/more") == "more"
    delete(beside, owner, row["uuid"])


def test_a_volume_that_does_not_become_available_s1_27(
    create: Callable[..., dict[str, Any]], owner: Project, testbed: Testbed, beside: CloudProduct
) -> None:
    volume = rig.make_volume(owner)
    rig.set_status(testbed, volume, "creating")
    row = create({"source": volume}, "Error")
    assert row["status_reason"] == "Volumes did not reach available status after 5 seconds"
    assert beside.engine.container(row["uuid"]) is None
    rig.set_status(testbed, volume, "available")


def test_a_volume_with_something_else_on_it_is_refused_untouched(
    create: Callable[..., dict[str, Any]], owner: Project, testbed: Testbed
) -> None:
    volume = rig.make_volume(owner)
    signatures.KINDS["LUKS"](rig.volume_file(volume))
    before = signatures.digest(rig.volume_file(volume))
    row = create({"source": volume}, "Error")
    assert f"Volume {volume} could not be attached: " in row["status_reason"]
    assert "crypto_LUKS" in row["status_reason"]
    assert signatures.digest(rig.volume_file(volume)) == before
    assert (testbed.volume(volume) or {})["status"] == "available"


def test_what_is_refused_at_once(
    ask: Callable[..., httpx.Response], create: Callable[..., dict[str, Any]], owner: Project, testbed: Testbed
) -> None:
    for _ in range(2):
        rig.make_volume(owner, "twin")
    used = rig.make_volume(owner, "used")
    create({"source": used})
    for mount, status, code in (
        ({"source": "nonsense"}, 404, "container.volume-not-found"),
        ({"source": "twin"}, 409, "container.conflict"),
        ({"source": used}, 400, "container.volume-in-use"),
        ({"size": "5000"}, 400, "container.volume-create-failed"),
    ):
        answer = ask(mount)
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (status, code), answer.text


def test_a_request_that_fails_takes_its_volume_back_s1_8(
    ask: Callable[..., httpx.Response], owner: Project, testbed: Testbed
) -> None:
    answer = ask({"size": "1"}, mounts=[{"size": "1", "destination": "/a"}, {"size": "5000", "destination": "/b"}])
    assert answer.status_code == 400
    wait_until(lambda: not testbed.volumes(project_id=owner.id), 60, "no volume is left")


def test_mounted_again_before_a_start(
    create: Callable[..., dict[str, Any]], beside: CloudProduct, owner: Project
) -> None:
    volume = rig.make_volume(owner)
    uuid = create({"source": volume})["uuid"]
    inside(uuid, "sh", "-c", "echo data >/data/kept")
    http = beside.http(owner.account)
    assert http.post(f"/v1/containers/{uuid}/stop").status_code == 202
    wait(beside, owner, uuid, "Stopped")
    rig.reboot(volume, beside.mounts()[0])
    assert http.post(f"/v1/containers/{uuid}/start").status_code == 202
    wait(beside, owner, uuid, "Running")
    assert inside(uuid, "cat", "/data/kept") == "data"


def test_a_container_that_its_engine_started_without_its_volume(
    create: Callable[..., dict[str, Any]], beside: CloudProduct, owner: Project
) -> None:
    """As after a reboot of the machine, where Docker is faster than the agent."""
    volume = rig.make_volume(owner)
    uuid = create({"source": volume})["uuid"]
    inside(uuid, "sh", "-c", "echo data >/data/kept")
    beside.node.terminate()
    docker("stop", "-t", "0", f"zun-{uuid}")
    rig.reboot(volume, beside.mounts()[0])
    docker("start", f"zun-{uuid}")
    assert inside(uuid, "sh", "-c", "touch /data/lost 2>&1 || true; ls /data | grep -c kept || true").endswith("0")
    beside.restart(beside.node)
    wait_until(lambda: beside.mounts(), 60, "the volume is mounted again")
    wait(beside, owner, uuid, "Running")
    assert inside(uuid, "cat", "/data/kept") == "data"
    assert inside(uuid, "ls", "/data").split().count("lost") == 0


# -- Cinder at fault ---------------------------------------------------------------------------------


@pytest.fixture
def mended(cinder_proxy: TcpProxy, owner: Project) -> Iterator[TcpProxy]:
    """The proxy; in order again before the containers are deleted."""
    yield cinder_proxy
    cinder_proxy.mode("pass")


@pytest.mark.parametrize("mode", ["refuse", "hang", "500"])
def test_a_request_while_cinder_is_away(ask: Callable[..., httpx.Response], mended: TcpProxy, mode: str) -> None:
    mended.mode(mode)
    answer = ask({"source": "mine"})
    assert (answer.status_code, "Cinder is not available" in answer.text) == (503, True), answer.text


@pytest.mark.parametrize("only", ["PUT .*/attachments/", "POST .*/attachments/.*/action"])
def test_a_create_ends_in_error_and_holds_nothing(
    create: Callable[..., dict[str, Any]], mended: TcpProxy, owner: Project, testbed: Testbed, only: str
) -> None:
    volume = rig.make_volume(owner)
    mended.mode("500", only)
    row = create({"source": volume}, "Error")
    assert row["status_reason"].startswith("Cinder is not available: it answered 500")
    wait_until(lambda: (testbed.volume(volume) or {})["status"] == "available", 60, "the volume is given back")
    assert (rig.attachments(testbed, volume), rig.loops(volume)) == ([], [])


def test_a_fault_that_passes_is_not_noticed(
    ask: Callable[..., httpx.Response], mended: TcpProxy, owner: Project, beside: CloudProduct
) -> None:
    volume = rig.make_volume(owner)
    mended.mode("500", "PUT .*/attachments/")
    answer = ask({"source": volume})
    assert answer.status_code == 202
    wait_until(lambda: mended.count("PUT .*/attachments/") >= 2, 60, "it is asked")
    mended.mode("pass")
    wait(beside, owner, answer.json()["uuid"], "Running")


def test_a_delete_waits_for_cinder(
    create: Callable[..., dict[str, Any]], mended: TcpProxy, owner: Project, beside: CloudProduct, testbed: Testbed
) -> None:
    volume = rig.make_volume(owner)
    uuid = create({"source": volume})["uuid"]
    mended.mode("refuse")
    http = beside.http(owner.account)
    assert http.delete(f"/v1/containers/{uuid}?stop=true").status_code == 204
    wait_until(lambda: beside.engine.container(uuid) is None, 60, "its engine container is gone")
    assert http.get(f"/v1/containers/{uuid}").json()["status"] == "Deleting"
    mended.mode("pass")
    wait_until(lambda: http.get(f"/v1/containers/{uuid}").status_code == 404, 90, f"{uuid} is gone")
    assert (testbed.volume(volume) or {})["status"] == "available"
