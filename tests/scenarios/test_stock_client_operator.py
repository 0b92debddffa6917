"""What operators type, and who has a registry: the unmodified `openstack` command on hosts, services, quotas,
registries."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.cloud import SLEEP, Cloud
from tests.support.registry import Registry, start_registry
from tests.support.stock_client import StockClient, refused, together
from tests.support.wait import wait_until

# -- the operator -----------------------------------------------------------------------------------------------


def test_hosts_services_and_zones(cloud: Cloud, admin: StockClient, team: Cloud, user: StockClient) -> None:
    team.running(cpu=0.5, memory=64)
    hosts, services, zones = together(
        lambda: admin.container("host", "list"),
        lambda: admin.container("service", "list"),
        lambda: user.container("availability", "zone", "list"),
    )
    (host,), (service,) = hosts, services
    name = host["hostname"]
    assert (service["Host"], service["Binary"], service["State"]) == (name, "zun-compute", "up")
    assert (service["Disabled"], service["Availability Zone"]) == (False, "nova")
    assert zones == [{"availability_zone": "nova"}]
    used = ("total_containers", "cpu_used", "mem_used")
    wait_until(lambda: [cloud.get(f"/hosts/{name}")[one] for one in used] == [1, 0.5, 64], 60, "the node told its use")
    shown = admin.container("host", "show", name)
    assert (shown["total_containers"], shown["cpu_used"], shown["mem_used"]) == (1, 0.5, 64)
    assert isinstance(shown["runtimes"], list)
    assert shown["enable_cpu_pinning"] is False


def test_a_node_is_disabled_and_forced_down_and_back(cloud: Cloud, admin: StockClient, team: Cloud) -> None:
    name = cloud.get("/services")["services"][0]["host"]
    node = (name, "zun-compute")
    try:
        disabled = admin.container("service", "disable", *node, "--reason", "new disk")
        assert (disabled["Disabled"], disabled["Disabled Reason"]) == (True, "new disk")
        assert "not enough hosts" in team.create()["status_reason"]
        assert admin.container("service", "enable", *node) == {
            "Host": name, "Binary": "zun-compute", "Disabled": False, "Disabled Reason": None,
        }  # fmt: skip
        assert admin.container("service", "forcedown", *node)["Forced_down"] is True
        assert admin.container("service", "list")[0]["State"] == "down"
        assert "not enough hosts" in team.create()["status_reason"]
    finally:
        assert admin.container("service", "forcedown", "--unset", *node)["Forced_down"] is False
    assert cloud.get("/services")["services"][0]["state"] == "up"
    assert team.running()


def test_a_host_that_is_gone_for_good_is_removed(cloud: Cloud, admin: StockClient, user: StockClient) -> None:
    """Of such a host only its record is left; here it is made of that of the one that runs."""
    with closing(sqlite3.connect(cloud.product.state.root / "zun.sqlite", timeout=30)) as db, db:
        names = [row[1] for row in db.execute("PRAGMA table_info(zun_services)") if row[1] not in ("id", "host")]
        same = ", ".join(names)
        db.execute(f"INSERT INTO zun_services (host, {same}) SELECT 'gone', {same} FROM zun_services")
    assert "gone" in [row["Host"] for row in admin.container("service", "list")]
    forbidden = user.raw("appcontainer", "service", "delete", "gone", "zun-compute")
    refused(forbidden, 403, ".*Policy doesn't allow zun-service:delete to be performed.")
    said = admin.text("appcontainer", "service", "delete", "gone", "zun-compute")
    assert "Request to delete binary zun-compute on host gone has been accepted." in said
    assert "gone" not in [row["Host"] for row in admin.container("service", "list")]
    again = admin.raw("appcontainer", "service", "delete", "gone", "zun-compute")
    refused(again, 404, ".*gone.*")


def test_quotas_and_their_class(cloud: Cloud, admin: StockClient, team: Cloud, user: StockClient) -> None:
    project = team.running(cpu=0.5, memory=64)["project_id"]
    limits, usages, defaults, klass, forbidden = together(
        lambda: user.container("quota", "get", project),
        lambda: user.container("quota", "get", "--usages", project),
        lambda: user.container("quota", "default", project),
        lambda: admin.container("quota", "class", "get", "default"),
        lambda: user.raw("appcontainer", "quota", "update", project, "--cpu", "1000"),
    )
    assert limits == defaults == klass
    assert set(limits) == {"containers", "memory", "cpu", "disk"}
    assert usages["memory"] == {"limit": limits["memory"], "in_use": 64}
    assert (usages["cpu"]["in_use"], usages["containers"]["in_use"]) == (0.5, 1)
    refused(forbidden, 403, "Policy doesn't allow quota:update to be performed.")
    try:
        updated = admin.container("quota", "update", "--containers", "1", "--memory", "-1", project)
        assert updated == limits | {"containers": 1, "memory": -1}
        over = user.raw("appcontainer", "run", "--cpu", "0.1", "busybox")
        refused(over, 403, r"Quota exceeded for resources: \['containers'\]")
    finally:
        deleted = admin.text("appcontainer", "quota", "delete", project)
    assert "Request to delete quotas has been accepted." in deleted
    assert team.get(f"/quotas/{project}") == limits
    try:
        changed = admin.container("quota", "class", "update", "default", "--disk", "77")
        assert changed == limits | {"disk": 77}
        assert team.get(f"/quotas/{project}/defaults")["disk"] == 77
    finally:
        assert cloud.http.put("/v1/quota_classes/default", json={"disk": limits["disk"]}).status_code == 200


# -- private registries -----------------------------------------------------------------------------------------


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Registry]:
    started = start_registry(tmp_path / "private", users={"puller": "its secret"})
    started.push_busybox("team/app", "1.0", marker=b"private")
    yield started
    started.stop()


def test_a_registry_with_a_password(team: Cloud, user: StockClient, private: Registry) -> None:
    image = f"{private.address}/team/app:1.0"
    created = user.container(
        "registry", "create", "--name", "team", "--domain", private.address, "--username", "puller",
        "--password", "wrong",
    )  # fmt: skip
    assert (created["name"], created["domain"], created["password"]) == ("team", private.address, "***")
    uuid = created["uuid"]
    for container in (team.create(image=image), team.create(image=image, registry="team")):
        reason = team.wait(container["uuid"], "Error")["status_reason"]
        assert "wrong" not in reason
        assert private.address in reason
    updated = user.container("registry", "update", "team", "--password", "its secret", "--name", "renamed")
    assert (updated["uuid"], updated["name"], updated["password"]) == (uuid, "renamed", "***")
    run = user.container(
        "run", "-f", "json", "--cpu", "0.1", "--memory", "32", "--registry", uuid, "team/app:1.0", *SLEEP
    )
    assert run["registry_id"] == uuid
    team.wait(run["uuid"], "Running")
    shown, listed, busy = together(
        lambda: user.container("registry", "show", "renamed"),
        lambda: user.container("registry", "list", "--domain", private.address, "--limit", "5"),
        lambda: user.raw("appcontainer", "registry", "delete", uuid),
    )
    assert (shown["uuid"], shown["username"], shown["password"]) == (uuid, "puller", "***")
    assert listed == [{"uuid": uuid, "name": "renamed", "domain": private.address, "username": "puller",
                       "password": "***"}]  # fmt: skip
    refused(busy, 409, f"Failed to delete registry {uuid} since it is in use.")
    for row in team.get("/containers")["containers"]:
        team.delete(row["uuid"], stop="true")
        team.wait_gone(row["uuid"])
    assert f"Request to delete registry {uuid} has been accepted." in user.text(
        "appcontainer", "registry", "delete", uuid
    )
    assert team.get("/registries")["registries"] == []
