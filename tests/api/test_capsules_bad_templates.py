"""Faults of capsule templates: each is a 400 that names its place, and leaves nothing."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import fault
from tests.support.containers import Plane, make_plane
from zun.store.tables import containers, local_volumes, volume_mappings

GOOD: dict[str, Any] = {
    "kind": "capsule",
    "capsuleVersion": "beta",
    "metadata": {"name": "cap", "labels": {"a": "b"}, "annotations": {"k": "v"}},
    "spec": {
        "restartPolicy": "Always",
        "containers": [{"image": "nginx", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "initContainers": [{"image": "busybox"}],
        "volumes": [{"name": "data", "cinder": {"size": 1, "autoRemove": True}}],
    },
}
REMOVE = object()
C, INIT, V = ("spec", "containers", 0), ("spec", "initContainers", 0), ("spec", "volumes", 0)

BAD: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("no kind", ("kind",), REMOVE, "'kind' is a required property"),
    ("another kind", ("kind",), "pod", "template.kind"),
    ("kind is a number", ("kind",), 1, "template.kind"),
    ("another version", ("capsuleVersion",), "v1", "template.capsuleVersion"),
    ("version is null", ("capsuleVersion",), None, "template.capsuleVersion"),
    ("no metadata", ("metadata",), REMOVE, "'metadata' is a required property"),
    ("metadata is a list", ("metadata",), [], "template.metadata"),
    ("metadata is null", ("metadata",), None, "template.metadata"),
    ("name too short", ("metadata", "name"), "a", "template.metadata.name"),
    ("name too long", ("metadata", "name"), "a" * 256, "template.metadata.name"),
    ("name with a blank", ("metadata", "name"), "a b", "template.metadata.name"),
    ("name is a number", ("metadata", "name"), 7, "template.metadata.name"),
    ("labels are a list", ("metadata", "labels"), ["a"], "template.metadata.labels"),
    ("annotations are a text", ("metadata", "annotations"), "a", "template.metadata.annotations"),
    ("another top-level member", ("nets",), [], "'nets' was unexpected"),
    ("an old policy nobody knows", ("restartPolicy",), "always", "template.restartPolicy"),
    ("the zone is empty", ("availabilityZone",), "", "template.availabilityZone"),
    ("the zone is a number", ("availabilityZone",), 1, "template.availabilityZone"),
    ("no spec", ("spec",), REMOVE, "'spec' is a required property"),
    ("spec is a text", ("spec",), "x", "template.spec"),
    ("a policy nobody knows", ("spec", "restartPolicy"), "Sometimes", "template.spec.restartPolicy"),
    ("the policy is null", ("spec", "restartPolicy"), None, "template.spec.restartPolicy"),
    ("no containers", ("spec", "containers"), REMOVE, "'containers' is a required property"),
    ("containers are null", ("spec", "containers"), None, "template.spec.containers"),
    ("containers are an object", ("spec", "containers"), {}, "template.spec.containers"),
    ("not one container", ("spec", "containers"), [], "template.spec.containers"),
    ("too many containers", ("spec", "containers"), [{"image": "nginx"}] * 65, "template.spec.containers"),
    ("a container is a text", C, "nginx", "template.spec.containers.0"),
    ("no image", C, {"command": ["x"]}, "'image' is a required property"),
    ("image is null", (*C, "image"), None, "template.spec.containers.0.image"),
    ("image too short", (*C, "image"), "x", "template.spec.containers.0.image"),
    ("image cannot be", (*C, "image"), "UPPER/bad:::", "template.spec.containers.0.image"),
    ("image of a registry that is ours", (*C, "image"), "glance.invalid/x", "template.spec.containers.0.image"),
    ("a member nobody knows", (*C, "entrypoint"), ["x"], "'entrypoint' was unexpected"),
    ("container's name", (*C, "name"), "-x", "template.spec.containers.0.name"),
    ("command is a text", (*C, "command"), "sh", "template.spec.containers.0.command"),
    ("command of numbers", (*C, "command"), ["sh", 1], "template.spec.containers.0.command"),
    ("args are an object", (*C, "args"), {"a": 1}, "template.spec.containers.0.args"),
    ("args too long", (*C, "args"), ["x" * 140_000], "template.spec.containers.0.command"),
    ("env is a list", (*C, "env"), ["A=1"], "template.spec.containers.0.env"),
    ("env of numbers", (*C, "env"), {"A": 1}, "template.spec.containers.0.env"),
    ("env without a name", (*C, "env"), {"": "x"}, "template.spec.containers.0.env"),
    ("env with = in a name", (*C, "env"), {"A=B": "x"}, "template.spec.containers.0.env"),
    ("a relative workDir", (*C, "workDir"), "rel", "template.spec.containers.0.workDir"),
    ("workDir is a number", (*C, "workDir"), 1, "template.spec.containers.0.workDir"),
    ("a pull policy nobody knows", (*C, "imagePullPolicy"), "maybe", "template.spec.containers.0.imagePullPolicy"),
    ("stdin in another word", (*C, "stdin"), "yes", "template.spec.containers.0.stdin"),
    ("tty is a number", (*C, "tty"), 1, "template.spec.containers.0.tty"),
    ("resources are a list", (*C, "resources"), [], "template.spec.containers.0.resources"),
    ("limits in resources", (*C, "resources"), {"limits": {"cpu": 1}}, "'limits' was unexpected"),
    ("another resource", (*C, "resources"), {"requests": {"gpu": 1}}, "'gpu' was unexpected"),
    ("too little cpu", (*C, "resources"), {"requests": {"cpu": 0.01}}, "containers.0.resources.requests.cpu"),
    ("too much cpu", (*C, "resources"), {"requests": {"cpu": 17}}, "containers.0.resources.requests.cpu"),
    ("cpu with a unit", (*C, "resources"), {"requests": {"cpu": "500m"}}, "resources.requests.cpu"),
    ("too little memory", (*C, "resources"), {"requests": {"memory": 3}}, "resources.requests.memory"),
    ("too much memory", (*C, "resources"), {"requests": {"memory": 8193}}, "resources.requests.memory"),
    ("memory with a unit", (*C, "resources"), {"requests": {"memory": "64Mi"}}, "resources.requests.memory"),
    ("memory is a fraction", (*C, "resources"), {"requests": {"memory": 64.5}}, "resources.requests.memory"),
    ("ports are an object", (*C, "ports"), {"containerPort": 80}, "template.spec.containers.0.ports"),
    ("a port without its number", (*C, "ports"), [{"protocol": "TCP"}], "'containerPort' is a required property"),
    ("a negative port", (*C, "ports"), [{"containerPort": -1}], "template.spec.containers.0.ports.0.containerPort"),
    ("port nought", (*C, "ports"), [{"containerPort": 0}], "template.spec.containers.0.ports.0.containerPort"),
    ("too large a port", (*C, "ports"), [{"containerPort": 65536}], "template.spec.containers.0.ports.0.containerPort"),
    ("a named port", (*C, "ports"), [{"containerPort": "http"}], "template.spec.containers.0.ports.0.containerPort"),
    ("another protocol", (*C, "ports"), [{"containerPort": 1, "protocol": "SCTP"}], "ports.0.protocol"),
    ("a lower-case protocol", (*C, "ports"), [{"containerPort": 1, "protocol": "tcp"}], "ports.0.protocol"),
    ("a negative hostPort", (*C, "ports"), [{"containerPort": 1, "hostPort": -1}], "ports.0.hostPort"),
    ("a port's other member", (*C, "ports"), [{"containerPort": 1, "ip": "x"}], "'ip' was unexpected"),
    ("mounts are an object", (*C, "volumeMounts"), {}, "template.spec.containers.0.volumeMounts"),
    ("a mount without a name", (*C, "volumeMounts"), [{"mountPath": "/a"}], "'name' is a required property"),
    ("a mount without a path", (*C, "volumeMounts"), [{"name": "data"}], "'mountPath' is a required property"),
    ("a relative path", (*C, "volumeMounts", 0, "mountPath"), "data", "volumeMounts.0.mountPath"),
    ("the root as path", (*C, "volumeMounts", 0, "mountPath"), "/", "volumeMounts.0.mountPath"),
    ("a path too long", (*C, "volumeMounts", 0, "mountPath"), "/" + "x" * 5000, "volumeMounts.0.mountPath"),
    ("readOnly in another word", (*C, "volumeMounts", 0, "readOnly"), "yes", "volumeMounts.0.readOnly"),
    (
        "two mounts at one path",
        (*C, "volumeMounts"),
        [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/a/"}],
        "template.spec.containers.0.volumeMounts",
    ),
    ("init containers are an object", ("spec", "initContainers"), {}, "template.spec.initContainers"),
    ("an init container without image", INIT, {}, "'image' is a required property"),
    ("an init container's image", (*INIT, "image"), "UPPER:::", "template.spec.initContainers.0.image"),
    ("an init container's command", (*INIT, "command"), "sh", "template.spec.initContainers.0.command"),
    ("an init container's cpu", (*INIT, "resources"), {"requests": {"cpu": 99}}, "initContainers.0.resources"),
    ("an init container's workDir", (*INIT, "workDir"), "x", "template.spec.initContainers.0.workDir"),
    ("volumes are an object", ("spec", "volumes"), {}, "template.spec.volumes"),
    ("a volume without a name", V, {"cinder": {"size": 1}}, "'name' is a required property"),
    ("a volume of nothing", V, {"name": "data"}, "'cinder' is a required property"),
    ("neither id nor size", (*V, "cinder"), {}, "exactly one of 'volumeID' and 'size'"),
    ("id and size", (*V, "cinder"), {"volumeID": "a" * 36, "size": 1}, "exactly one of 'volumeID' and 'size'"),
    ("too short an id", (*V, "cinder"), {"volumeID": "abc"}, "template.spec.volumes.0.cinder.volumeID"),
    ("the id is null", (*V, "cinder"), {"volumeID": None}, "template.spec.volumes.0.cinder.volumeID"),
    ("size nought", (*V, "cinder"), {"size": 0}, "template.spec.volumes.0.cinder.size"),
    ("size with a unit", (*V, "cinder"), {"size": "1G"}, "template.spec.volumes.0.cinder.size"),
    ("half a GiB", (*V, "cinder"), {"size": 0.5}, "template.spec.volumes.0.cinder.size"),
    ("autoRemove in another word", (*V, "cinder", "autoRemove"), "on", "template.spec.volumes.0.cinder.autoRemove"),
    ("another kind of volume", (*V, "hostPath"), {"path": "/"}, "'hostPath' was unexpected"),
    ("a volume that nobody mounts", (*V, "name"), "other", "volume mount parameters is invalid."),
    (
        "two volumes of one name",
        ("spec", "volumes"),
        [{"name": "data", "cinder": {"size": 1}}] * 2,
        "template.spec.volumes.1.name",
    ),
    ("a runtime that cannot be", ("spec", "runtime"), "../x", "template.spec.runtime"),
    ("nets of neither", ("spec", "nets"), [{}], "template.spec.nets.0"),
]  # fmt: skip


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The good template with one thing in it replaced (or removed)."""
    template = copy.deepcopy(GOOD)
    place: Any = template
    for step in path[:-1]:
        place = place[step]
    if value is REMOVE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return template


