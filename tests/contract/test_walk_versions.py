"""Every route of the contract in its first and last version and beside them, by uuid and by name, on a running product:
success status, shape of the answer, version headers."""

from __future__ import annotations

import base64
import io
import tarfile
from typing import Any

import httpx
import pytest

from tests.support.walk import ASKED, HIGHEST, LOWEST, ROUTES, RULES, Contract, Who, World, error

pytestmark = pytest.mark.xdist_group("walk")

NAMED = ("{container_ident}", "{capsule_ident}", "{registry_ident}", "{host_ident}")
"""Found by uuid and by name; the others by one of them only."""
FORMS = [
    (row, form) for row in ASKED for form in ("uuid", "name") if form == "uuid" or any(p in row.path for p in NAMED)
]

NOT_EMBEDDED = {
    "container.commit": (409, "conflict"),
    "container.add_security_group": (400, "security-group-cannot-be-applied"),
    "container.remove_security_group": (400, "security-group-cannot-be-removed"),
}
"""What the embedded services cannot do (no Glance, no groups) they refuse, behind every other check. On Glance and
Neutron they succeed: tests/cloud/test_commit.py, tests/cloud/test_network_changes.py."""


def asker(world: World, row: Contract) -> Who:
    """Somebody whom the default rules allow."""
    rules = [row.rule or "", *(row.also if "force" in row.query else ())]
    admins = any("project_id" not in RULES.get(rule, "project_id") for rule in rules)
    return world.admin if admins else world.member


def other_ranges(row: Contract) -> list[tuple[int, int]]:
    return [one.versions for one in ASKED if one.operation == row.operation and one is not row and one.versions]


def outside(row: Contract, minor: int) -> bool:
    """Is the operation in no range of the contract at that version, though the version exists?"""
    served = any(first <= minor <= last for first, last in other_ranges(row))
    return LOWEST <= minor <= HIGHEST and not served


def check_answer(row: Contract, answer: httpx.Response) -> None:
    if row.operation in NOT_EMBEDDED:
        assert error(answer)[:2] == NOT_EMBEDDED[row.operation], answer.text
        return
    assert answer.status_code == row.success, (row.name, answer.text)
    if row.answer == "empty":
        assert answer.content == b""
        return
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    if isinstance(row.answer, list):
        hidden = {"host", "image_pull_policy", "privileged", "runtime"}  # administrators see these, too
        assert set(row.answer) <= set(body) <= set(row.answer) | hidden, row.name
    else:
        kinds: dict[str, Any] = {"null": type(None), "text": str, "list": list}
        assert isinstance(body, kinds[row.answer]), row.name
    if row.location:
        made = body.get("registry", body)
        assert answer.headers["location"].endswith(f"{row.path}/{made['uuid']}"), row.name


@pytest.mark.parametrize(("row", "form"), FORMS, ids=[f"{row.name}-{form}" for row, form in FORMS])
def test_first_and_last_version(world: World, row: Contract, form: str) -> None:
    assert row.versions
    for minor in sorted(set(row.versions)):
        answer = world.ask(row, minor, asker(world, row), form=form)
        check_answer(row, answer)
        assert answer.headers["openstack-api-version"] == f"container 1.{minor}"
        assert answer.headers["x-openstack-request-id"].startswith("req-")
        if row.operation == "service.delete":
            world.restore_ghost()


@pytest.mark.parametrize("row", ASKED, ids=lambda row: row.name)
def test_one_below_and_one_above(world: World, row: Contract) -> None:
    assert row.versions
    first, last = row.versions
    for minor in [minor for minor in (first - 1, last + 1) if outside(row, minor)]:
        answer = world.ask(row, minor, asker(world, row))
        if row.query:  # a parameter of a later version, on a route that exists
            assert error(answer)[:2] == (400, "invalid-param-in-version")
        else:
            assert error(answer) == (406, "", "")
        assert answer.headers["openstack-api-version"] == f"container 1.{minor}"


def test_the_ends_of_the_versions(world: World) -> None:
    for row in ASKED:
        for minor in (LOWEST - 1, HIGHEST + 1):
            answer = world.ask(row, minor, world.admin, targets={"container_ident": "x", "capsule_ident": "x"})
            assert (answer.status_code, answer.json()["errors"][0]["code"]) == (406, "zun.microversion-unsupported")
            (found,) = answer.json()["errors"]
            assert (found["min_version"], found["max_version"]) == ("1.1", "1.40")


