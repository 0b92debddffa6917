"""Creating containers: the object that is answered, and what is recorded and claimed (S1.1–S1.15, contract §10.1)."""

from __future__ import annotations

import base64

from tests.support.containers import Plane
from zun.domain.resources import DISK_GB, MEMORY_MB, VCPU
from zun.store import volume_mappings as volume_mapping_store
from zun.store.tables import local_volumes, volume_mappings

URL = "/v1/containers"


async def test_minimal_create_answers_as_the_contract_shows(plane: Plane) -> None:
    """S1.3, S1.7, S1.15."""
    answer = await plane.client().post(URL, json={"image": "cirros"})
    body = answer.json()
    uuid = body["uuid"]
    assert answer.status_code == 202
    assert answer.headers["location"] == f"http://localhost/v1/containers/{uuid}"
    assert body.pop("created_at")
    assert body.pop("name").endswith("-container")
    assert body == {
        "uuid": uuid,
        "links": [
            {"href": f"http://localhost/v1/containers/{uuid}", "rel": "self"},
            {"href": f"http://localhost/containers/{uuid}", "rel": "bookmark"},
        ],
        "project_id": "proj1", "user_id": "user1", "image": "cirros", "cpu": 1.0, "cpu_policy": "shared",
        "memory": "512", "command": None, "status": "Creating", "status_reason": None,
        "task_state": "container_creating", "environment": None, "workdir": None, "auto_remove": False, "ports": None,
        "hostname": None, "labels": None, "addresses": None, "restart_policy": None, "status_detail": None,
        "interactive": False, "tty": False, "image_driver": "docker", "security_groups": None, "disk": 0,
        "auto_heal": False, "healthcheck": None, "registry_id": None, "entrypoint": None, "updated_at": None,
    }  # fmt: skip


async def test_claim_is_taken_before_the_operation_is_left_for_the_node(plane: Plane) -> None:
    """S1.2, S1.12, S1.14, S1.19."""
    made = await plane.create(plane.client(), None, cpu=0.5, memory=100)
    assert await plane.api.control.placement.allocation(made["uuid"]) == {VCPU: 1, MEMORY_MB: 100}
    (operation,) = await plane.operations(made["uuid"])
    assert (operation.kind, operation.host, dict(operation.params)) == ("create", "node1", {"run": True})
    assert plane.bus.rings == ["node1"]
    row = await plane.row(made["uuid"])
    assert row is not None
    assert row.host == "node1"
    assert await plane.usage() == {"containers": 1, "memory": 100, "disk": 0, "cpu": 500}


async def test_full_create_keeps_every_value(plane: Plane) -> None:
    body = {
        "image": "cirros:latest", "name": "c-run", "command": ["sleep", 1], "interactive": True, "tty": "True",
        "cpu": "0.5", "memory": "256", "environment": {"A": "b"}, "labels": {"x": 1}, "workdir": "/",
        "restart_policy": {"Name": "on-failure", "MaximumRetryCount": 2}, "hostname": "hh", "disk": 5,
        "availability_zone": "nova", "hints": {"a": "b"}, "auto_heal": True,
        "healthcheck": {"cmd": "ls", "interval": 3, "retries": 2, "timeout": 4}, "entrypoint": ["/bin/sh"],
    }  # fmt: skip
    made = await plane.create(plane.client(), None, **body)
    shown = (await plane.client().get(f"{URL}/c-run")).json()
    assert shown["command"] == ["sleep", "1"]
    assert shown["labels"] == {"x": "1"}
    assert shown["restart_policy"] == {"Name": "on-failure", "MaximumRetryCount": "2"}
    assert shown["healthcheck"] == {"interval": 3, "retries": 2, "timeout": 4, "test": "ls"}
    assert (shown["cpu"], shown["memory"], shown["disk"], shown["tty"]) == (0.5, "256", 5, True)
    assert shown["entrypoint"] == ["/bin/sh"]
    assert shown["addresses"] == {}
    assert shown["uuid"] == made["uuid"]
    allocation = await plane.api.control.placement.allocation(made["uuid"])
    assert allocation == {VCPU: 1, MEMORY_MB: 256, DISK_GB: 5}


async def test_null_amounts_and_lists_mean_not_given(plane: Plane) -> None:
    made = await plane.create(plane.client(), None, cpu=None, memory=None, disk=None, nets=None, mounts=None)
    assert (made["cpu"], made["memory"], made["disk"]) == (1.0, "512", 0)


async def test_host_fields_are_shown_to_admins_only(plane: Plane) -> None:
    made = await plane.create(plane.client(), None)
    seen = (await plane.client("admin", project_id="other").get(f"{URL}/{made['uuid']}")).json()
    assert (seen["host"], seen["privileged"], seen["runtime"], seen["image_pull_policy"]) == (
        "node1",
        False,
        None,
        None,
    )
    assert not {"host", "privileged", "runtime", "image_pull_policy"} & made.keys()


async def test_mounts_are_recorded_in_the_order_asked(plane: Plane) -> None:
    """S1.8."""
    content = base64.b64encode(b"hello").decode()
    mounts = [
        {"size": "1", "destination": "/a"},
        {"type": "bind", "source": content, "destination": "/b"},
        {"size": 2, "destination": "/c"},
    ]
    made = await plane.create(plane.client(), None, mounts=mounts)
    async with plane.db.read() as connection:
        found = await volume_mapping_store.of_container(connection, made["uuid"])
    assert [(one.kind, one.destination, one.auto_remove) for one in found] == [
        ("volume", "/a", True), ("bind", "/b", False), ("volume", "/c", True),
    ]  # fmt: skip
    assert found[1].contents == content
    assert await plane.count(local_volumes) == 2
    assert await plane.count(volume_mappings) == 3


async def test_disk_default_is_claimed_where_it_is_limited(plane: Plane) -> None:
    """S6.10: claim what will be limited."""
    await plane.add_host("quota", disk_quota_supported=True)
    made = await plane.create(plane.client("admin"), None, host="quota")
    assert made["disk"] == 10
    allocation = await plane.api.control.placement.allocation(made["uuid"])
    assert allocation == {VCPU: 1, MEMORY_MB: 512, DISK_GB: 10}
