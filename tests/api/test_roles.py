"""Who may do what, over the whole route table: readers change nothing, and nobody sees another project's things."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.api import fault
from tests.support.containers import Plane, make_plane
from zun.api.routes import ROUTES
from zun.api.table import Route
from zun.store.tables import containers, images, local_tokens, operations, quota_classes, quotas, registries, services

NETWORK = "7c3f6a52-1b0e-4f53-9d2a-6f0c1a2b3c4d"
CAPSULE = {"kind": "capsule", "metadata": {}, "spec": {"containers": [{"image": "cirros"}]}}
BODIES: dict[str, Any] = {
    "container.create": {"image": "cirros"},
    "container.update": {"name": "renamed"},
    "container.rename": {"name": "renamed"},
    "container.resize_container": {"cpu": 0.5},
    "container.execute": {"command": "ls"},
    "container.execute_resize": {"exec_id": "a" * 64, "h": 1, "w": 1},
    "container.resize": {"h": 1, "w": 1},
    "container.put_archive": {"path": "/", "data": "eA=="},
    "container.add_security_group": {"name": "default"},
    "container.remove_security_group": {"name": "default"},
    "registry.create": {"registry": {"domain": "d"}},
    "registry.update": {"registry": {"domain": "d"}},
    "capsule.create": {"template": CAPSULE},
    "image.pull": {"repo": "cirros", "host": "node1"},
    "network.create": {"neutron_net_id": NETWORK, "name": "theirs"},
    "quota.update": {"cpu": 1},
    "quota_class.update": {"cpu": 1},
    "service.enable": {"host": "node1", "binary": "zun-compute"},
    "service.disable": {"host": "node1", "binary": "zun-compute"},
    "service.force_down": {"host": "node1", "binary": "zun-compute", "forced_down": True},
    "service.delete": {"host": "node1", "binary": "zun-compute"},
}
QUERIES = {
    "container.commit": "?repository=r",
    "container.network_detach": "?network=n",
    "container.get_archive": "?path=/",
}
TABLES = (containers, images, operations, registries, services, quotas, quota_classes, local_tokens)


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    async with make_plane(tmp_path) as made:
        await made.add_host()
        yield made


async def _things(plane: Plane) -> dict[str, str]:
    """What the project ``proj1`` has: a value for every path parameter of the table."""
    owner = plane.client()
    made = await plane.create(owner, name="theirs")
    answer = await owner.post("/v1/registries", json={"registry": {"domain": "d", "name": "theirs"}})
    (action,) = (await owner.get(f"/v1/containers/{made['uuid']}/container_actions")).json()["containerActions"]
    capsule = (await owner.post("/v1/capsules", json={"template": CAPSULE})).json()["uuid"]
    return {
        "container_ident": made["uuid"], "capsule_ident": capsule, "registry_ident": answer.json()["registry"]["uuid"],
        "request_ident": action["request_id"], "project_id": "proj1", "quota_class_name": "default",
        "host_ident": "node1", "host": "node1", "binary": "zun-compute",
        "image_id": await _image(plane), "image": "cirros", "neutron_net_id": NETWORK,
    }  # fmt: skip


async def _image(plane: Plane) -> str:
    answer = await plane.client("admin").post("/v1/images", json={"repo": "cirros:theirs", "host": "node1"})
    return str(answer.json()["uuid"])


async def _call(client: httpx.AsyncClient, route: Route, things: dict[str, str]) -> httpx.Response:
    path = re.sub(r"{(\w+)}", lambda found: things[found[1]], route.path)
    client.headers["OpenStack-API-Version"] = f"container {route.max_version}"
    body = BODIES.get(route.operation)
    return await client.request(route.method, f"/v1{path}{QUERIES.get(route.operation, '')}", json=body)


async def _rows(plane: Plane) -> list[Any]:
    found: list[Any] = []
    async with plane.db.read() as connection:
        for table in TABLES:
            found.append([tuple(row) for row in await connection.execute(table.select())])
    return found


def _called(route: Route) -> str:
    return f"{route.operation} until {route.max_version}"


async def test_a_reader_changes_nothing(plane: Plane) -> None:
    things = await _things(plane)
    before, rings = await _rows(plane), list(plane.bus.rings)
    for route in [one for one in ROUTES if one.method != "GET"]:
        for roles in (("reader",), ("READER",)):
            error = fault(await _call(plane.client(*roles), route, things))
            assert (error["status"], error["code"]) == (403, "container.policy-not-authorized"), _called(route)
        assert await _rows(plane) == before, _called(route)
    assert (plane.bus.rings, plane.bus.calls) == (rings, [])


async def test_a_reader_reads_what_a_member_reads(plane: Plane) -> None:
    things = await _things(plane)
    for route in [one for one in ROUTES if one.method == "GET"]:
        reader, member = await _call(plane.client("reader"), route, things), await _call(plane.client(), route, things)
        assert reader.status_code == member.status_code, _called(route)
        if reader.status_code == 200:
            same = _told(reader) == _told(member) if route.events else reader.json() == member.json()
            assert same, _called(route)


def _told(answer: httpx.Response) -> list[str]:
    """The events of a stream; how often its silence was broken is the machine's."""
    return [line for line in answer.text.splitlines() if line.startswith(("event:", "data:"))]


