"""What clients send: every malformed input is a named 4xx, none a 5xx."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.api import Api, fault, make_api

JSON = {"Content-Type": "application/json"}


async def _create(client: httpx.AsyncClient, content: bytes, headers: dict[str, str] = JSON) -> httpx.Response:
    return await client.post("/v1/registries", content=content, headers=headers)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"{", "not valid JSON"),
        (b'{"registry": {"domain": "d"}} trailing', "not valid JSON"),
        (b"[]", "has to be a JSON object, not an array"),
        (b'"x"', "has to be a JSON object, not a string"),
        (b"null", "has to be a JSON object, not null"),
        (b"7", "has to be a JSON object, not a number"),
        (b"true", "has to be a JSON object, not a boolean"),
        (b'{"registry": {"domain": NaN}}', "not valid JSON"),
        (b'{"registry": {"domain": 1e999}}', "not valid JSON"),
        (b'{"registry": {"domain": "\xff\xfe"}}', "not valid JSON"),
        (b'{"registry": {"domain": "\\ud800"}}', "not valid JSON"),
        (b'{"registry": {"domain": "a\\u0000b"}}', "NUL"),
        (b'{"a\\u0000": 1}', "NUL"),
        (b'{"registry": ' + b"[" * 100 + b"]" * 100 + b"}", "nested deeper"),
        (b"[" * 5000 + b"]" * 5000, "not valid JSON"),
        (b'{"registry": ' + b"9" * 100 + b"}", "not of type 'object'"),
        (b'{"registry": ' + b"9" * 5000 + b"}", "number is infinity"),
        (b"{}", "'registry' is a required property"),
        (b'{"registry": {}}', "'domain' is a required property"),
        (b'{"registry": null}', "not of type 'object'"),
        (b'{"registry": {"domain": "d"}, "bogus": 1}', "('bogus' was unexpected)"),
        (b'{"registry": {"domain": "d", "x": 1, "y": 2}}', "('x', 'y' were unexpected)"),
        (b'{"registry": {"domain": null}}', "None is not of type 'string'"),
        (b'{"registry": {"domain": "d", "name": null}}', "None is not of type 'string'"),
        (b'{"registry": {"domain": "d", "name": "a"}}', "'a' is too short"),
        (b'{"registry": {"domain": "d", "name": "ab\\n"}}', "does not match"),
        (b'{"registry": {"domain": "%d%s{0}{text}", "name": "%(x)s{y}"}}', "'%(x)s{y}' does not match"),
    ],
)
async def test_the_fault_is_named(member: httpx.AsyncClient, content: bytes, words: str) -> None:
    answer = await _create(member, content)
    error = fault(answer)
    assert (error["status"], error["code"]) == (400, "container.schema-validation-error")
    assert words in error["title"]
    assert error["title"] == error["detail"]


async def test_field_errors_have_the_contracts_text(member: httpx.AsyncClient) -> None:
    answer = await _create(member, b'{"registry": {"domain": "d", "name": "a"}}')
    assert fault(answer)["title"] == "Invalid input for field 'registry.name'.Value: 'a'. 'a' is too short"
    answer = await member.put("/v1/services/enable?host=a%20b&binary=x")
    assert fault(answer)["title"].startswith(
        "Invalid input for query parameters 'host'. Value: 'a b'. 'a b' does not match"
    )


async def test_long_values_are_cut_and_passwords_not_shown(member: httpx.AsyncClient) -> None:
    answer = await member.post("/v1/registries", json={"registry": {"domain": "d", "name": "x!" * 5000}})
    assert len(fault(answer)["title"]) < 1000
    answer = await member.post("/v1/registries", json={"registry": {"domain": "d", "password": ["hunter2"]}})
    assert answer.status_code == 400
    assert "hunter2" not in answer.text


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "application/x-www-form-urlencoded", ""])
async def test_wrong_content_type_is_415(member: httpx.AsyncClient, kind: str) -> None:
    answer = await _create(member, b'{"registry": {"domain": "d"}}', {"Content-Type": kind})
    assert answer.status_code == 415
    assert fault(answer)["code"] == "container."


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
async def test_json_content_types(member: httpx.AsyncClient, kind: str) -> None:
    answer = await _create(member, b'{"registry": {"domain": "d"}}', {"Content-Type": kind})
    assert answer.status_code == 201


async def test_size_limit(tmp_path: Path) -> None:
    async with make_api(tmp_path, {"api.max_body_bytes": 2048}) as api:
        client = api.client()
        assert (await _create(client, b" " * 2048)).status_code == 400
        answer = await _create(client, b" " * 2049)
        assert (answer.status_code, fault(answer)["code"]) == (413, "container.request-too-large")

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(4):
                yield b" " * 1024

        answer = await client.post("/v1/registries", content=chunks(), headers=JSON)
        assert answer.status_code == 413
        answer = await _create(client, b"", {**JSON, "Content-Length": "9" * 30})
        assert answer.status_code == 413


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "image/png, text/*"])
async def test_accept_without_json_is_406(member: httpx.AsyncClient, accept: str) -> None:
    answer = await member.get("/v1/registries", headers={"Accept": accept})
    assert answer.status_code == 406
    assert fault(answer)["code"] == "container."


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/html, application/json;q=0.5", "application/*"])
async def test_accept_with_json(member: httpx.AsyncClient, accept: str) -> None:
    assert (await member.get("/v1/registries", headers={"Accept": accept})).status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        "host=%ff&binary=b",
        "host=%ed%a0%80&binary=b",
        "host=a%00&binary=b",
        "host=a&host=b&binary=c",
        "&".join(f"p{i}=1" for i in range(1500)),
    ],
)
async def test_malformed_queries(admin: httpx.AsyncClient, query: str) -> None:
    answer = await admin.put(f"/v1/services/enable?{query}")
    assert (answer.status_code, fault(answer)["code"]) == (400, "container.schema-validation-error")


async def test_body_query_and_form_are_one_argument_set(admin: httpx.AsyncClient) -> None:
    missing = {"status": 404, "code": "container.zun-service-not-found"}
    for answer in (
        await admin.put("/v1/services/enable?host=h&binary=zun-compute"),
        await admin.put("/v1/services/enable", json={"host": "h", "binary": "zun-compute"}),
        await admin.put("/v1/services/enable?host=h", json={"binary": "zun-compute"}),
        await admin.put("/v1/services/enable", data={"host": "h", "binary": "zun-compute"}),
        await admin.put("/v1/services/enable?host=h&binary=zun-compute", content=b"", headers=JSON),
        await admin.put("/v1/services/enable?host=h&binary=zun-compute", content=b"null", headers=JSON),
    ):
        assert fault(answer).items() >= missing.items()
    answer = await admin.put("/v1/services/enable?host=h&binary=zun-compute", content=b"{", headers=JSON)
    assert "not valid JSON" in fault(answer)["title"]


async def test_delete_as_the_client_sends_it(admin: httpx.AsyncClient) -> None:
    answer = await admin.request(
        "DELETE",
        "/v1/services?host=h&binary=zun-compute",
        headers={"Content-Type": "application/octet-stream", "Accept": "*/*"},
        content=b"\x00\xff",
    )
    assert answer.status_code == 404


async def test_get_with_a_body_is_served(member: httpx.AsyncClient) -> None:
    answer = await member.request("GET", "/v1/registries", content=b"null", headers=JSON)
    assert answer.status_code == 200


async def test_base_of_links_is_the_host_header_if_it_is_one(api: Api) -> None:
    client = api.client()
    answer = await client.get("/v1", headers={"Host": "cloud.example.org:9517"})
    assert answer.json()["links"][0]["href"] == "http://cloud.example.org:9517/v1/"
    answer = await client.get("/v1", headers={"Host": 'evil"><script>'})
    assert "script" not in answer.text
