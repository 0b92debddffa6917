"""The route table against the contract, and each route against arbitrary input: never a 5xx."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.support.api import Api, make_api
from zun.api.routes import ROUTES
from zun.api.table import Route
from zun.domain.container import Container
from zun.policies import list_rules
from zun.store import containers, registries

MINE = ("service", "host", "availability_zone", "quota", "quota_class", "registry", "image")
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
    "image.list": ("GET", "/images", 1, 200, "image:get_all"),
    "image.pull": ("POST", "/images", 1, 202, "image:pull"),
    "image.show": ("GET", "/images/{image_id}", 1, 200, "image:get_one"),
    "image.delete": ("DELETE", "/images/{image_id}", 1, 200, "image:delete"),
    "image.search": ("GET", "/images/{image}/search", 1, 200, "image:search"),
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
PLAUSIBLE = st.one_of(
    st.sampled_from(["cirros", "c1", "1", "0.5", "true", "None", "10.0.0.5", "80/tcp", "always", "no"]),
    st.sampled_from([0, 1, True, None]),
    st.sampled_from([[], ["sleep", "1"], [{"network": "n"}], [{"size": 1, "destination": "/d"}]]),
    st.sampled_from([{}, {"a": "b"}, {"80": {}}, {"domain": "d"}, {"cmd": "ls", "interval": 3}]),
    st.just({"Name": "on-failure", "MaximumRetryCount": 2}),
)
IDENTS = st.one_of(
    st.just("c1"),
    st.sampled_from(["c1", "default", "proj1", "enable", "..", "a.json", "1b671a64-40d5-491e-99b0-da01ff1f3341"]),
    TEXT,
)
LIST_PARAMETERS = ["limit", "marker", "sort_key", "sort_dir", "all_projects", "name", "status", "memory", "auto_remove"]
CREATE = (
    "image name command entrypoint cpu memory disk workdir labels environment restart_policy interactive tty nets "
    "mounts security_groups hints hostname runtime healthcheck exposed_ports registry host auto_remove auto_heal run"
)


def _names(route: Route) -> list[str]:
    """The operation's own members, so that validation is passed now and then."""
    model = route.model
    if model is None:
        return LIST_PARAMETERS
    return list(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else CREATE.split()


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


@st.composite
def _requests(draw: st.DrawFn, route: Route) -> tuple[str, bytes, dict[str, str]]:
    path = re.sub(r"{\w+}", lambda _: _quoted(draw(IDENTS)), route.path)
    names = st.sampled_from(_names(route))
    words = TEXT | st.sampled_from(["1", "-1", "id", "name", "desc", "true", "None", "c1"])
    pairs = draw(st.lists(st.tuples(names | TEXT, words), max_size=2)) if draw(st.booleans()) else []
    query = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in pairs)
    members: dict[str, Any] = draw(st.dictionaries(names, st.one_of(PLAUSIBLE, PLAUSIBLE, VALUES), max_size=3))
    if "image" in _names(route) and draw(st.booleans()):
        members["image"] = "cirros"
    body = members if draw(st.integers(0, 3)) else draw(VALUES | st.dictionaries(TEXT, VALUES, max_size=2))
    texts = [json.dumps(body).encode(), json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")]
    content = draw(st.sampled_from(texts)) if draw(st.integers(0, 4)) else draw(st.binary(max_size=20))
    kind = draw(st.sampled_from(["application/json"] * 9 + ["application/x-www-form-urlencoded", "text/plain", ""]))
    return f"/v1{path}?{query}", content, {"Content-Type": kind} if kind else {}


async def _seed(api: Api) -> None:
    container = Container(
        uuid="1b671a64-40d5-491e-99b0-da01ff1f3341",
        name="c1",
        project_id="proj1",
        user_id="user1",
        image="cirros",
        image_driver="docker",
        status="Stopped",
        created_at=api.control.clock.now(),
    )
    async with api.control.db.write() as connection:
        await containers.insert(connection, container)
        await registries.insert(
            connection,
            {"uuid": container.uuid, "name": "c1", "domain": "d", "project_id": "proj1", "user_id": "user1"}
            | {"created_at": container.created_at},
        )


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.operation}-{route.max_version}")
async def test_any_input_is_answered_below_500(tmp_path: Path, route: Route) -> None:
    async with make_api(tmp_path) as api:
        await _seed(api)
        client: httpx.AsyncClient = api.client(("admin", "member"), version=str(route.max_version))
        paths = (await client.get("/openapi.json", headers={"OpenStack-API-Version": ""})).json()["paths"]
        documented = paths[f"/v1{route.path}"][route.method.lower()]["responses"]
        loop = asyncio.get_running_loop()
        seen: list[int] = []

        @settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(_requests(route))
        def one(request: tuple[str, bytes, dict[str, str]]) -> None:
            url, content, headers = request
            sent = client.request(route.method, f"http://localhost{url}", content=content, headers=headers)
            answer = asyncio.run_coroutine_threadsafe(sent, loop).result(120)
            seen.append(answer.status_code)
            assert answer.status_code < 500, (request, answer.text)
            assert str(answer.status_code) in documented, (request, answer.text)
            assert answer.headers["x-openstack-request-id"]

        await asyncio.to_thread(one)
        assert seen
