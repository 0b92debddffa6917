"""Programs on zunclient 5.5; and what the `openstack` command cannot print itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cloud import Cloud
from tests.support.stock_api import StockApi, StockError
from tests.support.stock_client import StockClient, together


def test_top_and_networks_which_the_command_itself_cannot_print(team: Cloud, api: StockApi, user: StockClient) -> None:
    """`top` formats like Python 2 and `network list` names a formatter that osc-lib refuses: the client ends with an
    error of its own after a good answer. So the answers are read through its Python interface."""
    uuid = team.begun(team.running(name="look")["uuid"])
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
