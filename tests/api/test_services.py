"""Stories of services, zones and hosts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.support.api import Api, fault
from zun.store import compute_nodes, services

BINARY = "zun-compute"
NODE: dict[str, Any] = {
    "mem_total": 4096,
    "mem_used": 512,
    "cpus": 4,
    "cpu_used": 0.5,
    "disk_total": 80,
    "disk_used": 10,
    "disk_quota_supported": False,
    "total_containers": 1,
    "architecture": "x86_64",
    "os_type": "linux",
    "os": "Debian",
    "kernel_version": "6.1",
    "labels": None,
    "runtimes": ["runc"],
    "enable_cpu_pinning": False,
}


async def _register(api: Api, host: str, zone: str | None = "nova", age: float = 0) -> None:
    now = api.control.clock.now() - timedelta(seconds=age)
    async with api.control.db.write() as connection:
        await services.register(
            connection, host=host, binary=BINARY, availability_zone=zone, instance=f"i-{host}", now=now
        )


async def test_list_tells_who_is_up(api: Api, admin: httpx.AsyncClient) -> None:
    await _register(api, "host1")
    await _register(api, "host2", None, age=181)
    answer = await admin.get("/v1/services?anything=ignored")
    assert answer.status_code == 200
    assert answer.json().keys() == {"services"}
    one, two = answer.json()["services"]
    assert (
        one.items()
        >= {
            "id": 1,
            "host": "host1",
            "binary": BINARY,
            "state": "up",
            "disabled": False,
            "disabled_reason": None,
            "forced_down": False,
            "report_count": 0,
            "availability_zone": "nova",
        }.items()
    )
    assert one.keys() == {
        "id",
        "host",
        "binary",
        "state",
        "disabled",
        "disabled_reason",
        "forced_down",
        "report_count",
        "last_seen_up",
        "availability_zone",
        "created_at",
        "updated_at",
    }
    assert "T" in one["last_seen_up"]
    assert (two["state"], two["availability_zone"]) == ("down", "nova")


async def test_heartbeats_belong_to_one_process(api: Api) -> None:
    await _register(api, "host1", age=1000)
    now = api.control.clock.now()
    async with api.control.db.write() as connection:
        assert await services.heartbeat(connection, "host1", BINARY, "i-host1", now)
        assert not await services.heartbeat(connection, "host1", BINARY, "another", now)
        assert not await services.heartbeat(connection, "host9", BINARY, "i-host1", now)
        row = await services.get(connection, "host1", BINARY)
    assert row is not None
    assert (row["report_count"], row["last_seen_up"]) == (1, now)
    assert services.is_up(row, now + timedelta(seconds=180), 180)
    assert not services.is_up(row, now + timedelta(seconds=180.001), 180)


async def test_disable_enable_force_down(api: Api, admin: httpx.AsyncClient) -> None:
    await _register(api, "host1")
    ref = {"host": "host1", "binary": BINARY}
    answer = await admin.put("/v1/services/disable", params={**ref, "disabled_reason": "repair"})
    assert answer.json() == {"service": {**ref, "disabled": True, "disabled_reason": "repair"}}
    (row,) = (await admin.get("/v1/services")).json()["services"]
    assert (row["disabled"], row["disabled_reason"]) == (True, "repair")
    answer = await admin.put("/v1/services/enable", json=ref)
    assert answer.json() == {"service": {**ref, "disabled": False, "disabled_reason": None}}
    for value, down in (("True", True), ("false", False), (True, True)):
        answer = await admin.put("/v1/services/force_down", json={**ref, "forced_down": value})
        assert answer.json() == {"service": {**ref, "forced_down": down}}
        (row,) = (await admin.get("/v1/services")).json()["services"]
        assert row["state"] == ("down" if down else "up")
    await _register(api, "host1")
    (row,) = (await admin.get("/v1/services")).json()["services"]
    assert row["forced_down"] is True


@pytest.mark.parametrize("path", ["/v1/services?host=host1&binary=zun-compute", "/v1/services/host1/zun-compute"])
async def test_delete(api: Api, admin: httpx.AsyncClient, path: str) -> None:
    await _register(api, "host1")
    answer = await admin.delete(path)
    assert (answer.status_code, answer.json()) == (200, None)
    error = fault(await admin.delete(path))
    assert (error["status"], error["code"]) == (404, "container.zun-service-not-found")
    assert (await admin.get("/v1/services")).json() == {"services": []}


async def test_faults_of_services(api: Api, admin: httpx.AsyncClient) -> None:
    for path, words in (
        ("enable", "'host' is a required property"),
        ("enable?host=h", "'binary' is a required property"),
        ("force_down?host=h&binary=b", "'forced_down' is a required property"),
        ("force_down?host=h&binary=b&forced_down=yes", "'yes' is not one of"),
        ("disable?host=h&binary=b&disabled_reason=", "too short"),
        ("enable?host=h&binary=b&x=1", "('x' was unexpected)"),
        (f"enable?host={'h' * 256}&binary=b", "too long"),
    ):
        error = fault(await admin.put(f"/v1/services/{path}"))
        assert (error["status"], error["code"]) == (400, "container.schema-validation-error"), path
        assert words in error["title"], path
    assert (await admin.put("/v1/services/enable?host=h&binary=b")).status_code == 404
    assert (await admin.post("/v1/services")).status_code == 405
    assert (await admin.get("/v1/services/enable")).status_code == 405
    member = api.client()
    for answer in (
        await member.put("/v1/services/enable?host=h&binary=b"),
        await member.delete("/v1/services?host=h&binary=b"),
        await member.delete("/v1/services/h/b"),
    ):
        assert answer.status_code == 403


async def test_zones_have_no_next(api: Api, member: httpx.AsyncClient) -> None:
    assert (await member.get("/v1/availability_zones")).json() == {"availability_zones": [], "next": None}
    for host, zone in (("h1", "b"), ("h2", "a"), ("h3", "b"), ("h4", None), ("h5", "")):
        await _register(api, host, zone)
    for query, zones in (
        ("", ["a", "b", "nova"]),
        ("?limit=3", ["a", "b", "nova"]),
        ("?limit=1", ["a"]),
        ("?marker=x", ["a", "b", "nova"]),
        ("?sort_dir=desc", ["nova", "b", "a"]),
    ):
        answer = await member.get(f"/v1/availability_zones{query}")
        assert answer.json() == {
            "availability_zones": [{"availability_zone": zone} for zone in zones],
            "next": None,
        }
    assert (await member.get("/v1/availability_zones?limit=0")).status_code == 400


async def test_hosts(api: Api, admin: httpx.AsyncClient) -> None:
    now = api.control.clock.now()
    async with api.control.db.write() as connection:
        uuids = [
            await compute_nodes.upsert(connection, {**NODE, "hostname": name}, now) for name in ("node.b", "node.a")
        ]
        again = await compute_nodes.upsert(connection, {**NODE, "hostname": "node.b", "mem_used": 1024}, now)
    assert again == uuids[0]
    body = (await admin.get("/v1/hosts")).json()
    assert [host["hostname"] for host in body["hosts"]] == ["node.a", "node.b"]
    assert body["next"] is None
    for ident in (uuids[0], "node.b"):
        host = (await admin.get(f"/v1/hosts/{ident}")).json()
        expected = {**NODE, "hostname": "node.b", "mem_used": 1024, "labels": {}, "uuid": uuids[0]}
        assert {name: value for name, value in host.items() if name != "links"} == expected
        assert host["links"][0] == {"href": f"http://localhost/v1/hosts/{uuids[0]}", "rel": "self"}
    async with api.control.db.write() as connection:
        await compute_nodes.set_usage(connection, "node.b", disk_pressure=True)
    told = (await admin.get("/v1/hosts?pressure=true&limit=1")).json()
    assert [host["conditions"] for host in told["hosts"]] == [[]]
    (second_told,) = (await admin.get(told["next"])).json()["hosts"]
    assert second_told == host | {"conditions": ["DISK_PRESSURE"]}
    assert (await admin.get("/v1/hosts/node.b?pressure=1")).json() == second_told
    assert (await admin.get("/v1/hosts/node.b?pressure=false")).json() == host
    assert (await admin.get("/v1/hosts/node.b?pressure=perhaps")).status_code == 400
    first = (await admin.get("/v1/hosts?limit=1")).json()
    assert first["next"].endswith(f"/v1/hosts?sort_key=hostname&sort_dir=asc&limit=1&marker={uuids[1]}")
    second = (await admin.get(first["next"])).json()
    assert [host["hostname"] for host in second["hosts"]] == ["node.b"]
    error = fault(await admin.get("/v1/hosts/nothing"))
    assert (error["status"], error["code"]) == (404, "container.compute-node-not-found")
    assert (await admin.get("/v1/hosts?marker=nothing")).status_code == 404
    assert (await api.client().get("/v1/hosts")).status_code == 403
