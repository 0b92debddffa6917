"""What Heat's OS::Zun::Container and Horizon's panels ask, each at its version, through zunclient 5.5."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.cloud import Cloud
from tests.support.engine import Engine
from tests.support.product import Product
from tests.support.registry import Registry
from tests.support.stock_api import StockApi, StockError
from tests.support.stock_client import StockClient
from tests.support.wait import wait_until

PANEL = "1.40"
"""Horizon's client negotiates the newest."""


@pytest.fixture(scope="module")
def scenario_product(tmp_path_factory: pytest.TempPathFactory, engine: Engine, registry: Registry) -> Iterator[Product]:
    """One that takes capsules, too."""
    product = Product(tmp_path_factory.mktemp("panels") / "zun", engine)
    product.conf(
        docker={"default_registry": registry.address},
        DEFAULT={
            "sync_container_state_interval": "5", "capsule_driver": "docker", "sandbox_image": engine.load_pause(),
        },
    )  # fmt: skip
    try:
        yield product.start()
    finally:
        product.stop()
        assert not product.remains(), product.remains()


def test_heats_container(team: Cloud, api: StockApi) -> None:
    """OS::Zun::Container: 1.12 for create, show and delete, 1.18 for updates."""
    created = api.call(
        "1.12", "containers.run", name="stack-web", image="busybox", command="sleep 1000", cpu=0.1, memory="32",
        environment={"A": "1"}, labels={"stack": "s"}, workdir="/", hostname="stackhost", interactive=False,
        restart_policy={"Name": "on-failure", "MaximumRetryCount": "2"}, image_driver="docker", hints={"k": "v"},
        security_groups=[], mounts=[{"destination": "/data", "size": 1}],
    )  # fmt: skip
    uuid = created["uuid"]
    assert created["command"] == ["sleep", "1000"]  # the client quotes the whole text; Heat means two words
    shown = team.wait(uuid, "Running")
    assert api.call("1.12", "containers.get", uuid)["interactive"] is False
    (ports,) = shown["addresses"].values()
    assert ports[0]["addr"]
    updated = api.call("1.18", "containers.update", uuid, name="stack-web2", cpu=0.2, memory="48")
    assert (updated["name"], updated["cpu"], updated["memory"]) == ("stack-web2", 0.2, "48")
    api.call("1.12", "containers.rename", uuid, "stack-web3")  # its way out where PATCH is refused
    assert api.call("1.12", "containers.get", "stack-web3")["uuid"] == uuid
    api.call("1.12", "containers.kill", uuid)  # sleep ignores SIGTERM as first process: spare the ten seconds
    team.wait(uuid, "Stopped")
    api.call("1.12", "containers.delete", uuid, stop=True)
    team.wait_gone(uuid)
    with pytest.raises(StockError) as gone:
        api.call("1.12", "containers.get", uuid)
    assert (gone.value.kind, gone.value.status) == ("NotFound", 404)


def test_heat_reads_the_reason_of_a_failure(team: Cloud, api: StockApi) -> None:
    uuid = api.call("1.12", "containers.run", image="no-such-image")["uuid"]
    team.wait(uuid, "Error")
    assert "no-such-image:latest was not found" in api.call("1.12", "containers.get", uuid)["status_reason"]


