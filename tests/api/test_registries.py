"""Stories of registries."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import sqlalchemy as sa

from tests.support.api import Api, fault, make_api
from zun.domain.container import Container
from zun.store import containers, tables

FULL = {"name": "reg1", "domain": "registry.example.org", "username": "u", "password": "hunter2"}


async def _stored(api: Api, **columns: str) -> list[sa.RowMapping]:
    async with api.control.db.read() as connection:
        return list((await connection.execute(sa.select(tables.registries).filter_by(**columns))).mappings())


async def test_create_show_change_delete(api: Api, member: httpx.AsyncClient) -> None:
    answer = await member.post("/v1/registries", json={"registry": FULL})
    assert answer.status_code == 201
    made = answer.json()["registry"]
    uuid = made["uuid"]
    assert answer.headers["location"] == f"http://localhost/v1/registries/{uuid}"
    assert made == {
        "uuid": uuid,
        "links": [
            {"href": f"http://localhost/v1/registries/{uuid}", "rel": "self"},
            {"href": f"http://localhost/registries/{uuid}", "rel": "bookmark"},
        ],
        "name": "reg1",
        "project_id": "proj1",
        "user_id": "user1",
        "domain": "registry.example.org",
        "username": "u",
        "password": "***",
    }
    for ident in (uuid, "reg1", uuid.upper()):
        shown = await member.get(f"/v1/registries/{ident}")
        assert (shown.status_code, shown.json()) == (200, {"registry": made}), ident
    (row,) = await _stored(api, uuid=uuid)
    assert "hunter2" not in row["password"]
    assert api.control.cipher.decrypt(row["password"]) == "hunter2"

    changed = await member.patch("/v1/registries/reg1", json={"registry": {"name": "reg2", "password": "new"}})
    assert changed.json()["registry"] == {**made, "name": "reg2"}
    (row,) = await _stored(api, uuid=uuid)
    assert api.control.cipher.decrypt(row["password"]) == "new"
    assert row["domain"] == "registry.example.org"
    unchanged = await member.patch(f"/v1/registries/{uuid}", json={"registry": {}})
    assert (unchanged.status_code, unchanged.json()["registry"]["name"]) == (200, "reg2")

    gone = await member.delete("/v1/registries/reg2")
    assert (gone.status_code, gone.content) == (204, b"")
    assert "content-type" not in gone.headers
    error = fault(await member.get("/v1/registries/reg2"))
    assert (error["code"], error["title"]) == ("container.registry-not-found", "Registry reg2 could not be found.")


async def test_minimal_registry_shows_stars(member: httpx.AsyncClient) -> None:
    made = (await member.post("/v1/registries", json={"registry": {"domain": "d"}})).json()["registry"]
    assert (made["name"], made["username"], made["password"]) == (None, None, "***")


async def test_projects_are_apart_and_admins_see_all(api: Api, member: httpx.AsyncClient) -> None:
    uuid = (await member.post("/v1/registries", json={"registry": FULL})).json()["registry"]["uuid"]
    other = api.client(project_id="proj2")
    for answer in (
        await other.get(f"/v1/registries/{uuid}"),
        await other.patch(f"/v1/registries/{uuid}", json={"registry": {}}),
        await other.delete(f"/v1/registries/{uuid}"),
    ):
        assert answer.status_code == 404
    assert (await other.get("/v1/registries")).json()["registries"] == []
    assert fault(await other.get("/v1/registries?all_projects=1"))["title"] == (
        "Policy doesn't allow registry:get_all_all_projects to be performed."
    )
    assert (await other.get("/v1/registries?all_projects=False")).status_code == 200
    admin = api.admin
    assert (await admin.get(f"/v1/registries/{uuid}")).status_code == 200
    assert (await admin.get("/v1/registries")).json()["registries"] == []
    assert [one["uuid"] for one in (await admin.get("/v1/registries?all_projects=T")).json()["registries"]] == [uuid]
    await other.post("/v1/registries", json={"registry": FULL})
    error = fault(await admin.get("/v1/registries/reg1"))
    assert (error["status"], error["code"], error["title"]) == (
        409,
        "container.conflict",
        "Multiple registries exist with same name. Please use the registry uuid instead.",
    )


async def test_token_without_project_is_scoped_by_user(api: Api) -> None:
    client = api.client(project_id=None, user_id="loner")
    assert (await client.post("/v1/registries", json={"registry": {"domain": "d"}})).status_code == 201
    assert len((await client.get("/v1/registries")).json()["registries"]) == 1
    assert (await api.client(project_id=None, user_id="x").get("/v1/registries")).json()["registries"] == []


async def test_a_registry_in_use_stays(api: Api, member: httpx.AsyncClient) -> None:
    uuid = (await member.post("/v1/registries", json={"registry": FULL})).json()["registry"]["uuid"]
    (row,) = await _stored(api, uuid=uuid)
    container = Container(
        uuid="1b671a64-40d5-491e-99b0-da01ff1f3341",
        name="c",
        project_id="proj1",
        user_id="user1",
        image="i",
        image_driver="docker",
        status="Running",
        registry_id=row["id"],
        created_at=api.control.clock.now(),
    )
    async with api.control.db.write() as connection:
        await containers.insert(connection, container)
    error = fault(await member.delete(f"/v1/registries/{uuid}"))
    assert (error["status"], error["code"]) == (409, "container.conflict")
    assert error["title"] == f"Failed to delete registry {uuid} since it is in use."
    assert (await member.get(f"/v1/registries/{uuid}")).status_code == 200


async def test_pages_carry_their_filters(api: Api, member: httpx.AsyncClient) -> None:
    for number in range(7):
        body = {"registry": {"name": f"reg{number}", "domain": "a" if number % 3 else "b"}}
        await member.post("/v1/registries", json=body)
    for query, expected in (
        ("limit=2", [0, 1, 2, 3, 4, 5, 6]),
        ("limit=2&domain=a", [1, 2, 4, 5]),
        ("limit=1&domain=a&domain=b&sort_key=domain", [1, 2, 4, 5, 0, 3, 6]),
        ("limit=3&sort_key=name&sort_dir=desc", [6, 5, 4, 3, 2, 1, 0]),
        ("limit=2&sort_key=username", [0, 1, 2, 3, 4, 5, 6]),
        ("limit=2&sort_key=username&sort_dir=desc", [6, 5, 4, 3, 2, 1, 0]),
        ("limit=100", [0, 1, 2, 3, 4, 5, 6]),
    ):
        url: str | None = f"/v1/registries?{query}"
        seen: list[str] = []
        while url:
            body = (await member.get(url)).json()
            seen += [one["name"] for one in body["registries"]]
            assert "links" not in str(body["registries"])
            url = body["next"]
            if url:
                parts = urlsplit(url)
                assert parts.path == "/v1/registries"
                url = f"{parts.path}?{parts.query}"
                assert ("domain=a" in url) == ("domain=a" in query)
        assert seen == [f"reg{number}" for number in expected], query


async def test_next_has_the_contracts_order(member: httpx.AsyncClient) -> None:
    uuid = (await member.post("/v1/registries", json={"registry": FULL})).json()["registry"]["uuid"]
    body = (await member.get("/v1/registries?limit=1&resource_url=evil")).json()
    assert body["next"] == f"http://localhost/v1/registries?sort_key=id&sort_dir=asc&limit=1&marker={uuid}"


async def test_wrong_list_parameters(member: httpx.AsyncClient) -> None:
    for query, status, code, words in (
        ("limit=0", 400, "invalid-value", "Limit must be positive integer"),
        ("limit=-1", 400, "invalid-value", "Limit must be positive integer"),
        ("limit=x", 400, "invalid-value", "Limit must be positive integer"),
        ("limit=" + "9" * 5000, 400, "invalid-value", "Limit must be positive integer"),
        ("limit=%D9%A1", 400, "invalid-value", "Limit must be positive integer"),
        ("sort_key=password", 400, "invalid-parameter-value", "password"),
        ("sort_key=nothing", 400, "invalid-parameter-value", "nothing"),
        ("sort_dir=up", 400, "invalid-value", "up"),
        ("bogus=1", 400, "invalid-value", "Unknown parameters: bogus"),
        ("all_tenants=1", 400, "invalid-value", "Unknown parameters: all_tenants"),
        ("all_projects=maybe", 400, "invalid-value", "maybe"),
        ("marker=nothing", 404, "registry-not-found", "nothing"),
    ):
        error = fault(await member.get(f"/v1/registries?{query}"))
        assert (error["status"], error["code"]) == (status, f"container.{code}"), query
        assert words in error["title"]


async def test_limit_is_capped(tmp_path: Path) -> None:
    async with make_api(tmp_path, {"api.max_limit": 2}) as api:
        client = api.client()
        for _ in range(3):
            await client.post("/v1/registries", json={"registry": {"domain": "d"}})
        for query in ("", "?limit=50"):
            body = (await client.get(f"/v1/registries{query}")).json()
            assert len(body["registries"]) == 2
            assert re.search("limit=2&", body["next"])


async def test_field_rules_hide_fields_and_guard_filters(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text('"registry:get_one:username": "rule:context_is_admin"\n')
    async with make_api(tmp_path) as api:
        client = api.client()
        made = (await client.post("/v1/registries", json={"registry": FULL})).json()["registry"]
        assert "username" not in made
        assert "username" not in (await client.get("/v1/registries")).json()["registries"][0]
        assert (await client.get("/v1/registries?username=u")).status_code == 403
        admin = api.client(("admin",))
        assert (await admin.get("/v1/registries?username=u")).json()["registries"][0]["username"] == "u"
