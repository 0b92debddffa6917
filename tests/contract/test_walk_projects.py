"""Two projects on a running product: no route shows or touches what the other has, whatever its caller claims to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from tests.support.wait import wait_until
from tests.support.walk import ASKED, RULES, World, error

pytestmark = pytest.mark.xdist_group("walk")

OBJECTS = ("{container_ident}", "{capsule_ident}", "{registry_ident}")
OF_OBJECTS = [row for row in ASKED if any(name in row.path for name in OBJECTS)]
ADMINS = [row for row in ASKED if row.rule is not None and "project_id" not in RULES[row.rule]]
LISTS = [row for row in ASKED if row.operation.endswith(".list") and row not in ADMINS and row not in OF_OBJECTS]


def claims(world: World) -> dict[str, str]:
    """What authentication filters of other servers tell their applications, as a client might forge it."""
    ours = world.member.project_id
    return {
        "X-Identity-Status": "Confirmed", "X-Service-Identity-Status": "Confirmed", "X-User-Id": "root",
        "X-User-Name": "admin", "X-User": "admin", "X-Roles": "admin,member", "X-Role": "admin",
        "X-Project-Id": ours, "X-Project-Name": "ours", "X-Tenant-Id": ours, "X-Tenant-Name": "ours", "X-Tenant": ours,
        "X-Project-Domain-Id": "default", "X-User-Domain-Id": "default", "X-Is-Admin-Project": "True",
        "OpenStack-System-Scope": "all", "X-Service-Token": world.admin.token, "X-Service-Roles": "admin,service",
        "X-Service-Project-Id": ours, "X-Openstack-Request-Id": "req-00000000-0000-4000-8000-000000000000",
        "X_Project_Id": ours, "X_Roles": "admin", "X-HTTP-Method-Override": "DELETE",
    }  # fmt: skip


@pytest.fixture(params=["plain", "forged"])
def headers(request: pytest.FixtureRequest, world: World) -> Mapping[str, str]:
    return claims(world) if request.param == "forged" else {}


def ours(world: World) -> dict[str, list[Any]]:
    """All records of the first project, and every operation on what it has, whoever asked."""
    found = world.records(world.member.project_id)
    with world.database() as db:
        found["operations on them"] = db.execute(
            "SELECT * FROM operations WHERE container_uuid IN (SELECT uuid FROM containers WHERE project_id = ?)",
            (world.member.project_id,),
        ).fetchall()
    return found


def standing(world: World, form: str) -> dict[str, str]:
    """What the first project has, by uuid or by name."""
    return {
        "container_ident": world.real[form], "capsule_ident": world.capsule[form],
        "registry_ident": world.registry[form], "request_ident": world.request_id, "image_id": world.image,
        "project_id": world.member.project_id, "host_ident": world.host["uuid"], "image": "busybox",
        "quota_class_name": "default", "neutron_net_id": world.network,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def untouched(world: World) -> None:
    """Nothing of the walks before is still at work: what is compared stands still."""
    unfinished = "SELECT kind, container_uuid FROM operations WHERE finish_time IS NULL"

    def at_work() -> list[Any]:
        with world.database() as db:
            return db.execute(unfinished).fetchall()

    wait_until(lambda: not at_work(), 120, f"what was asked before is done; {at_work()}")
    world.set_status(world.real["uuid"], "Running")


@pytest.mark.parametrize("form", ["uuid", "name"])
def test_the_others_objects_do_not_exist(world: World, headers: Mapping[str, str], form: str) -> None:
    targets, before = standing(world, form), ours(world)
    assert len(OF_OBJECTS) >= 40
    for row in OF_OBJECTS:
        assert row.versions
        ident = targets[next(name for name in targets if f"{{{name}}}" in row.path)]
        for minor in sorted(set(row.versions)):
            answer = world.ask(row, minor, world.stranger, targets=targets, headers=headers)
            nobody = dict.fromkeys(targets, "nobody-has-this")
            nothing = world.ask(row, minor, world.stranger, targets=nobody, headers=headers)
            status, slug, title = error(answer)
            assert (status, slug, title.replace(ident, "X")) == (
                404, error(nothing)[1], error(nothing)[2].replace("nobody-has-this", "X"),
            ), row.name  # fmt: skip
    assert ours(world) == before


def test_what_administrators_have_is_not_a_members(world: World, headers: Mapping[str, str]) -> None:
    before = ours(world)
    for row in ADMINS:
        assert row.versions
        answer = world.ask(row, row.versions[1], world.stranger, targets=standing(world, "uuid"), headers=headers)
        assert error(answer)[:2] == (403, "policy-not-authorized"), row.name
    assert ours(world) == before


def test_quotas_of_the_other_are_not_read(world: World, headers: Mapping[str, str]) -> None:
    for path in ("", "/defaults", "?usages=True"):
        where = f"/v1/quotas/{world.member.project_id}{path}"
        assert error(world.send("GET", where, world.stranger, headers=headers))[0] == 403
    own = f"/v1/quotas/{world.stranger.project_id}"
    assert world.send("GET", own, world.stranger, headers=headers).status_code == 200


def test_lists_hold_nothing_of_the_other(world: World, headers: Mapping[str, str]) -> None:
    mine = world.send("POST", "/v1/registries", world.stranger, json={"registry": {"domain": "mine.example.org"}})
    assert mine.status_code == 201
    secrets = {world.real["uuid"], world.capsule["uuid"], world.registry["uuid"], world.registry["name"],
               world.member.project_id}  # fmt: skip
    queries = (
        {}, {"limit": "1000"}, {"project_id": world.member.project_id}, {"name": world.real["name"]},
        {"name": world.registry["name"]}, {"user_id": world.real["user_id"]}, {"status": "Running"},
        {"marker": world.real["uuid"]}, {"all_projects": "true"}, {"sort_key": "host"},
    )  # fmt: skip
    for row in LISTS:
        for query in queries:
            answer = world.send("GET", row.path, world.stranger, headers=headers, params=query)
            if answer.status_code != 200:
                assert answer.status_code in (400, 403, 404), answer.text
                continue
            items = next(value for value in answer.json().values() if isinstance(value, list))
            assert not [one for one in secrets if one in str(items)], (row.name, query)
    listed = world.send("GET", "/v1/registries", world.stranger, headers=headers).json()["registries"]
    assert {one["project_id"] for one in listed} == {world.stranger.project_id}
    assert world.send("DELETE", f"/v1/registries/{mine.json()['registry']['uuid']}", world.stranger).status_code == 204


def test_what_is_made_is_the_callers(world: World, headers: Mapping[str, str]) -> None:
    """A claim to be another project gives it nothing either."""
    before = ours(world)
    for row in ASKED:
        if row.method != "POST" or row.path not in ("/v1/containers", "/v1/capsules", "/v1/registries"):
            continue
        assert row.versions
        body = world.ask(row, row.versions[1], world.stranger, headers=headers).json()
        made = body.get("registry", body)
        assert made["project_id"] == world.stranger.project_id, row.name
        query = {"force": "true"} if "containers" in row.path else {}
        gone = world.send("DELETE", f"{row.path}/{made['uuid']}", world.admin, params=query)
        assert gone.status_code == 204, gone.text
    assert ours(world) == before


def test_what_the_other_has_is_not_used_in_a_create(world: World, headers: Mapping[str, str]) -> None:
    volume, before = world.volume(), ours(world)
    ((port,),) = world.real_addresses().values()
    uses: tuple[dict[str, Any], ...] = (
        {"registry": world.registry["uuid"]}, {"registry": world.registry["name"]},
        {"nets": [{"port": port["port"]}]}, {"mounts": [{"source": volume, "destination": "/d"}]},
    )  # fmt: skip
    for use in uses:
        body = {"image": "busybox", "cpu": 0.1, "memory": 16, **use}
        answer = world.send("POST", "/v1/containers", world.stranger, headers=headers, json=body)
        assert error(answer)[0] in (400, 404), (use, answer.text)
    assert ours(world) == before


def test_claims_are_no_token(world: World) -> None:
    """Headers that say everything, and no token, or one that nobody gave."""
    targets = standing(world, "uuid")
    for row in ASKED:
        assert row.versions
        for more in ({}, {"X-Auth-Token": "guessed"}, {"X-Auth-Token": ""}):
            path = row.path.format(**targets)
            answer: httpx.Response = world.send(
                row.method, path, None, f"1.{row.versions[1]}", {**claims(world), **more}
            )
            assert answer.status_code == 401, (row.name, more)


def test_a_member_is_no_administrator_by_claim(world: World) -> None:
    answer = world.send("GET", f"/v1/containers/{world.real['uuid']}", world.member, headers=claims(world))
    assert not {"host", "runtime", "privileged", "image_pull_policy"} & set(answer.json())
    assert answer.headers["x-openstack-request-id"] != claims(world)["X-Openstack-Request-Id"]
