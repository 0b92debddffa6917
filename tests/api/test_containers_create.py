"""Creating containers: the object, the versions, the refusals and their order (S1.1–S1.15, contract §10.1)."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import fault
from tests.support.containers import Plane, make_plane
from zun.conf import ConfigError
from zun.domain.resources import DISK_GB, MEMORY_MB, VCPU
from zun.store import volume_mappings as volume_mapping_store
from zun.store.tables import containers, local_volumes, operations, volume_mappings

URL = "/v1/containers"


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    async with make_plane(tmp_path) as made:
        await made.add_host()
        yield made


async def refused(plane: Plane, body: dict[str, Any], version: str = "1.40", **client: Any) -> tuple[int, str, str]:
    """(status, slug, title) of a create that fails, after which nothing of it is left."""
    answer = await plane.client(version=version, **client).post(URL, json=body)
    error = fault(answer)
    assert await plane.count(containers) == 0
    assert await plane.count(operations) == 0
    assert await plane.count(local_volumes) == 0
    assert (await plane.usage())["containers"] == 0
    return answer.status_code, error["code"].removeprefix("container."), error["title"]


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


async def test_no_room_is_accepted_and_told_in_the_row(plane: Plane, caplog: pytest.LogCaptureFixture) -> None:
    """S1.10, S1.11, S1.13, S1.25."""
    with caplog.at_level(logging.WARNING):
        wish = {"availability_zone": "elsewhere", "mounts": [{"size": 1, "destination": "/d"}]}
        answer = await plane.client().post(URL, json={"image": "cirros", **wish})
    body = answer.json()
    assert answer.status_code == 202
    assert (body["status"], body["status_reason"]) == ("Error", "There are not enough hosts available.")
    (action,) = (await plane.client().get(f"{URL}/{body['uuid']}/container_actions")).json()["containerActions"]
    assert action["action"] == "create"
    assert action["message"] == "Error"
    assert action["request_id"] == answer.headers["x-openstack-request-id"]
    assert action["finish_time"] is not None
    assert await plane.api.control.placement.allocation(body["uuid"]) is None
    assert await plane.count(local_volumes) == 0
    assert "rejected_by=AvailabilityZoneFilter: 1" in caplog.text


async def test_no_candidate_is_logged_with_what_was_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """S1.25."""
    async with make_plane(tmp_path) as plane:
        with caplog.at_level(logging.WARNING):
            answer = await plane.client().post(URL, json={"image": "cirros"})
    assert answer.json()["status"] == "Error"
    assert "Got no allocation candidates from the Placement API" in caplog.text
    assert "VCPU: 1, MEMORY_MB: 512" in caplog.text


async def test_placement_away_is_503_and_nothing_stays(plane: Plane) -> None:
    plane.placement.down = True
    body = {"image": "cirros", "mounts": [{"size": "1", "destination": "/d"}]}
    status, _, title = await refused(plane, body)
    assert status == 503
    assert "Placement" in title


@pytest.mark.parametrize("change", [{"disabled": True}, {"forced_down": True}])
async def test_disabled_or_down_host_gets_nothing(plane: Plane, change: dict[str, Any]) -> None:
    """S6.5."""
    await plane.set_service(**change)
    assert (await plane.create(plane.client(), None))["status"] == "Error"


async def test_silent_host_gets_nothing(plane: Plane) -> None:
    plane.clock.ahead = timedelta(seconds=181)
    assert (await plane.create(plane.client(), None))["status"] == "Error"


async def test_containers_are_spread(plane: Plane) -> None:
    await plane.add_host("node2")
    for _ in range(4):
        await plane.create(plane.client(), None)
    assert sorted(plane.bus.rings) == ["node1", "node1", "node2", "node2"]


async def test_admin_names_the_host(plane: Plane) -> None:
    await plane.add_host("node2")
    for _ in range(2):
        made = await plane.create(plane.client("admin"), None, host="node2")
        assert made["host"] == "node2"
    status, slug, _ = fault_of(await plane.client("admin").post(URL, json={"image": "cirros", "host": "nowhere"}))
    assert (status, slug) == (404, "requested-host-not-found")


def fault_of(answer: Any) -> tuple[int, str, str]:
    error = fault(answer)
    return answer.status_code, error["code"].removeprefix("container."), error["title"]


BAD = [
    ({}, "schema-validation-error"),
    ({"image": "x"}, "schema-validation-error"),
    ({"image": "cirros", "bogus": 1}, "schema-validation-error"),
    ({"image": "cirros", "name": "a"}, "schema-validation-error"),
    ({"image": "cirros", "name": "ends\n"}, "schema-validation-error"),
    ({"image": "UPPER/bad:::"}, "invalid-value"),
    ({"image": "CIRROS"}, "invalid-value"),
    ({"image": "cirros", "cpu": 0.01}, "schema-validation-error"),
    ({"image": "cirros", "cpu": "16.1"}, "schema-validation-error"),
    ({"image": "cirros", "memory": "3"}, "schema-validation-error"),
    ({"image": "cirros", "memory": "128m"}, "schema-validation-error"),
    ({"image": "cirros", "disk": 161}, "schema-validation-error"),
    ({"image": "cirros", "command": "sleep 1"}, "schema-validation-error"),
    ({"image": "cirros", "command": ["a\x00b"]}, "schema-validation-error"),
    ({"image": "cirros", "environment": {"A": 1}}, "schema-validation-error"),
    ({"image": "cirros", "environment": {"": "x"}}, "invalid-value"),
    ({"image": "cirros", "workdir": "rel"}, "invalid-value"),
    ({"image": "cirros", "auto_remove": "True"}, "schema-validation-error"),
    ({"image": "cirros", "image_driver": "glance"}, "validation-error"),
    ({"image": "cirros", "cpu_policy": "dedicated"}, "validation-error"),
    ({"image": "cirros", "restart_policy": {"Name": "always", "MaximumRetryCount": 2}}, "invalid-value"),
    ({"image": "cirros", "restart_policy": {"MaximumRetryCount": 2}}, "schema-validation-error"),
    ({"image": "cirros", "restart_policy": {"Name": "always"}, "auto_remove": True}, "invalid-value"),
    ({"image": "cirros", "healthcheck": {"cmd": "ls", "interval": "3s"}}, "invalid-value"),
    ({"image": "cirros", "healthcheck": {"cmd": "ls", "timeout": -1}}, "invalid-value"),
    ({"image": "cirros", "healthcheck": {"command": "ls"}}, "invalid-value"),
    ({"image": "cirros", "exposed_ports": {"80/sctp": {}}}, "invalid-value"),
    ({"image": "cirros", "exposed_ports": {"http": {}}}, "invalid-value"),
    ({"image": "cirros", "exposed_ports": {"70000": {}}}, "invalid-value"),
    ({"image": "cirros", "exposed_ports": {"80": {}}, "security_groups": ["a"]}, "schema-validation-error"),
    ({"image": "cirros", "nets": [{}]}, "schema-validation-error"),
    ({"image": "cirros", "nets": [{"network": "a", "port": "b"}]}, "schema-validation-error"),
    ({"image": "cirros", "nets": [{"network": "a", "v4-fixed-ip": "::1"}]}, "schema-validation-error"),
    ({"image": "cirros", "mounts": [{"type": "tmpfs", "destination": "/d"}]}, "invalid-value"),
    ({"image": "cirros", "mounts": [{"destination": "/d"}]}, "invalid-value"),
    ({"image": "cirros", "mounts": [{"size": 1, "destination": "rel"}]}, "invalid-value"),
    ({"image": "cirros", "mounts": [{"size": 1}]}, "invalid-value"),
    ({"image": "cirros", "mounts": [{"size": 0, "destination": "/d"}]}, "invalid-value"),
    ({"image": "cirros", "mounts": [{"size": 1, "destination": "/d"}] * 2}, "invalid-value"),
    ({"image": "cirros", "mounts": [{"type": "bind", "source": "%", "destination": "/d"}]}, "base-64-exception"),
    ({"image": "cirros", "hostname": "h" * 64}, "invalid-value"),
    ({"image": "cirros", "hostname": None, "run": "maybe"}, "schema-validation-error"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "slug"), BAD, ids=[str(body)[:60] for body, _ in BAD])
async def test_what_is_wrong_is_400_and_leaves_nothing(plane: Plane, body: dict[str, Any], slug: str) -> None:
    status, found, title = await refused(plane, body)
    assert (status, found) == (400, slug)
    assert title


NOT_FOUND = [
    ({"nets": [{"network": "nope"}]}, 404, "network-not-found"),
    ({"nets": [{"port": "nope"}]}, 404, "port-not-found"),
    ({"mounts": [{"size": 1, "destination": "/a"}, {"source": "nope", "destination": "/d"}]}, 404, "volume-not-found"),
    ({"registry": "nope"}, 404, "registry-not-found"),
    ({"runtime": "runc"}, 403, "policy-not-authorized"),
    ({"privileged": False}, 403, "policy-not-authorized"),
    ({"image_pull_policy": "never"}, 403, "policy-not-authorized"),
    ({"host": "node1"}, 403, "policy-not-authorized"),
]


@pytest.mark.parametrize(("more", "status", "slug"), NOT_FOUND, ids=[str(more)[:40] for more, _, _ in NOT_FOUND])
async def test_what_is_missing_or_forbidden_leaves_nothing(
    plane: Plane, more: dict[str, Any], status: int, slug: str
) -> None:
    """S1.7: no row in Creating after a failed request."""
    assert (await refused(plane, {"image": "cirros", **more}))[:2] == (status, slug)


async def test_unknown_security_group_is_400(plane: Plane) -> None:
    status, _, title = await refused(plane, {"image": "cirros", "security_groups": ["nope"]})
    assert status == 400
    assert "nope" in title


GATES = [
    ("auto_remove", False, "1.2", "1.3"),
    ("runtime", "runc", "1.4", "1.5"),
    ("hostname", "h", "1.8", "1.9"),
    ("mounts", [{"size": 1, "destination": "/d"}], "1.10", "1.11"),
    ("privileged", False, "1.20", "1.21"),
    ("healthcheck", {"cmd": "ls"}, "1.21", "1.22"),
    ("exposed_ports", {"80": {}}, "1.23", "1.24"),
    ("registry", "reg1", "1.30", "1.31"),
]


@pytest.mark.parametrize(("field", "value", "below", "since"), GATES, ids=[gate[0] for gate in GATES])
async def test_fields_have_their_version(plane: Plane, field: str, value: Any, below: str, since: str) -> None:
    status, slug, title = await refused(plane, {"image": "cirros", field: value}, below)
    assert (status, slug) == (400, "invalid-param-in-version")
    assert title == (
        f"Invalid param {field} because current request version is {below}. "
        f"{field} is only supported from version {since}"
    )


@pytest.mark.parametrize(("field", "value", "below"), [("host", "node1", "1.38"), ("entrypoint", ["a"], "1.39")])
async def test_newest_fields_are_unknown_before(plane: Plane, field: str, value: Any, below: str) -> None:
    assert (await refused(plane, {"image": "cirros", field: value}, below))[:2] == (400, "schema-validation-error")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sleep 1000", ["sleep", "1000"]),
        ('"sleep" "1000"', ["sleep", "1000"]),
        ('"sleep 1000"', ["sleep", "1000"]),
        ("\"sh -c 'echo a b'\"", ["sh", "-c", "echo a b"]),
        ('"env"', ["env"]),
        ("", []),
    ],
)
async def test_old_commands_are_split_as_a_shell_does(plane: Plane, text: str, words: list[str]) -> None:
    client = plane.client(version="1.12")
    made = await plane.create(client, None, command=text)
    assert (await client.get(f"{URL}/{made['uuid']}")).json()["command"] == words


async def test_old_command_with_an_open_quote_is_400(plane: Plane) -> None:
    assert (await refused(plane, {"image": "cirros", "command": 'a "b'}, "1.19"))[:2] == (400, "invalid-value")


@pytest.mark.parametrize(
    ("version", "body", "tty"),
    [
        ("1.19", {"interactive": True}, False),
        ("1.20", {"interactive": True}, True),
        ("1.35", {"interactive": False, "tty": True}, False),
        ("1.35", {"tty": True}, True),
        ("1.36", {"interactive": True}, False),
    ],
)
async def test_tty_follows_interactive_in_some_versions(
    plane: Plane, version: str, body: dict[str, Any], tty: bool
) -> None:
    assert (await plane.create(plane.client(version=version), None, **body))["tty"] is tty


async def test_order_of_checks_decides_which_error_wins(plane: Plane) -> None:
    """Contract §10.1: from the last check to the first, each wins over those behind it."""
    everything = {
        "image": "cirros", "host": "nowhere", "registry": "nope", "exposed_ports": {"0": {}},
        "restart_policy": {"Name": "always", "MaximumRetryCount": 1}, "image_pull_policy": "never",
        "privileged": True, "mounts": [{"destination": "/d"}], "healthcheck": {"cmd": 1},
        "nets": [{"network": "nope"}], "runtime": "x", "cpu": 16, "memory": 8192, "disk": 160,
    }  # fmt: skip
    expected = [
        ("disk", "over-quota"),
        ("runtime", "policy-not-authorized"),
        ("nets", "network-not-found"),
        ("healthcheck", "invalid-value"),
        ("mounts", "invalid-value"),
        ("privileged", "policy-not-authorized"),
        ("image_pull_policy", "policy-not-authorized"),
        ("restart_policy", "invalid-value"),
        ("exposed_ports", "invalid-value"),
        ("registry", "registry-not-found"),
        ("host", "policy-not-authorized"),
    ]
    for field, slug in expected:
        assert (await refused(plane, everything))[1] == slug, field
        del everything[field]
    assert (await plane.client().post(URL, json=everything)).status_code == 202


async def test_over_quota_asks_nobody_else(plane: Plane) -> None:
    """S1.6: 403, no row, no call to Placement."""
    status, slug, title = await refused(plane, {"image": "cirros", "disk": 160})
    assert (status, slug, title) == (403, "over-quota", "Quota exceeded for resources: ['disk']")
    assert "candidates" not in plane.placement.seen


async def test_defaults_count_against_the_quota(plane: Plane) -> None:
    """S1.5: what will be stored is what is counted."""
    await plane.client("admin").put("/v1/quotas/proj1", json={"cpu": 2})
    for _ in range(2):
        await plane.create(plane.client(), None)
    status, slug, _ = fault_of(await plane.client().post(URL, json={"image": "cirros"}))
    assert (status, slug) == (403, "over-quota")


async def test_fifty_creates_at_once_never_pass_the_quota(plane: Plane) -> None:
    """S1.5, S1.6."""
    await plane.client("admin").put("/v1/quotas/proj1", json={"containers": 7})
    client = plane.client()
    answers = await asyncio.gather(*(client.post(URL, json={"image": "cirros"}) for _ in range(50)))
    codes = [answer.status_code for answer in answers]
    assert codes.count(202) == 7
    assert codes.count(403) == 43
    assert (await plane.usage())["containers"] == 7
    assert await plane.count(containers) == 7
    provider = (await plane.client("admin").get("/v1/hosts")).json()["hosts"][0]["uuid"]
    assert len(await plane.api.control.placement.consumers(provider)) == 7


@pytest.mark.parametrize(("scope", "other_project"), [("project", 202), ("global", 409)])
async def test_names_are_unique_where_the_operator_says_so(tmp_path: Path, scope: str, other_project: int) -> None:
    async with make_plane(tmp_path, {"compute.unique_container_name_scope": scope}) as plane:
        await plane.add_host()
        client = plane.client()
        answers = await asyncio.gather(*(client.post(URL, json={"image": "cirros", "name": "Web"}) for _ in range(8)))
        assert sorted(answer.status_code for answer in answers) == [202] + [409] * 7
        status, slug, title = fault_of(await client.post(URL, json={"image": "cirros", "name": "wEB"}))
        assert (status, slug, title) == (
            409, "container-already-exists", "A container with name web already exists.",
        )  # fmt: skip
        other = plane.client(project_id="proj2")
        assert (await other.post(URL, json={"image": "cirros", "name": "web"})).status_code == other_project
        assert (await plane.usage())["containers"] == 1


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


async def test_query_knows_only_run(plane: Plane) -> None:
    status, slug, _ = fault_of(await plane.client().post(f"{URL}?name=abc", json={"image": "cirros"}))
    assert (status, slug) == (400, "schema-validation-error")


async def test_an_unknown_filter_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown filter NoFilter"):
        async with make_plane(tmp_path, {"scheduler.enabled_filters": "ComputeFilter,NoFilter"}):
            pytest.fail("the application must not start")


@pytest.mark.parametrize("enabled", ["CPUFilter", "RamFilter", "DiskFilter", "LabelFilter", "CpuSetFilter"])
async def test_every_filter_can_be_enabled(tmp_path: Path, enabled: str) -> None:
    async with make_plane(tmp_path, {"scheduler.enabled_filters": enabled}) as plane:
        await plane.add_host(labels={"ssd": "yes"})
        made = await plane.create(plane.client(), None, hints={"label:ssd": "yes"})
        assert made["status"] == "Creating"


async def test_dedicated_cores_go_to_a_host_that_gives_them_whatever_filters_are_on(plane: Plane) -> None:
    await plane.add_host("pinning", enable_cpu_pinning=True)
    for _ in range(2):
        assert (await plane.create(plane.client("admin"), None, cpu_policy="dedicated"))["host"] == "pinning"