OWNED = ("container_ident", "registry_ident")
SINGLE = [route for route in ROUTES if any(f"{{{name}}}" in route.path for name in OWNED)]


@pytest.mark.parametrize("by", ["uuid", "name"])
async def test_another_projects_object_does_not_exist(plane: Plane, by: str) -> None:
    things = await _things(plane)
    if by == "name":
        things |= dict.fromkeys(OWNED, "theirs")
    before = await _rows(plane)
    stranger = plane.client(project_id="proj2", user_id="user2")
    assert len(SINGLE) > 25
    for route in SINGLE:
        error = fault(await _call(stranger, route, things))
        nothing = fault(await _call(stranger, route, things | dict.fromkeys(OWNED, "no-such-thing")))
        assert error["status"] == nothing["status"] == 404, _called(route)
        assert error["code"] == nothing["code"], _called(route)
        assert await _rows(plane) == before, _called(route)
    assert plane.bus.calls == []


async def test_lists_hold_nothing_of_another_project(plane: Plane) -> None:
    things = await _things(plane)
    strangers = (plane.client(project_id="proj2", user_id="user2"), plane.client(project_id=None, user_id="user2"))
    for route in [one for one in ROUTES if one.method == "GET" and "{" not in one.path]:
        for stranger in strangers:
            for query in ("", "?project_id=proj1", "?name=theirs", f"?marker={things['container_ident']}"):
                answer = await stranger.get(f"/v1{route.path}{query}")
                if answer.status_code >= 400:
                    continue
                whole = answer.text if route.events else answer.json().values()
                found = whole if route.events else [value for value in whole if isinstance(value, list)]
                for secret in ("theirs", things["registry_ident"], things["container_ident"], "proj1"):
                    assert secret not in str(found), (_called(route), query)
            assert (await stranger.get(f"/v1{route.path}?all_projects=1")).status_code in (200, 403, 406)


async def test_quotas_of_another_project_are_not_read(plane: Plane) -> None:
    for path in ("/v1/quotas/proj1", "/v1/quotas/proj1/defaults", "/v1/quotas/proj1?usages=1"):
        assert (await plane.client(project_id="proj2").get(path)).status_code in (200, 403)
    assert (await plane.client(project_id="proj2").get("/v1/quotas/proj1")).status_code == 403


async def test_another_projects_registry_cannot_be_used(plane: Plane) -> None:
    things = await _things(plane)
    for ident in ("theirs", things["registry_ident"]):
        body = {"image": "cirros", "registry": ident}
        answer = await plane.client(project_id="proj2", user_id="user2").post("/v1/containers", json=body)
        assert fault(answer)["code"] == "container.registry-not-found"
