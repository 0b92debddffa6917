"""Capsules in the API: both shapes of answers, and what a template may ask for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import fault
from tests.support.capsules import SAMPLE, create, template
from tests.support.containers import Plane, make_plane
from zun.domain.operation import Kind
from zun.store.tables import containers

CURRENT = {
    "uuid", "links", "name", "project_id", "user_id", "cpu", "memory", "status", "status_reason", "labels", "addresses",
    "restart_policy", "annotations", "created_at", "updated_at", "containers", "init_containers",
}  # fmt: skip
LEGACY = (CURRENT - {"name", "labels"}) | {
    "meta_name", "meta_labels", "volumes_info", "containers_uuids", "init_containers_uuids", "capsule_version",
}  # fmt: skip
MEMBER = {
    "uuid", "name", "project_id", "user_id", "image", "cpu", "cpu_policy", "memory", "command", "status",
    "status_reason", "task_state", "environment", "workdir", "auto_remove", "ports", "hostname", "labels", "addresses",
    "restart_policy", "status_detail", "interactive", "tty", "image_driver", "security_groups", "disk", "auto_heal",
    "healthcheck", "registry_id", "entrypoint", "created_at", "updated_at",
}  # fmt: skip


async def test_the_current_shape(plane: Plane) -> None:
    made = await create(plane.client(), SAMPLE)
    assert made.keys() == CURRENT
    values = {
        "name": "cap1", "cpu": 1.0, "memory": "256", "status": "Creating", "status_reason": None, "addresses": None,
        "labels": {"a": "b"}, "annotations": {"k": "v"}, "init_containers": [], "updated_at": None,
        "restart_policy": {"MaximumRetryCount": "0", "Name": "on-failure"},
    }  # fmt: skip
    assert {name: made[name] for name in values} == values
    (member,) = made["containers"]
    assert member.keys() == MEMBER
    assert member["name"].startswith("capsule-cap1-")
    assert (member["image"], member["cpu"], member["memory"], member["status"]) == ("nginx", 1.0, "256", "Creating")
    assert (member["command"], member["environment"], member["ports"], member["image_driver"]) == ([], {}, [], None)
    shown = (await plane.client().get(f"/v1/capsules/{made['uuid']}")).json()
    assert shown["addresses"] == {}
    assert {**shown, "addresses": None} == made


@pytest.mark.parametrize("version", ["1.1", "1.31"])
async def test_the_shape_up_to_1_31(plane: Plane, version: str) -> None:
    made = await create(plane.client(), SAMPLE, version)
    assert made.keys() == LEGACY
    assert (made["meta_name"], made["meta_labels"], made["restart_policy"]) == ("cap1", {"a": "b"}, "on-failure")
    constant = {"volumes_info": {}, "containers_uuids": [], "init_containers_uuids": [], "capsule_version": ""}
    assert {name: made[name] for name in constant} == constant
    listed = (await plane.client(version=version).get("/v1/capsules")).json()["capsules"]
    assert [one.keys() for one in listed] == [LEGACY]


async def test_a_capsule_without_anything_named(plane: Plane) -> None:
    made = await create(plane.client(), template())
    assert (made["name"], made["labels"], made["annotations"]) == (None, None, None)
    assert (made["cpu"], made["memory"]) == (0.0, "0")
    assert made["containers"][0]["name"].startswith(f"capsule-{made['uuid']}-")
    assert made["restart_policy"] == {"Name": "always", "MaximumRetryCount": "0"}


async def test_the_template_as_text(plane: Plane) -> None:
    answer = await plane.client().post("/v1/capsules", json={"template": json.dumps(SAMPLE)})
    assert answer.status_code == 202
    assert answer.json()["name"] == "cap1"


async def test_capital_letters_of_kind_and_version(plane: Plane) -> None:
    made = await create(plane.client(), {**SAMPLE, "kind": "Capsule", "capsuleVersion": "Beta"})
    assert made["status"] == "Creating"


async def test_administrators_see_the_host(plane: Plane) -> None:
    uuid = (await create(plane.client(), template()))["uuid"]
    admin = plane.client("admin")
    assert (await admin.get(f"/v1/capsules/{uuid}")).json()["host"] == "node1"
    (listed,) = (await admin.get("/v1/capsules")).json()["capsules"]
    assert listed["host"] == "node1"
    assert listed["containers"][0]["host"] == "node1"
    member = (await plane.client().get(f"/v1/capsules/{uuid}")).json()
    assert "host" not in member
    assert "host" not in member["containers"][0]


@pytest.mark.parametrize(
    ("spec", "top", "word"),
    [({}, "Never", "no"), ({"restartPolicy": "OnFailure"}, "Never", "on-failure"), ({}, None, "always")],
    ids=["top level only", "spec wins", "neither"],
)
async def test_both_places_of_the_restart_policy(
    plane: Plane, spec: dict[str, Any], top: str | None, word: str
) -> None:
    wanted = template(**spec) | ({"restartPolicy": top} if top else {})
    assert (await create(plane.client(), wanted))["restart_policy"]["Name"] == word


async def test_command_and_arguments_are_one_command(plane: Plane) -> None:
    entries = [{"command": ["sh", None, "-c"], "args": ["x"]}, {"args": ["only"]}, {"command": ["alone"]}]
    made = await create(plane.client(), template(*entries))
    assert [one["command"] for one in made["containers"]] == [["sh", "-c", "x"], ["only"], ["alone"]]


async def test_init_containers_ignore_members_nobody_knows(plane: Plane) -> None:
    made = await create(plane.client(), template(initContainers=[{"image": "busybox", "lifecycle": {}}]))
    assert made["init_containers"][0]["image"] == "busybox"
    assert made["init_containers"][0]["restart_policy"] == {"Name": "on-failure", "MaximumRetryCount": "10"}
    assert made["containers"][0]["restart_policy"]["Name"] == "always"


async def test_the_pull_policy_is_dropped_for_those_who_may_not_choose_it(plane: Plane) -> None:
    for roles, policy in ((("member",), "always"), (("admin",), "ifnotpresent")):
        made = await create(plane.client(*roles), template({"imagePullPolicy": "IfNotPresent"}))
        row = await plane.row(made["containers"][0]["uuid"])
        assert row is not None
        assert row.image_pull_policy == policy


async def test_a_runtime_is_for_administrators(plane: Plane) -> None:
    error = fault(await plane.client().post("/v1/capsules", json={"template": template(runtime="kata")}))
    assert error["code"] == "container.policy-not-authorized"
    made = await create(plane.client("admin"), template(runtime="kata"))
    row = await plane.row(made["uuid"])
    assert row is not None
    assert row.runtime == "kata"


async def test_the_default_network_is_chosen_and_ports_are_exposed(plane: Plane) -> None:
    uuid = (await create(plane.client(), template({"ports": [{"containerPort": "80"}]})))["uuid"]
    row = await plane.row(uuid)
    assert row is not None
    assert len(row.requested_networks or ()) == 1
    assert row.exposed_ports == {"80/tcp": {}}
    (operation,) = await plane.operations(uuid)
    assert (operation.kind, operation.params) == (Kind.CREATE, {"capsule": True, "run": False})


async def test_images_are_looked_for_before_there_is_a_row(tmp_path: Path) -> None:
    async with make_plane(tmp_path, {"api.enable_image_validation": "true"}) as plane:
        await plane.add_host(capsules=True)
        plane.bus.answers["image_exists"] = False
        error = fault(await plane.client().post("/v1/capsules", json={"template": template()}))
        assert (error["status"], error["code"]) == (400, "container.image-not-found")
        assert await plane.count(containers) == 0
        plane.bus.answers["image_exists"] = True
        await create(plane.client(), template({}, {"image": "other"}, {}))
        asked = [params for _, method, params in plane.bus.calls if method == "image_exists"]
        assert [one["image"] for one in asked] == ["nginx", "nginx", "other"]
        assert all(one["capsule"] is True for one in asked)
