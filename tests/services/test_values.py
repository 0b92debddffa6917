"""Values that one kind of database takes and another does not: never a 500, whatever keeps the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.api import make_api

LONG = "x" * 300
VALUES = {
    "runtime": LONG,
    "image": LONG,
    "availability_zone": LONG,
    "hostname": LONG,
    "name": LONG,
    "workdir": "/" + "w" * 100_000,
    "labels": {"k": "v" * 200_000},
    "environment": {"K": "\N{CAT FACE}" * 30_000},
    "command": ["\N{CAT FACE}" * 30_000],
    "hints": {"a": "b" * 70_000},
}
NUL = ("availability_zone", "runtime", "workdir", "image_driver")


def _body(**changed: Any) -> dict[str, Any]:
    return {"image": "busybox", "command": ["sleep", "9"], "cpu": 0.1, "memory": 16} | changed


async def test_lengths_and_characters(tmp_path: Path, server_url: str) -> None:
    async with make_api(tmp_path, {"database.connection": server_url}) as api:
        http = api.client(("admin",))
        for name, value in VALUES.items():
            answer = await http.post("/v1/containers", json=_body(**{name: value}))
            assert answer.status_code in (202, 400), f"{name}: {answer.status_code} {answer.text[:300]}"
        for name in NUL:
            answer = await http.post("/v1/containers", json=_body(**{name: "a\x00b"}))
            assert answer.status_code in (202, 400), f"{name}: {answer.status_code} {answer.text[:300]}"
        for registry in (
            {"domain": "a\x00b"},
            {"domain": "d", "username": "a\x00b"},
            {"domain": "d", "password": "a\x00b"},
            {"domain": "d", "password": "p" * 16_000, "username": "\N{CAT FACE}" * 255},
        ):
            answer = await http.post("/v1/registries", json={"registry": registry})
            assert answer.status_code in (201, 400), answer.text[:300]
        change = {"binary": "zun-compute", "host": "h", "disabled_reason": "a\x00b"}
        answer = await http.put("/v1/services/disable", json=change)
        assert answer.status_code in (400, 404), answer.text[:300]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/containers/a%00b",
        "/v1/containers?name=a%00b",
        "/v1/containers?image=%F0%9F%90%B1",
        "/v1/containers?marker=a%00b",
        "/v1/containers?host=a%00b&all_projects=true",
        "/v1/containers?memory=99999999999999999999",
        "/v1/containers?auto_remove=perhaps",
        "/v1/containers?limit=99999999999999999999",
        "/v1/registries/a%00b",
        "/v1/registries?name=a%00b",
        "/v1/registries?marker=a%00b",
        "/v1/hosts/a%00b",
        "/v1/quotas/a%00b",
        "/v1/quota_classes/a%00b",
        "/v1/services?binary=a%00b",
    ],
)
async def test_what_is_asked_for(tmp_path: Path, server_url: str, path: str) -> None:
    async with make_api(tmp_path, {"database.connection": server_url}) as api:
        answer = await api.client(("admin",)).get(path)
        assert answer.status_code < 500, answer.text[:400]


@pytest.mark.parametrize("token", ["a\x00b", "\xff", "x" * 5000])
async def test_tokens(tmp_path: Path, server_url: str, token: str) -> None:
    async with make_api(tmp_path, {"database.connection": server_url}) as api:
        answer = await api.client(token="x").get("/v1/containers", headers={"X-Auth-Token": token.encode("latin-1")})
        assert answer.status_code == 401
