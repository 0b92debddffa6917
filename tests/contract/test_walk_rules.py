"""Every rule of the contract, allowed and denied, on a running product: as its default has it, and as an operator may
turn it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.test_walk_versions import check_answer
from tests.support.wait import wait_until
from tests.support.walk import ASKED, RULES, Contract, Who, World, error

pytestmark = pytest.mark.xdist_group("walk")

BASES = {"context_is_admin", "admin_or_owner", "admin_api", "deny_everybody"}
"""Others are made of these; no route asks them."""
ON_NEUTRON = {"network:attach_external_network"}
"""The embedded network has no external ones: tests/cloud/test_network_neutron.py."""
BY_ROUTE = {row.rule: row for row in ASKED if row.rule is not None}
"""The newest range of a rule's operation; of container:delete the plain one."""
BY_ROUTE |= {row.rule: row for row in ASKED if row.operation == "container.delete" and row.rule}

ALSO: dict[str, tuple[str, dict[str, Any], dict[str, Any] | None]] = {
    "container:create:runtime": ("container.create", {}, {"runtime": "runc"}),
    "container:create:privileged": ("container.create", {}, {"privileged": False}),
    "container:create:image_pull_policy": ("container.create", {}, {"image_pull_policy": "always"}),
    "container:create:requested_destination": ("container.create", {}, {"host": "HOST"}),
    "container:delete_all_projects": ("container.delete", {"all_projects": "true"}, None),
    "container:delete_force": ("container.delete", {"force": "true"}, None),
    "container:get_one_all_projects": ("container.show", {"all_projects": "true"}, None),
    "container:get_all_all_projects": ("container.list", {"all_projects": "true"}, None),
    "container:get_one:host": ("container.list", {"host": "HOST"}, None),
    "capsule:delete_all_projects": ("capsule.delete", {"all_projects": "true"}, None),
    "capsule:get_one_all_projects": ("capsule.show", {"all_projects": "true"}, None),
    "capsule:get_all_all_projects": ("capsule.list", {"all_projects": "true"}, None),
    "registry:get_all_all_projects": ("registry.list", {"all_projects": "true"}, None),
}
"""Rules that a parameter calls for: operation, query, body."""
SHOWN = {
    "container:get_one:host": ("container.show", "host"),
    "container:get_one:image_pull_policy": ("container.show", "image_pull_policy"),
    "container:get_one:privileged": ("container.show", "privileged"),
    "container:get_one:runtime": ("container.show", "runtime"),
    "capsule:get:host": ("capsule.show", "host"),
}
"""Rules that decide what is shown: operation, field."""
TRACEBACK = "container:action:events"


def newest(operation: str) -> Contract:
    return max((row for row in ASKED if row.operation == operation), key=lambda row: row.versions or (0, 0))


def called(world: World, rule: str, who: Who, **more: Any) -> tuple[Contract, httpx.Response]:
    """The request that the rule decides on."""
    if rule not in ALSO:
        row = BY_ROUTE[rule]
        assert row.versions
        answer = world.ask(row, row.versions[1], who, **more)
    else:
        operation, query, body = ALSO[rule]
        row = newest(operation)
        host = world.host["hostname"]
        filled = [{name: host if value == "HOST" else value for name, value in (one or {}).items()}
                  for one in (query, body)]  # fmt: skip
        answer = world.ask(row, 40, who, query=filled[0], body=filled[1] if body else None, **more)
    if row.operation == "service.delete":
        world.restore_ghost()
    return row, answer


def test_every_rule_is_walked() -> None:
    assert set(BY_ROUTE) | set(ALSO) | set(SHOWN) | {TRACEBACK} | BASES | ON_NEUTRON == set(RULES)


def denied(answer: httpx.Response, rule: str) -> None:
    title = f"Policy doesn't allow {rule} to be performed."
    assert error(answer) == (403, "policy-not-authorized", title), rule


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule in BY_ROUTE or rule in ALSO])
def test_defaults(world: World, rule: str) -> None:
    """A member may what rules of the project allow, an administrator what others do; privileged is nobody's."""
    row, of_member = called(world, rule, world.member)
    if "project_id" in RULES[rule]:
        check_answer(row, of_member)
        return
    denied(of_member, rule)
    row, of_admin = called(world, rule, world.admin)
    if RULES[rule] == "rule:deny_everybody":
        denied(of_admin, rule)
    else:
        check_answer(row, of_admin)


@pytest.mark.parametrize("rule", SHOWN)
def test_fields_that_administrators_see(world: World, rule: str) -> None:
    operation, field = SHOWN[rule]
    row = newest(operation)
    assert field not in world.ask(row, 40, world.member).json()
    assert field in world.ask(row, 40, world.admin).json()


# -- an operator's file -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def turned(world: World) -> Iterator[None]:
    """Each rule allows everybody but a user of its own, so that one file serves all of them."""
    world.set_rules({rule: f"not user_name:{user_of(rule)}" for rule in RULES if rule not in BASES})
    somebody = world.who("ours", "somebody")
    wait_until(lambda: world.send("GET", "/v1/hosts", somebody).status_code == 200, 30, "the file is read")
    yield
    world.set_rules({})
    wait_until(lambda: world.send("GET", "/v1/hosts", somebody).status_code == 403, 30, "the file is empty")


def user_of(rule: str) -> str:
    return "no-" + rule.replace(":", "-")


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule in BY_ROUTE or rule in ALSO])
def test_turned_by_an_operator(world: World, turned: None, rule: str) -> None:
    denied(called(world, rule, world.who("ours", user_of(rule)))[1], rule)
    row, allowed = called(world, rule, world.who("ours", "somebody"))
    check_answer(row, allowed)


@pytest.mark.parametrize("rule", SHOWN)
def test_fields_shown_and_hidden_by_an_operator(world: World, turned: None, rule: str) -> None:
    operation, field = SHOWN[rule]
    row = newest(operation)
    assert field not in world.ask(row, 40, world.who("ours", user_of(rule))).json()
    assert field in world.ask(row, 40, world.who("ours", "somebody")).json()


def test_who_sees_why_an_action_failed(world: World, turned: None) -> None:
    """Text of the fault for whom the rule allows it, null for others."""
    one = world.copy(world.real, "Running")
    asked = world.send("POST", f"/v1/containers/{one['uuid']}/pause", world.member)  # the engine does not know it
    path = f"/v1/containers/{one['uuid']}/container_actions/{asked.headers['x-openstack-request-id']}"
    wait_until(lambda: world.get(path, world.member)["finish_time"], 60, "the pause has failed")

    def texts(who: Who) -> list[str | None]:
        return [event["traceback"] for event in world.get(path, who)["events"] if event["result"] == "Error"]

    assert world.get(path, world.member)["message"] == "Error"
    assert texts(world.who("ours", user_of(TRACEBACK))) == [None]
    assert all(texts(world.who("ours", "somebody")))


def test_a_pull_policy_that_may_not_be_chosen_is_dropped_from_capsules(world: World, turned: None) -> None:
    rule = "container:create:image_pull_policy"
    containers = [
        {"image": "busybox", "imagePullPolicy": "never", "resources": {"requests": {"cpu": 0.1, "memory": 16}}}
    ]
    template = {"kind": "capsule", "metadata": {}, "spec": {"containers": containers}}
    for user, policy in ((user_of(rule), "always"), ("somebody", "never")):
        answer = world.send("POST", "/v1/capsules", world.who("ours", user), json={"template": template})
        assert answer.status_code == 202, answer.text
        (member,) = answer.json()["containers"]
        assert member["image_pull_policy"] == policy
