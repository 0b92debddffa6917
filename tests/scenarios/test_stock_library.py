"""Programs on zunclient 5.5: Heat, Horizon, scripts; and what the `openstack` command cannot print itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cloud import Cloud
from tests.support.stock_api import StockApi, StockError
from tests.support.stock_client import StockClient, together


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


def test_top_and_networks_which_the_command_itself_cannot_print(team: Cloud, api: StockApi, user: StockClient) -> None:
    """`top` formats like Python 2 and `network list` names a formatter that osc-lib refuses: the client ends with an
    error of its own after a good answer. So the answers are read through its Python interface."""
    uuid = team.running(name="look")["uuid"]
    top = api.call("1.40", "containers.top", "look")
    assert top["Titles"][-1] == "CMD"
    commands = [row[-1] for row in top["Processes"]]
    assert any("sleep 1000" in command for command in commands)
    pid = top["Processes"][0][top["Titles"].index("PID")]
    assert [row[0] for row in api.call("1.40", "containers.top", "look", pid)["Processes"]] == [pid]
    ((net_id, (port,)),) = team.get(f"/containers/{uuid}")["addresses"].items()
    (new,) = api.call("1.40", "containers.network_list", "look")
    assert new == {
        "net_id": net_id, "port_id": port["port"],
        "fixed_ips": [{"subnet_id": port["subnet_id"], "version": 4, "ip_address": port["addr"]}],
    }  # fmt: skip
    (old,) = api.call("1.17", "containers.network_list", "look")
    assert old == {
        "net_id": net_id, "subnet_id": port["subnet_id"], "port_id": port["port"], "version": 4,
        "ip_address": port["addr"],
    }  # fmt: skip
    printed_top, printed_networks = together(
        lambda: user.raw("appcontainer", "top", "look"), lambda: user.raw("appcontainer", "network", "list", "look")
    )
    assert "unsupported operand type(s) for %" in printed_top.stderr
    assert "Invalid formatter provided." in printed_networks.stderr


def test_the_client_follows_next_where_the_server_gives_less_than_the_limit(
    cloud: Cloud, team: Cloud, user: StockClient
) -> None:
    """[api]/max_limit caps a page; the client then asks for the path of ``next`` below its endpoint."""
    uuids = [team.create(run=False)["uuid"] for _ in range(5)]
    for uuid in uuids:
        team.wait(uuid, "Created")
    cloud.product.conf(api={"max_limit": "2"}).restart()
    try:
        with StockApi(user) as api:
            listed = api.call("1.40", "containers.list", limit=5)
            assert [row["uuid"] for row in listed] == uuids
            assert [row["uuid"] for row in api.call("1.40", "containers.list")] == uuids[:2]
    finally:
        cloud.product.conf(api={"max_limit": "1000"}).restart()


def test_refusals_have_the_class_and_the_text_that_programs_look_at(
    cloud: Cloud, team: Cloud, api: StockApi, admin: StockClient
) -> None:
    foreign = cloud.create(run=False)["uuid"]
    busy = team.running()["uuid"]
    twice = [team.create(run=False, name="twice")["uuid"] for _ in range(2)]

    def refused(kind: str, text: str, version: str, method: str, *args: Any, by: StockApi = api, **kwargs: Any) -> None:
        with pytest.raises(StockError, match=text) as error:
            by.call(version, method, *args, **kwargs)
        assert error.value.kind == kind, error.value
        assert "(Request-ID: req-" in error.value.text

    unseen = f"Container {foreign} could not be found."
    refused("NotFound", unseen, "1.40", "containers.get", foreign)
    refused("NotFound", unseen, "1.40", "containers.list", limit=1, marker=foreign)
    refused(
        "NotFound", "no-such-network", "1.40", "containers.run", image="busybox", nets=[{"network": "no-such-network"}]
    )
    refused("NotFound", "no-such-registry", "1.40", "registries.get", "no-such-registry")
    refused("Conflict", "Multiple containers exist with same name.", "1.40", "containers.get", "twice")
    refused("Conflict", f"Cannot delete container {busy} in Running state", "1.40", "containers.delete", busy)
    refused("Conflict", "Making an image of a container is not offered", "1.40", "containers.commit", busy, "repo")
    refused("Forbidden", "Policy doesn't allow host:get_all to be performed.", "1.40", "hosts.list")
    refused(
        "Forbidden",
        "Policy doesn't allow container:create:runtime",
        "1.40",
        "containers.run",
        image="busybox",
        runtime="runc",
    )
    refused("BadRequest", "Limit must be positive integer", "1.40", "containers.list", limit=-1)
    refused("BadRequest", "no_such_column", "1.40", "containers.list", limit=1, sort_key="no_such_column")
    refused("BadRequest", "'memory'", "1.40", "containers.run", image="busybox", memory="1")
    refused("BadRequest", "'SIGNOTHING' is not a signal", "1.40", "containers.kill", busy, "SIGNOTHING")
    refused("BadRequest", "hostname", "1.8", "containers.run", image="busybox", hostname="h")
    refused("BadRequest", "stop is only supported from version 1.12", "1.11", "containers.delete", busy, stop=True)
    refused("NotAcceptable", "HTTP 406", "1.3", "hosts.list")
    with StockApi(admin) as operator:
        refused("NotFound", "no-such-host", "1.40", "hosts.get", "no-such-host", by=operator)
        refused("NotFound", "no-such-host", "1.40", "services.delete", "no-such-host", "zun-compute", by=operator)
    assert {row["uuid"] for row in api.call("1.40", "containers.list")} == {busy, *twice}
    assert team.wait(busy, "Running")