def test_horizons_panel(team: Cloud, api: StockApi) -> None:
    """Its table reads maps of every row without asking whether they are there, and memory as a number."""
    bare = team.create(run=False, command=None)["uuid"]
    full = team.running(labels={"cloud-shell": "x"}, interactive=True)["uuid"]
    failed = team.create(image="no-such-image")["uuid"]
    team.wait(bare, "Created")
    team.wait(failed, "Error")
    rows = {row["uuid"]: row for row in api.call("1.40", "containers.list")}
    assert set(rows) == {bare, full, failed}
    for row in rows.values():
        for name in ("labels", "environment", "addresses", "restart_policy", "healthcheck"):
            assert isinstance(row[name], dict), name
        for name in ("ports", "security_groups", "command", "entrypoint"):
            assert isinstance(row[name], list), name
        assert int(row["memory"]) == 32
        assert isinstance(row["interactive"], bool)
    assert rows[full]["labels"] == {"cloud-shell": "x"}
    assert (rows[full]["status"], rows[full]["interactive"]) == ("Running", True)
    assert api.call("1.40", "containers.update", full, cpu=0.2, memory=40, name="panel")["memory"] == "40"
    config = 'clouds:\n  devstack: "it\'s"\n'
    text = config.replace('"', '\\"').replace("'", "'\\''")
    ran = api.call("1.40", "containers.execute", full, command=f"sh -c 'printf \"{text}\" > /tmp/c; cat /tmp/c'")
    assert (ran["exit_code"], ran["output"]) == (0, config)
    api.call("1.40", "containers.stop", full, 10)
    team.wait(full, "Stopped")
    api.call("1.40", "containers.start", full)
    team.wait(full, "Running")
    assert api.call("1.40", "containers.logs", full, stdout=True, stderr=True) == ""
    assert api.call("1.40", "availability_zones.list") == [{"availability_zone": "nova"}]
    with pytest.raises(StockError) as conflict:
        api.call("1.40", "containers.delete", full, force=False, stop=False)
    assert (conflict.value.kind, conflict.value.status) == ("Conflict", 409)


def test_heats_volumes_and_its_way_out_of_updates(team: Cloud, api: StockApi) -> None:
    """A volume by its name; rename at 1.12 where PATCH is refused; 404 is gone and 409 a conflict to it."""
    team.product.cli("volume", "create", "stack-volume", "--project", "team")
    try:
        uuid = api.call(
            "1.12", "containers.run", name="stack-db", image="busybox", command="sleep 1000", cpu=0.1, memory="32",
            security_groups=[], mounts=[{"destination": "/db", "source": "stack-volume"}],
        )["uuid"]  # fmt: skip
        team.wait(uuid, "Running")
        with pytest.raises(StockError) as newer:  # the way that 1.14 took away
            api.call("1.18", "containers.rename", uuid, "stack-db2")
        assert (newer.value.kind, newer.value.status) == ("NotAcceptable", 406)
        api.call("1.12", "containers.rename", uuid, "stack-db2")
        with pytest.raises(StockError) as conflict:
            api.call("1.12", "containers.delete", uuid, stop=False)
        assert (conflict.value.kind, conflict.value.status) == ("Conflict", 409)
        api.call("1.12", "containers.kill", uuid)
        team.wait(uuid, "Stopped")
        api.call("1.12", "containers.delete", uuid, stop=True)
        team.wait_gone(uuid)
    finally:
        team.product.cli("volume", "delete", "stack-volume", "--project", "team")


def test_horizons_buttons(team: Cloud, api: StockApi) -> None:
    """Each action of a container's row, its console, and both ways to delete."""
    trap = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"]
    uuid = api.call(
        PANEL, "containers.run", image="busybox", name="panel", command=trap, cpu=0.1, memory=32, interactive=True,
        tty=True, nets=[], mounts=[], environment={}, labels={}, hints={},
    )["uuid"]  # fmt: skip
    team.wait(uuid, "Running")
    for verb, status, args in (
        ("pause", "Paused", ()), ("unpause", "Running", ()), ("restart", "Running", (10,)), ("stop", "Stopped", (10,)),
        ("start", "Running", ()), ("kill", "Stopped", ("SIGKILL",)),
    ):  # fmt: skip
        api.call(PANEL, f"containers.{verb}", uuid, *args)
        team.wait(uuid, status)
    api.call(PANEL, "containers.rebuild", uuid, image="other")
    assert team.wait(uuid, "Created")["image"] == "other"  # made anew, and not started: it did not run
    api.call(PANEL, "containers.start", uuid)
    team.wait(uuid, "Running")
    url = api.call(PANEL, "containers.attach", uuid)
    assert url.startswith("ws://")
    assert f"uuid={uuid}" in url
    assert api.call(PANEL, "containers.resize", uuid, 100, 30) is None
    with pytest.raises(StockError, match="Policy doesn't allow container:delete_force") as refused:
        api.call(PANEL, "containers.delete", uuid, force=True)
    assert refused.value.kind == "Forbidden"
    api.call(PANEL, "containers.delete", uuid, stop=True)
    team.wait_gone(uuid)