def test_the_table_is_large_enough() -> None:
    assert len(BAD) >= 60
    assert len({name for name, *_ in BAD}) == len(BAD)


async def _holds_nothing(plane: Plane) -> bool:
    tables = (containers, volume_mappings, local_volumes)
    return not any([await plane.count(table) for table in tables]) and not any((await plane.usage()).values())


@pytest.mark.parametrize("as_text", [False, True], ids=["object", "text"])
async def test_each_bad_template_is_refused_and_the_fault_named(tmp_path: Path, as_text: bool) -> None:
    async with make_plane(tmp_path) as plane:
        await plane.add_host(capsules=True)
        client, wrong = plane.client("admin"), []
        for name, path, value, named in BAD:
            template: Any = changed(path, value)
            answer = await client.post("/v1/capsules", json={"template": json.dumps(template) if as_text else template})
            if answer.status_code != 400 or named not in fault(answer)["title"]:
                wrong.append((name, answer.status_code, answer.text))
        assert not wrong
        assert await _holds_nothing(plane)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "'template' is a required property"),
        ({"template": None}, "template"),
        ({"template": 5}, "template"),
        ({"template": []}, "template"),
        ({"template": ""}, "template"),
        ({"template": "kind: capsule"}, "the text is not valid JSON"),
        ({"template": '"text"'}, "template"),
        ({"template": "[]"}, "template"),
        ({"template": "{" * 100}, "template"),
        ({"template": '{"kind": "\\u0000"}'}, "NUL"),
        ({"template": "[" * 80 + "]" * 80}, "nested deeper"),
        ({"template": GOOD, "name": "x"}, "'name' was unexpected"),
    ],
    ids=str,
)
async def test_bad_body(tmp_path: Path, body: Any, named: str) -> None:
    async with make_plane(tmp_path) as plane:
        await plane.add_host(capsules=True)
        error = fault(await plane.client().post("/v1/capsules", json=body))
        assert error["status"] == 400
        assert named in error["title"]
        assert await _holds_nothing(plane)


async def test_the_template_without_a_fault_is_accepted(tmp_path: Path) -> None:
    async with make_plane(tmp_path) as plane:
        await plane.add_host(capsules=True)
        for template in (GOOD, json.dumps(GOOD)):
            answer = await plane.client("admin").post("/v1/capsules", json={"template": template})
            assert answer.status_code == 202, answer.text
