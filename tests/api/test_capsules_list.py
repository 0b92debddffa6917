"""Capsules in the API: lists, lookup by name, members under /containers."""

from __future__ import annotations

import pytest

from tests.support.api import fault
from tests.support.capsules import create, template
from tests.support.containers import Plane


async def test_paging(plane: Plane) -> None:
    client = plane.client()
    made = [(await create(client, template(name=f"cap-{number}")))["uuid"] for number in range(3)]
    await plane.create(client, name="a-container")
    first = (await client.get("/v1/capsules", params={"limit": 2, "unknown": "x"})).json()
    assert [one["uuid"] for one in first["capsules"]] == made[:2]
    assert first["next"].startswith("http://localhost/v1/capsules?")
    assert f"marker={made[1]}" in first["next"]
    second = (await client.get(first["next"])).json()
    assert [one["uuid"] for one in second["capsules"]] == made[2:]
    assert second["next"] is None
    assert all(one["links"] and len(one["containers"]) == 1 for one in first["capsules"])
    down = (await client.get("/v1/capsules", params={"sort_key": "name", "sort_dir": "desc"})).json()["capsules"]
    assert [one["name"] for one in down] == ["cap-2", "cap-1", "cap-0"]


@pytest.mark.parametrize(
    ("query", "status"), [("limit=0", 400), ("sort_key=password", 400), ("marker=none", 404), ("all_projects=x", 400)]
)
async def test_bad_lists(plane: Plane, query: str, status: int) -> None:
    assert fault(await plane.client().get(f"/v1/capsules?{query}"))["status"] == status


async def test_sorting_by_the_host_is_for_those_who_see_it(plane: Plane) -> None:
    assert (await plane.client().get("/v1/capsules?sort_key=host")).status_code == 403
    assert (await plane.client("admin").get("/v1/capsules?sort_key=host")).status_code == 200


async def test_capsules_are_found_by_name_and_containers_are_not_among_them(plane: Plane) -> None:
    client = plane.client()
    made = await create(client, template(name="web"))
    container = await plane.create(client, name="web")
    assert (await client.get("/v1/capsules/web")).json()["uuid"] == made["uuid"]
    assert (await client.get("/v1/containers/web")).json()["uuid"] == container["uuid"]
    assert fault(await client.get(f"/v1/capsules/{container['uuid']}"))["code"] == "container.container-not-found"
    assert fault(await client.get(f"/v1/containers/{made['uuid']}"))["code"] == "container.container-not-found"
    names = [one["name"] for one in (await client.get("/v1/containers")).json()["containers"]]
    assert names == ["web"]
    await create(client, template(name="web"))
    error = fault(await client.get("/v1/capsules/web"))
    assert error["title"] == "Multiple containers exist with same name. Please use the container uuid instead."


async def test_members_answer_by_their_uuid_and_only_to_what_makes_sense(plane: Plane) -> None:
    client = plane.client()
    (member,) = (await create(client, template(name="web")))["containers"]
    path = f"/v1/containers/{member['uuid']}"
    assert (await client.get(path)).json()["name"] == member["name"]
    assert (await client.get(f"/v1/containers/{member['name']}")).status_code == 404
    for method, verb in (("POST", "start"), ("POST", "rebuild"), ("POST", "pause"), ("GET", "network_list")):
        error = fault(await client.request(method, f"{path}/{verb}"))
        assert (error["status"], "belongs to capsule" in error["title"]) == (409, True), verb
    assert fault(await client.patch(path, json={"name": "other"}))["status"] == 409
    assert fault(await client.delete(path, params={"force": "false"}))["status"] == 409
    (action,) = (await client.get(f"{path}/container_actions")).json()["containerActions"]
    assert action["action"] == "create"
    assert fault(await plane.client(project_id="other").get(path))["status"] == 404


async def test_the_node_is_asked_for_a_member_by_the_engine_of_capsules(plane: Plane) -> None:
    client = plane.client()
    (member,) = (await create(client, template()))["containers"]
    await plane.set_row(member["uuid"], status="Running")
    plane.bus.answers |= {"logs": "text", "execute": {"output": "x", "exit_code": 0}}
    assert (await client.get(f"/v1/containers/{member['uuid']}/logs")).json() == "text"
    assert (await client.post(f"/v1/containers/{member['uuid']}/execute", json={"command": "ls"})).status_code == 200
    assert all(params["capsule"] is True and params["uuid"] == member["uuid"] for _, _, params in plane.bus.calls)


async def test_other_methods_and_paths(plane: Plane) -> None:
    client = plane.client()
    uuid = (await create(client, template()))["uuid"]
    assert (await client.patch(f"/v1/capsules/{uuid}", json={})).status_code == 405
    assert (await client.get(f"/v1/capsules/{uuid}/logs")).status_code == 404
    assert (await client.get(f"/v1/capsules//{uuid}")).status_code == 200
    assert (await client.get(f"/capsules/{uuid}/")).status_code == 200
    answer = await client.post("/v1/capsules", content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
