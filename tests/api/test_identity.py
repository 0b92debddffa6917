"""Tokens, identity headers, readers, and what operators override in policy.yaml."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.support.api import Api, fault, make_api
from zun.api.policy import PolicyEnforcer
from zun.domain.caller import Caller
from zun.policies import list_rules

MEMBER = Caller("u", "p", frozenset({"member"}))
ADMIN = Caller("u", "p", frozenset({"Admin"}), is_admin=True)


class Ticks:
    """A clock the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_no_token_and_a_wrong_one_are_401(api: Api) -> None:
    for client in (api.client(token=None), api.client(token="unknown")):
        answer = await client.get("/v1/registries")
        assert answer.status_code == 401
        assert answer.json() == {
            "error": {
                "code": 401,
                "title": "Unauthorized",
                "message": "The request you have made requires authentication.",
            }
        }
        assert answer.headers["www-authenticate"] == 'Keystone uri="http://identity.example.org"'
        assert answer.headers["x-openstack-request-id"]


async def test_identity_service_down_is_503(api: Api) -> None:
    client = api.client()
    api.identity.down = True
    error = fault(await client.get("/v1/registries"))
    assert (error["status"], error["title"]) == (503, "The identity service does not answer.")


async def test_identity_headers_from_outside_count_for_nothing(api: Api) -> None:
    client = api.client(headers={"X-Roles": "admin", "X-Project-Id": "other", "X-Identity-Status": "Confirmed"})
    assert (await client.get("/v1/services")).status_code == 403
    bare = api.client(token=None, headers={"X-Roles": "admin", "X-User-Id": "root"})
    assert (await bare.get("/v1/services")).status_code == 401


async def test_refused_by_rule(api: Api) -> None:
    error = fault(await api.client().get("/v1/services"))
    assert (error["status"], error["code"]) == (403, "container.policy-not-authorized")
    assert error["title"] == "Policy doesn't allow zun-service:get_all to be performed."


async def test_a_reader_reads_only(api: Api) -> None:
    reader = api.client(("Reader",))
    assert (await reader.get("/v1/registries")).status_code == 200
    answer = await reader.post("/v1/registries", json={"registry": {"domain": "d"}})
    assert fault(answer)["title"] == "Policy doesn't allow registry:create to be performed."
    assert answer.status_code == 403
    both = api.client(("reader", "member"))
    assert (await both.post("/v1/registries", json={"registry": {"domain": "d"}})).status_code == 201


def test_every_rule_of_the_original_has_its_default(tmp_path: Path) -> None:
    rules = {rule.name: rule.check_str for rule in list_rules()}
    ours = {name for name in rules if name.startswith("event:")}
    assert len(rules) == len(list_rules()) == 82 + len(ours)
    assert rules["container:create"] == "is_admin:True or project_id:%(project_id)s"
    assert rules["container:create:privileged"] == "rule:deny_everybody"
    assert rules["network:create"] == "role:admin"
    for rule in list_rules():
        if ":" in rule.name:
            assert rule.description.endswith("."), rule.name
            assert rule.operations, rule.name


async def test_overrides_are_noticed_and_broken_files_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "policy.yaml"
    async with make_api(tmp_path) as api:
        ticks = Ticks()
        policy = PolicyEnforcer(api.conf, monotonic=ticks)
        assert not policy.check("host:get_all", MEMBER)
        file.write_text('"host:get_all": "role:member"\n"registry:get_one:username": "rule:context_is_admin"\n')
        assert not policy.check("host:get_all", MEMBER)
        ticks.now += 1
        assert policy.check("host:get_all", MEMBER)
        assert policy.hidden_fields("registry:get_one", MEMBER) == {"username"}
        assert policy.hidden_fields("registry:get_one", ADMIN) == frozenset()
        for broken in (
            "[",
            "- a\n- b\n",
            '"host:get_all": "role:member or ("\n',
            '"host:get_all": 5\n',
            '"host:get_all": "rule:nowhere"\n',
            '"a": "rule:b"\n"b": "rule:a"\n',
        ):
            caplog.clear()
            file.write_text(broken)
            ticks.now += 1
            with caplog.at_level(logging.ERROR):
                assert policy.check("host:get_all", MEMBER), broken
            lines = [record for record in caplog.records if record.name == "zun.api.policy"]
            assert len(lines) == 1, broken
            assert "kept=last_good_rules" in lines[0].getMessage()
        file.unlink()
        ticks.now += 1
        assert not policy.check("host:get_all", MEMBER)


async def test_an_unreadable_rule_denies(tmp_path: Path) -> None:
    async with make_api(tmp_path) as api:
        policy = PolicyEnforcer(api.conf)
        assert not policy.check("no:such:rule", ADMIN)
        assert not policy.has_rule("no:such:rule")
        assert policy.hidden_fields("container:get_one", MEMBER) == {
            "host",
            "image_pull_policy",
            "privileged",
            "runtime",
        }


async def test_context_is_admin_can_be_overridden(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text('"context_is_admin": "role:boss"\n')
    async with make_api(tmp_path) as api:
        assert (await api.client(("boss",)).get("/v1/services")).status_code == 200
        assert (await api.client(("admin",)).get("/v1/services")).status_code == 403


async def test_a_policy_file_by_absolute_path(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.yaml"
    file.write_text('"registry:create": "!"\n')
    async with make_api(tmp_path, {"api.policy_file": file}) as api:
        answer = await api.client(("admin",)).post("/v1/registries", json={"registry": {"domain": "d"}})
        assert answer.status_code == 403
