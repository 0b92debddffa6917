"""Discovery, health, metrics, the OpenAPI document, and the shapes of paths."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.api import Api, fault, make_api


async def test_root_needs_no_token_and_no_version(api: Api) -> None:
    answer = await api.client(token=None, version="nonsense").get("/")
    assert answer.status_code == 200
    version = {
        "id": "v1",
        "links": [{"href": "http://localhost/v1/", "rel": "self"}],
        "status": "CURRENT",
        "max_version": "1.40",
        "min_version": "1.1",
    }
    body = answer.json()
    assert body["name"] == "OpenStack Zun API"
    assert body["versions"] == [version]
    assert body["default_version"] == version
    assert not [name for name in answer.headers if name.startswith("openstack-api")]


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1.json"])
async def test_v1_lists_its_collections(api: Api, path: str) -> None:
    answer = await api.client(token=None, version=None).get(path)
    assert answer.status_code == 200
    body = answer.json()
    assert body["media_types"] == [{"base": "application/json", "type": "application/vnd.openstack.zun.v1+json"}]
    for name in [
        "services",
        "containers",
        "images",
        "networks",
        "hosts",
        "capsules",
        "availability_zones",
        "quotas",
        "quota_classes",
        "registries",
    ]:
        assert body[name] == [
            {"href": f"http://localhost/v1/{name}/", "rel": "self"},
            {"href": f"http://localhost/{name}/", "rel": "bookmark"},
        ]
    assert answer.headers["openstack-api-version"] == "container 1.1"


@pytest.mark.parametrize("path", ["/", "/v1", "/healthcheck", "/openapi.json"])
async def test_discovery_takes_get_only(api: Api, path: str) -> None:
    answer = await api.client().post(path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET"
    assert fault(answer)["code"] == "container."


async def test_unknown_version_of_the_api_is_404(api: Api) -> None:
    error = fault(await api.client().get("/v2/"))
    assert (error["status"], error["code"]) == (404, "container.")
    assert error["title"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/registries",
        "/registries",
        "/v1/registries/",
        "/registries/",
        "/v1//registries",
        "/v1/registries//",
        "/v1/registries.json",
        "//registries",
    ],
)
async def test_paths_of_a_collection(api: Api, path: str) -> None:
    answer = await api.client().get(f"http://localhost{path}")
    assert (answer.status_code, answer.json()) == (200, {"registries": [], "next": None})


async def test_names_keep_their_dots_and_are_decoded_once(api: Api) -> None:
    client = api.client()
    for name in ("my.json", "a.txt", "plain"):
        await client.post("/v1/registries", json={"registry": {"name": name, "domain": "d"}})
    for path, name in (("my.json", "my.json"), ("a.txt/", "a.txt"), ("/plain", "plain"), ("p%6cain", "plain")):
        answer = await client.get(f"/v1/registries/{path}")
        assert answer.json()["registry"]["name"] == name, path
    for path in ("my", "p%256cain", "a%2Ftxt", "%ff", "%00"):
        assert (await client.get(f"/v1/registries/{path}")).status_code == 404, path


async def test_wrong_method_names_the_right_ones(api: Api) -> None:
    answer = await api.client().put("/v1/registries")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, POST"
    assert fault(answer)["code"] == "container."
    head = await api.client().head("/v1/registries")
    assert (head.status_code, head.content) == (405, b"")
    assert (await api.client().options("/v1/registries")).status_code == 405


async def test_health_without_token_and_database(api: Api) -> None:
    client = api.client(token=None, version=None)
    await api.control.db.close()
    (api.folder / "zun.sqlite").unlink()
    answer = await client.get("/healthcheck")
    assert (answer.status_code, answer.text) == (200, "OK")
    (api.folder / "disabled").touch()
    assert (await client.get("/healthcheck")).status_code == 503


async def test_metrics_are_for_this_machine(api: Api) -> None:
    await api.client().get("/v1/registries")
    here = await api.client(token=None).get("/metrics")
    assert 'zun_api_requests_total{operation="registry.list",status="200"}' in here.text
    assert (await api.client(token=None, address="192.0.2.1").get("/metrics")).status_code == 404
    forwarded = api.client(token=None, headers={"X-Forwarded-For": "192.0.2.1"})
    assert (await forwarded.get("/metrics")).status_code == 404


async def test_openapi_document_is_complete_and_stable(api: Api) -> None:
    client = api.client(token=None, version=None)
    answer = await client.get("/openapi.json")
    assert answer.content == (await client.get("/openapi.json")).content
    document = answer.json()
    assert document["openapi"].startswith("3.1")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            named = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path)), (method, path)
            assert operation["responses"]
    text = answer.text
    for ref in re.findall(r'"\$ref":"#/components/schemas/(\w+)"', text):
        assert ref in document["components"]["schemas"]


async def test_every_answer_has_a_request_id_of_the_servers(api: Api) -> None:
    client = api.client(headers={"X-OpenStack-Request-ID": "req-mine"})
    seen = set()
    for path in (
        "/",
        "/v1",
        "/healthcheck",
        "/v1/nothing",
        "/v1/registries",
        "/v1/registries/x",
        "/v1/registries?limit=x",
    ):
        seen.add((await client.get(path)).headers["x-openstack-request-id"])
    assert len(seen) == 7
    assert all(re.fullmatch(r"req-[0-9a-f-]{36}", one) for one in seen)


async def test_cors(tmp_path: Path) -> None:
    async with make_api(tmp_path, {"api.cors_allowed_origins": "https://dash.example.org"}) as api:
        client = api.client(token=None)
        ask = {"Origin": "https://dash.example.org", "Access-Control-Request-Method": "PATCH"}
        answer = await client.options("/v1/registries", headers=ask)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://dash.example.org"
        assert answer.headers["x-openstack-request-id"]
        foreign = await client.options("/v1/registries", headers=ask | {"Origin": "https://evil.example.org"})
        assert "access-control-allow-origin" not in foreign.headers


async def test_links_are_made_of_the_public_endpoint_when_it_is_configured(tmp_path: Path) -> None:
    async with make_api(tmp_path, {"api.public_endpoint": "https://containers.example.org:9517/"}) as api:
        body = (await api.client(token=None).get("/")).json()
    assert body["versions"][0]["links"] == [{"href": "https://containers.example.org:9517/v1/", "rel": "self"}]
