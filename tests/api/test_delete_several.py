"""``DELETE`` of several containers or capsules: one answer for each, and nothing that is not named."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.api import told
from tests.support.containers import Plane

CONTAINERS, CAPSULES = "/v1/containers", "/v1/capsules"
SPEC = {"containers": [{"image": "cirros"}]}
TEMPLATE = {"template": {"kind": "capsule", "capsuleVersion": "beta", "metadata": {}, "spec": SPEC}}


async def delete(client: httpx.AsyncClient, url: str, **more: Any) -> httpx.Response:
    return await client.request("DELETE", url, **more)


def short(answer: httpx.Response) -> list[tuple[str, int, str | None]]:
    assert answer.status_code == 200, answer.text
    return [
        (one["id"], one["status"], one["error"] and one["error"]["code"].removeprefix("container."))
        for one in answer.json()["results"]
    ]


async def statuses(plane: Plane, *uuids: str) -> list[str]:
    return [row.status for uuid in uuids if (row := await plane.row(uuid))]


async def test_each_is_answered_as_by_itself(plane: Plane) -> None:
    client = plane.client()
    stopped = (await plane.create(client, "Stopped", name="old"))["uuid"]
    running = (await plane.create(client, "Running"))["uuid"]
    foreign = (await plane.create(plane.client(project_id="proj2"), "Stopped"))["uuid"]
    left = (await plane.create(client, "Stopped"))["uuid"]
    absent = str(uuid4())
    answer = await delete(client, CONTAINERS, json={"ids": ["old", running, foreign, absent, stopped]})
    assert short(answer) == [
        ("old", 204, None),
        (running, 409, "invalid-state-exception"),
        (foreign, 404, "container-not-found"),
        (absent, 404, "container-not-found"),
        (stopped, 204, None),
    ]
    alone = told(await client.delete(f"{CONTAINERS}/{running}"))
    assert answer.json()["results"][1]["error"]["title"] == alone[2]
    assert await statuses(plane, stopped, running, foreign, left) == ["Deleting", "Running", "Stopped", "Stopped"]
    assert len(await plane.operations(stopped)) == 1


async def test_in_the_query_too(plane: Plane) -> None:
    client = plane.client()
    uuids = [(await plane.create(client, "Stopped"))["uuid"] for _ in range(3)]
    assert short(await delete(client, f"{CONTAINERS}?ids={uuids[0]}&ids={uuids[1]}")) == [
        (uuid, 204, None) for uuid in uuids[:2]
    ]
    assert short(await delete(client, f"{CONTAINERS}/?ids={uuids[2]}")) == [(uuids[2], 204, None)]


async def test_flags_as_of_one(plane: Plane) -> None:
    client, admin = plane.client(), plane.client("admin", project_id="adminproject")
    running = (await plane.create(client, "Running"))["uuid"]
    assert short(await delete(client, CONTAINERS, json={"ids": [running], "force": True})) == [
        (running, 403, "policy-not-authorized")
    ]
    assert told(await delete(client, CONTAINERS, json={"ids": [running], "all_projects": True}))[0] == 403
    old = plane.client(version="1.6")
    assert told(await delete(old, CONTAINERS, json={"ids": [running], "force": True}))[:2] == (
        400,
        "invalid-param-in-version",
    )
    assert await plane.operations(running) == []
    assert short(await delete(admin, CONTAINERS, json={"ids": [running], "force": True})) == [(running, 204, None)]


async def test_capsules(plane: Plane) -> None:
    client = plane.client()
    made = [(await client.post(CAPSULES, json=TEMPLATE)).json()["uuid"] for _ in range(2)]
    container = (await plane.create(client, "Stopped"))["uuid"]
    assert short(await delete(client, CAPSULES, json={"ids": [*made, container]})) == [
        *((uuid, 204, None) for uuid in made),
        (container, 404, "container-not-found"),
    ]
    assert await statuses(plane, *made, container) == ["Deleting", "Deleting", "Stopped"]


@pytest.mark.parametrize("url", [CONTAINERS, CAPSULES])
@pytest.mark.parametrize(
    "body",
    [{}, {"ids": []}, {"ids": None}, {"ids": [""]}, {"ids": [1]}, {"ids": {}}, {"ids": ["x"] * 101},
     {"ids": ["a"], "bogus": 1}],
)  # fmt: skip
async def test_nothing_is_deleted_that_is_not_named(plane: Plane, url: str, body: dict[str, Any]) -> None:
    """An empty identifier of a client ends here: nothing named, nothing done."""
    uuid = (await plane.create(plane.client("admin"), "Stopped"))["uuid"]
    for address in (url, f"{url}/"):
        assert told(await delete(plane.client("admin"), address, json=body))[:2] == (400, "schema-validation-error")
    assert await statuses(plane, uuid) == ["Stopped"]


async def test_an_empty_identifier_of_the_stock_client(plane: Plane) -> None:
    url = f"{CONTAINERS}/?force=False&stop=False&all_projects=False"
    answer = await delete(plane.client(), url, headers={"Content-Type": "application/octet-stream"})
    assert told(answer) == (400, "schema-validation-error", "'ids' is a required property")


async def test_one_that_cannot_be_done_now_stops_no_other(plane: Plane) -> None:
    client = plane.client()
    uuid = (await plane.create(client, "Stopped"))["uuid"]
    nowhere = (await plane.create(client, "Error"))["uuid"]
    await plane.set_row(nowhere, host=None)
    plane.network.down = True
    results = short(await delete(client, CONTAINERS, json={"ids": [nowhere, uuid]}))
    assert [one[:2] for one in results] == [(nowhere, 503), (uuid, 204)]