def test_horizons_cloud_shell(team: Cloud, api: StockApi) -> None:
    """A container for a user's client, and two commands that write its file."""
    uuid = api.call(
        PANEL, "containers.run", image="busybox", command=["/bin/sh"], interactive=True, cpu=0.1, memory=32,
        environment={"OS_CLOUD": "openstack"}, labels={"cloud-shell": "user"},
    )["uuid"]  # fmt: skip
    team.wait(uuid, "Running")
    yaml = 'clouds:\n  openstack:\n    auth:\n      token: "a b"\n'
    script = "mkdir -p /tmp/openstack"
    assert api.call(PANEL, "containers.execute", uuid, command=f"sh -c '{script}'")["exit_code"] == 0
    quoted = yaml.replace('"', '\\"')
    said = api.call(
        PANEL, "containers.execute", uuid, command=f"sh -c 'printf \"{quoted}\" > /tmp/openstack/clouds.yaml'"
    )
    assert said["exit_code"] == 0, said
    read = api.call(PANEL, "containers.execute", uuid, command="cat /tmp/openstack/clouds.yaml")
    assert read["output"] == yaml


def test_horizons_panel_of_capsules(team: Cloud, api: StockApi) -> None:
    template = {
        "kind": "capsule", "capsuleVersion": "beta", "metadata": {"name": "panel", "labels": {"app": "x"}},
        "spec": {"containers": [{
            "image": "busybox", "command": ["sleep"], "args": ["1000"],
            "resources": {"requests": {"cpu": 0.1, "memory": 32}},
        }]},
    }  # fmt: skip
    made = api.call(PANEL, "capsules.create", template=json.loads(json.dumps(template)))
    uuid = made["uuid"]
    try:
        wait_until(lambda: api.call(PANEL, "capsules.get", uuid)["status"] == "Running", 60, "the capsule runs")
        (row,) = api.call(PANEL, "capsules.list")
        shown = api.call(PANEL, "capsules.get", uuid)
        assert (row["uuid"], row["name"], row["labels"], row["cpu"]) == (uuid, "panel", {"app": "x"}, 0.1)
        assert [one["image"] for one in shown["containers"]] == ["busybox"]
        assert isinstance(shown["addresses"], dict)
    finally:
        api.call(PANEL, "capsules.delete", uuid)
        wait_until(lambda: api.call(PANEL, "capsules.list") == [], 60, "the capsule is gone")


def test_horizons_panels_of_administrators(cloud: Cloud, admin: StockClient) -> None:
    """Images of hosts, and hosts."""
    with StockApi(admin) as operator:
        (host,) = operator.call(PANEL, "hosts.list")
        shown = operator.call(PANEL, "hosts.get", host["uuid"])
        assert (shown["hostname"], shown["uuid"]) == (host["hostname"], host["uuid"])
        assert isinstance(shown["labels"], dict)
        made = operator.call(PANEL, "images.create", repo="other", host=host["hostname"])

        def pulled() -> bool:
            return any(row["image_id"] for row in operator.call(PANEL, "images.list") if row["uuid"] == made["uuid"])

        wait_until(pulled, 60, "the host has the image")
        operator.call(PANEL, "images.delete", made["uuid"])
        wait_until(lambda: operator.call(PANEL, "images.list") == [], 60, "the image is gone")
        assert operator.call(PANEL, "availability_zones.list") == [{"availability_zone": "nova"}]
