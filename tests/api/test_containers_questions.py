"""Questions to the node: how they reach it, how they come back, and what is refused (§10.5)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api import told
from tests.support.containers import STATS, Plane
from zun.domain.errors import Conflict

URL = "/v1/containers"


async def test_questions_reach_the_node_and_come_back_as_the_contract_shows(plane: Plane) -> None:
    client, made = plane.client(), await plane.create(plane.client(), name="web")
    one = f"{URL}/{made['uuid']}"
    plane.bus.answers = {
        "logs": "hello\n", "execute": {"output": "hi\n", "exit_code": 3}, "stats": STATS, "resize": None,
        "top": {"Titles": ["PID"], "Processes": [["1"]]},
    }  # fmt: skip
    assert (await client.get(f"{one}/logs?tail=5&since=2026-01-01 00:00:00,500&stderr=no")).json() == "hello\n"
    assert plane.bus.calls[-1] == (
        "node1", "logs",
        {"uuid": made["uuid"], "stdout": True, "stderr": False, "timestamps": False, "tail": 5, "since": 1767225600.5},
    )  # fmt: skip
    assert (await client.get(f"{one}/logs?tail=all")).status_code == 200
    assert plane.bus.calls[-1][2]["tail"] is None
    assert (await client.get(f"{one}/logs?since=yesterday")).status_code == 400
    executed = await client.post(f"{one}/execute", json={"command": "sh -c 'a b'"})
    assert executed.json() == {"output": "hi\n", "exit_code": 3, "exec_id": None, "proxy_url": None}
    assert plane.bus.calls[-1][2]["command"] == ["sh", "-c", "a b"]
    assert (await client.get(f"{one}/stats")).json() == {
        "CONTAINER": "web", "CPU %": 1.5, "MEM USAGE(MiB)": 64.0, "MEM LIMIT(MiB)": 512.0, "MEM %": 12.5,
        "BLOCK I/O(B)": "1/2", "NET I/O(B)": "3/4",
    }  # fmt: skip
    assert (await client.get(f"{one}/top?ps_args=None")).json() == {"Titles": ["PID"], "Processes": [["1"]]}
    assert plane.bus.calls[-1][2]["ps_args"] is None
    assert (await client.post(f"{one}/resize?h=24&w=80")).json() is None
    assert plane.bus.calls[-1][2] == {"uuid": made["uuid"], "height": 24, "width": 80}


async def test_a_node_that_does_not_answer_is_503_named_to_admins_only(plane: Plane) -> None:
    uuid = (await plane.create(plane.client()))["uuid"]
    member = await plane.client().get(f"{URL}/{uuid}/logs")
    assert member.status_code == 503
    assert "node1" not in member.text
    assert "node1" in (await plane.client("admin").get(f"{URL}/{uuid}/logs")).text


async def test_the_nodes_refusal_comes_without_suffix(plane: Plane) -> None:
    uuid = (await plane.create(plane.client()))["uuid"]
    plane.bus.answers["execute"] = Conflict("The command ran longer than 5 seconds.")
    answer = await plane.client().post(f"{URL}/{uuid}/execute", json={"command": "sleep 9"})
    assert told(answer) == (409, "conflict", "The command ran longer than 5 seconds.")


@pytest.mark.parametrize("body", [{}, {"command": ""}, {"command": "a 'b"}, {"command": "ls", "bogus": 1}])
async def test_execute_refuses_what_it_cannot_run(plane: Plane, body: dict[str, Any]) -> None:
    uuid = (await plane.create(plane.client()))["uuid"]
    assert (await plane.client().post(f"{URL}/{uuid}/execute", json=body)).status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "more", "code"),
    [
        ("GET", "get_archive", {}, 400),
        ("POST", "put_archive", {"params": {"path": "/"}, "json": {"data": "%%%"}}, 400),
        ("POST", "commit", {"params": {"repository": "r"}}, 409),
        ("POST", "commit", {"json": {"repository": "r"}}, 400),
        ("POST", "network_detach", {"params": {"network": "n", "port": "p"}}, 400),
        ("POST", "network_attach", {"params": {"network": "n", "port": "p"}}, 400),
        ("POST", "network_attach", {"json": {"fixed_ip": "nope"}}, 400),
    ],
)
async def test_what_is_not_offered_is_checked_and_told(
    plane: Plane, method: str, path: str, more: dict[str, Any], code: int
) -> None:
    uuid = (await plane.create(plane.client()))["uuid"]
    answer = await plane.client().request(method, f"{URL}/{uuid}/{path}", **more)
    status, _, title = told(answer)
    assert status == code, title
    if code == 409:
        assert "is not offered by this deployment" in title


@pytest.mark.parametrize(
    ("path", "version", "code"),
    [
        ("add_security_group?name=default", "1.14", 400),
        ("add_security_group?name=a", "1.15", 406),
        ("rename?name=newname", "1.13", 200),
        ("rename?name=newname", "1.14", 406),
        ("resize_container", "1.18", 406),
        ("network_attach", "1.7", 406),
        ("network_detach?network=a", "1.5", 406),
    ],
)
async def test_routes_have_their_versions(plane: Plane, path: str, version: str, code: int) -> None:
    uuid = (await plane.create(plane.client()))["uuid"]
    assert (await plane.client(version=version).post(f"{URL}/{uuid}/{path}")).status_code == code


ADDRESSES = {
    "net1": [
        {"addr": "10.0.0.2", "version": 4, "port": "port1", "subnet_id": "sub4", "preserve_on_delete": False},
        {"addr": "fd00::2", "version": 6, "port": "port1", "subnet_id": "sub6", "preserve_on_delete": False},
    ]
}


async def test_network_list_in_both_shapes(plane: Plane) -> None:
    uuid = (await plane.create(plane.client()))["uuid"]
    await plane.set_row(uuid, addresses=ADDRESSES)
    old = (await plane.client(version="1.17").get(f"{URL}/{uuid}/network_list")).json()
    assert old["networks"][0] == {
        "net_id": "net1", "subnet_id": "sub4", "port_id": "port1", "version": 4, "ip_address": "10.0.0.2",
    }  # fmt: skip
    assert len(old["networks"]) == 2
    new = (await plane.client().get(f"{URL}/{uuid}/network_list")).json()
    assert new == {
        "networks": [
            {
                "net_id": "net1",
                "port_id": "port1",
                "fixed_ips": [
                    {"subnet_id": "sub4", "version": 4, "ip_address": "10.0.0.2"},
                    {"subnet_id": "sub6", "version": 6, "ip_address": "fd00::2"},
                ],
            }
        ]
    }