@pytest.mark.parametrize("row", [row for row in ROUTES if row.public], ids=lambda row: row.name)
def test_what_needs_no_token(world: World, row: Contract) -> None:
    answer = world.send(row.method, row.path, None)
    assert answer.status_code == row.success
    if row.answer == "OK":
        assert answer.text == "OK"
    else:
        assert set(answer.json()) == set(row.answer)
    assert ("openstack-api-version" in answer.headers) is (row.versions is not None)


@pytest.mark.parametrize("row", ASKED, ids=lambda row: row.name)
def test_nothing_is_answered_without_a_token(world: World, row: Contract) -> None:
    assert row.versions
    answer = world.send(row.method, row.path.replace("{", "").replace("}", ""), None, f"1.{row.versions[1]}")
    assert (answer.status_code, answer.json()["error"]["title"]) == (401, "Unauthorized")


# -- what differs inside one route ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("minor", "more", "status"),
    [
        (19, {"command": "sleep 9"}, 202), (20, {"command": "sleep 9"}, 400), (20, {"command": ["sleep", "9"]}, 202),
        (38, {"host": ""}, 400), (39, {"host": "here"}, 202), (39, {"entrypoint": ["sh"]}, 400),
        (40, {"entrypoint": ["sh"]}, 202),
    ],
)  # fmt: skip
def test_forms_of_create(world: World, minor: int, more: dict[str, Any], status: int) -> None:
    body = {"image": "busybox", "cpu": 0.1, "memory": 16, **more}
    if "host" in more:
        body["host"] = world.host["hostname"]
    answer = world.send("POST", "/v1/containers", world.admin, f"1.{minor}", json=body)
    assert answer.status_code == status, answer.text
    if status == 400 and minor >= 38:
        assert error(answer)[1] == "schema-validation-error"


@pytest.mark.parametrize(("minor", "tty"), [(19, False), (20, True), (35, True), (36, False), (40, False)])
def test_a_terminal_comes_with_interactive_in_some_versions(world: World, minor: int, tty: bool) -> None:
    body = {"image": "busybox", "cpu": 0.1, "memory": 16, "interactive": True}
    answer = world.send("POST", "/v1/containers", world.member, f"1.{minor}", json=body)
    assert (answer.status_code, answer.json()["interactive"], answer.json()["tty"]) == (202, True, tty)


@pytest.mark.parametrize("minor", [13, 17, 18, 40])
def test_shapes_of_networks(world: World, minor: int) -> None:
    path = f"/v1/containers/{world.real['uuid']}/network_list"
    (one,) = world.send("GET", path, world.member, f"1.{minor}").json()["networks"]
    if minor < 18:
        assert set(one) == {"net_id", "subnet_id", "port_id", "version", "ip_address"}
    else:
        assert set(one) == {"net_id", "port_id", "fixed_ips"}
        assert {frozenset(ip) for ip in one["fixed_ips"]} == {frozenset({"subnet_id", "version", "ip_address"})}


@pytest.mark.parametrize("minor", [1, 24, 25, 40])
def test_encodings_of_archives(world: World, minor: int) -> None:
    path = f"/v1/containers/{world.real['uuid']}/get_archive?path=/etc/hostname"
    body = world.send("GET", path, world.member, f"1.{minor}").json()
    raw = body["data"].encode() if minor < 25 else base64.b64decode(body["data"], validate=True)
    with tarfile.open(fileobj=io.BytesIO(raw)) as opened:
        assert opened.getnames() == ["hostname"]
    assert {"name", "size", "mode", "mtime", "linkTarget"} == set(body["stat"])


def test_addresses_that_clients_build(world: World) -> None:
    """Without /v1, with a slash at the end, with two, with .json: the same container (§1)."""
    uuid = world.real["uuid"]
    for path in (
        f"/containers/{uuid}", f"/v1/containers/{uuid}/", f"/v1/containers//{uuid}", f"/v1/containers/{uuid}.json",
    ):  # fmt: skip
        answer = world.send("GET", path, world.member)
        assert answer.status_code == 200, path
        assert (answer.json()["uuid"], answer.json()["name"]) == (uuid, "real"), path
    assert world.send("POST", f"/v1/containers//{uuid}/resize?h=1&w=1", world.member).status_code == 200
