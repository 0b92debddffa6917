"""Creating containers: the refusals, their order, and that they leave nothing (contract §10.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.api import fault, told
from tests.support.containers import Plane, make_plane, refused
from zun.conf import ConfigError

URL = "/v1/containers"


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


async def test_query_knows_only_run(plane: Plane) -> None:
    status, slug, _ = told(await plane.client().post(f"{URL}?name=abc", json={"image": "cirros"}))
    assert (status, slug) == (400, "schema-validation-error")


@pytest.mark.parametrize(
    ("hints", "text"),
    [({"pci:gpu": 1}, "no host offers any"), ({"pci:other": 1}, "names no kind"), ({"pci:gpu": "x"}, "takes a number")],
)
async def test_pci_devices_are_refused_clearly(tmp_path: Path, hints: dict[str, Any], text: str) -> None:
    async with make_plane(tmp_path, {"pci.alias": '{"name": "gpu", "vendor_id": "10de"}'}) as plane:
        await plane.add_host()
        refused = await plane.client().post("/v1/containers", json={"image": "busybox", "hints": hints})
        assert refused.status_code == 400
        assert text in fault(refused)["detail"]


async def test_a_wrong_pci_alias_is_told_at_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[pci\]"):
        async with make_plane(tmp_path, {"pci.alias": "gpu"}):
            pytest.fail("the application must not start")
