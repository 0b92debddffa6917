"""The route table against the contract, and each route against arbitrary input: never a 5xx."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.api import make_api
from zun.api.routes import ROUTES
from zun.api.table import Route
from zun.policies import list_rules

MINE = ("service", "host", "availability_zone", "quota", "quota_class", "registry")
CONTRACT = {
    # operation: (method, path, first version, success, rule)
    "host.list": ("GET", "/hosts", 4, 200, "host:get_all"),
    "host.show": ("GET", "/hosts/{host_ident}", 4, 200, "host:get"),
    "service.list": ("GET", "/services", 1, 200, "zun-service:get_all"),
    "service.delete": ("DELETE", "/services", 1, 200, "zun-service:delete"),
    "service.delete_by_path": ("DELETE", "/services/{host}/{binary}", 1, 200, "zun-service:delete"),
    "service.enable": ("PUT", "/services/enable", 1, 200, "zun-service:enable"),
    "service.disable": ("PUT", "/services/disable", 1, 200, "zun-service:disable"),
    "service.force_down": ("PUT", "/services/force_down", 1, 200, "zun-service:force_down"),
    "availability_zone.list": ("GET", "/availability_zones", 1, 200, "availability_zones:get_all"),
    "quota.show": ("GET", "/quotas/{project_id}", 1, 200, None),
    "quota.defaults": ("GET", "/quotas/{project_id}/defaults", 1, 200, None),
    "quota.update": ("PUT", "/quotas/{project_id}", 1, 200, "quota:update"),
    "quota.delete": ("DELETE", "/quotas/{project_id}", 1, 200, "quota:delete"),
    "quota_class.show": ("GET", "/quota_classes/{quota_class_name}", 1, 200, "quota_class:get"),
    "quota_class.update": ("PUT", "/quota_classes/{quota_class_name}", 1, 200, "quota_class:update"),
    "registry.list": ("GET", "/registries", 1, 200, "registry:get_all"),
    "registry.create": ("POST", "/registries", 1, 201, "registry:create"),
    "registry.show": ("GET", "/registries/{registry_ident}", 1, 200, "registry:get_one"),
    "registry.update": ("PATCH", "/registries/{registry_ident}", 1, 200, "registry:update"),
    "registry.delete": ("DELETE", "/registries/{registry_ident}", 1, 204, "registry:delete"),
}


def _mine() -> list[Route]:
    return [route for route in ROUTES if route.operation.partition(".")[0] in MINE]


def test_the_table_is_the_contract() -> None:
    found = {
        route.operation: (route.method, route.path, route.min_version.minor, route.status, route.policy)
        for route in _mine()
    }
    assert found == CONTRACT


def test_rules_of_the_table_exist() -> None:
    names = {rule.name for rule in list_rules()}
    for route in ROUTES:
        assert route.policy is None or route.policy in names, route.operation
        assert route.summary, route.operation


TEXT = st.text(max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
IDENTS = TEXT | st.sampled_from(
    ["reg1", "default", "proj1", "enable", "1b671a64-40d5-491e-99b0-da01ff1f3341", "..", "a.json"]
)


def _members(route: Route) -> st.SearchStrategy[dict[str, Any]]:
    """Objects whose keys are partly the operation's own, so that validation is passed now and then."""
    known = ["registry", "host", "binary", "forced_down", "disabled_reason", "cpu", "memory", "disk", "containers"]
    registry = st.dictionaries(
        st.sampled_from(["name", "domain", "username", "password", "x"]), VALUES | TEXT, max_size=4
    )
    return st.dictionaries(st.sampled_from(known) | TEXT, VALUES | registry, max_size=4)


@st.composite
def _requests(draw: st.DrawFn, route: Route) -> tuple[str, bytes, dict[str, str]]:
    path = re.sub(r"{\w+}", lambda _: quote(draw(IDENTS).encode("utf-8", "surrogatepass"), safe=""), route.path)
    pairs = draw(
        st.lists(
            st.tuples(
                st.sampled_from(
                    [
                        "limit",
                        "marker",
                        "sort_key",
                        "sort_dir",
                        "all_projects",
                        "host",
                        "binary",
                        "usages",
                        "name",
                        "cpu",
                    ]
                )
                | TEXT,
                TEXT | st.sampled_from(["1", "-1", "id", "name", "desc", "true", "None"]),
            ),
            max_size=4,
        )
    )
    query = "&".join(
        f"{quote(a.encode('utf-8', 'surrogatepass'))}={quote(b.encode('utf-8', 'surrogatepass'))}" for a, b in pairs
    )
    body = draw(_members(route) | VALUES)
    content = draw(
        st.sampled_from(
            [json.dumps(body).encode(), json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")]
        )
        | st.binary(max_size=20)
    )
    kind = draw(st.sampled_from(["application/json", "application/x-www-form-urlencoded", "text/plain", ""]))
    return f"/v1{path}?{query}", content, {"Content-Type": kind} if kind else {}


@pytest.mark.parametrize("route", _mine(), ids=lambda route: route.operation)
async def test_any_input_is_answered_below_500(tmp_path: Path, route: Route) -> None:
    import asyncio

    async with make_api(tmp_path) as api:
        client: httpx.AsyncClient = api.client(("admin", "member"))
        paths = (await client.get("/openapi.json")).json()["paths"]
        documented = paths[f"/v1{route.path}"][route.method.lower()]["responses"]
        loop = asyncio.get_running_loop()
        seen: list[int] = []

        @settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(_requests(route))
        def one(request: tuple[str, bytes, dict[str, str]]) -> None:
            url, content, headers = request
            sent = client.request(route.method, f"http://localhost{url}", content=content, headers=headers)
            answer = asyncio.run_coroutine_threadsafe(sent, loop).result(30)
            seen.append(answer.status_code)
            assert answer.status_code < 500, (request, answer.text)
            assert str(answer.status_code) in documented, (request, answer.text)
            assert answer.headers["x-openstack-request-id"]

        await asyncio.to_thread(one)
        assert seen
