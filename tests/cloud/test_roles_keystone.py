"""Who may do what with a real Keystone, over the whole route table: two projects, every role, and claims in headers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.test_roles import BODIES, QUERIES
from tests.support.api import BASE, configure
from tests.support.containers import Plane, make_plane
from tests.support.keystone import ACCOUNT, PUBLIC_URI, Keystone
from tests.support.tcp_proxy import tcp_proxy
from tests.support.testbed import PORTS
from zun.api.app import create_app
from zun.api.policy import PolicyEnforcer
from zun.api.routes import ROUTES
from zun.api.table import Route
from zun.domain.clock import SystemClock
from zun.identity.keystone import KeystoneIdentity
from zun.openstack.cloud import OpenStack
from zun.policies import list_rules

RULES = {rule.name: rule.check_str for rule in list_rules()}
ADMIN_RULES = ("rule:context_is_admin", "role:admin", "rule:admin_api")
MORE_BODIES: dict[str, Any] = {
    "image.pull": {"repo": "cirros", "host": "node1"},
    "network.create": {"name": "net", "neutron_net_id": "net"},
    "capsule.create": {"template": {"kind": "capsule", "metadata": {}, "spec": {"containers": [{"image": "cirros"}]}}},
}
OWNED = ("{container_ident}", "{registry_ident}", "{capsule_ident}")


@dataclass
class Tokens:
    """One token of each kind; the things belong to project ``ours``."""

    ours: str
    member: str
    reader: str
    service: str
    stranger: str
    admin: str
    system_admin: str
    unscoped: str
    by_credential: str


@pytest.fixture(scope="module")
def tokens(keystone: Keystone) -> Tokens:
    ours, theirs = keystone.project(), keystone.project()
    member, stranger = keystone.user(ours, "member"), keystone.user(theirs, "member")
    system = keystone.user(theirs)
    keystone.role("/system", system, "admin")
    return Tokens(
        ours=ours,
        member=keystone.project_token(member),
        reader=keystone.project_token(keystone.user(ours, "reader")),
        service=keystone.project_token(keystone.user(ours, "service")),
        stranger=keystone.project_token(stranger),
        admin=keystone.project_token(keystone.user(theirs, "admin")),
        system_admin=keystone.token(system.name, {"system": {"all": True}}),
        unscoped=keystone.token(stranger.name),
        by_credential=keystone.application_credential(member),
    )


@dataclass
class Cloud:
    plane: Plane
    app: Any
    tokens: Tokens

    def client(self, token: str | None, **headers: str) -> httpx.AsyncClient:
        sent = {**headers, **({"X-Auth-Token": token} if token else {})}
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=self.app), base_url=BASE, headers=sent)


@pytest.fixture
async def cloud(tmp_path: Path, tokens: Tokens) -> AsyncIterator[Cloud]:
    """The application on the real Keystone, all else embedded."""
    folder = tmp_path / "keystone"
    folder.mkdir()
    conf = configure(folder, {f"keystone_authtoken.{name}": value for name, value in ACCOUNT.items()})
    openstack = OpenStack(conf)
    try:
        async with make_plane(tmp_path) as plane:
            await plane.add_host(capsules=True)
            identity = KeystoneIdentity(openstack.keystone, conf, SystemClock())
            yield Cloud(plane, create_app(plane.api.control, identity, PolicyEnforcer(conf)), tokens)
    finally:
        await openstack.close()


async def _things(cloud: Cloud) -> dict[str, str]:
    """What ``ours`` has: a value for the path parameters of the table."""
    async with cloud.client(cloud.tokens.member, **_version("1.40")) as owner:
        made = await cloud.plane.create(owner, name="theirs")
        answer = await owner.post("/v1/registries", json={"registry": {"domain": "d", "name": "theirs"}})
        capsule = await owner.post("/v1/capsules", json=MORE_BODIES["capsule.create"])
        actions = await owner.get(f"/v1/containers/{made['uuid']}/container_actions")
    return {
        "container_ident": made["uuid"], "registry_ident": answer.json()["registry"]["uuid"],
        "capsule_ident": capsule.json()["uuid"],
        "request_ident": actions.json()["containerActions"][0]["request_id"], "project_id": cloud.tokens.ours,
        "quota_class_name": "default", "host_ident": "node1", "host": "node1", "binary": "zun-compute",
    }  # fmt: skip


def _version(version: Any) -> dict[str, str]:
    return {"OpenStack-API-Version": f"container {version}"}


async def _call(client: httpx.AsyncClient, route: Route, things: dict[str, str]) -> tuple[int, str]:
    """(status, slug of the error)."""
    path = re.sub(r"{(\w+)}", lambda found: things.get(found[1], str(uuid4())), route.path)
    body = BODIES.get(route.operation, MORE_BODIES.get(route.operation))
    url = f"/v1{path}{QUERIES.get(route.operation, '')}"
    answer = await client.request(route.method, url, json=body, headers=_version(route.max_version))
    if answer.status_code == 401:
        assert answer.headers["www-authenticate"] == f'Keystone uri="{PUBLIC_URI}"'
        assert answer.json()["error"]["code"] == 401
        return 401, ""
    errors = answer.json().get("errors") if answer.status_code >= 400 else None
    return answer.status_code, errors[0]["code"].removeprefix("container.") if errors else ""


def _for_admins(route: Route) -> bool:
    return RULES.get(route.policy or route.operation.replace(".", ":", 1)) in ADMIN_RULES


def _owned(route: Route) -> bool:
    return any(name in route.path for name in OWNED)


def let_in(route: Route, status: int, slug: str) -> bool:
    return status not in (401, 403) and slug not in ("container-not-found", "registry-not-found", "capsule-not-found")


def as_member(route: Route, status: int, slug: str) -> bool:
    return (status, slug) == (403, "policy-not-authorized") if _for_admins(route) else let_in(route, status, slug)


def as_reader(route: Route, status: int, slug: str) -> bool:
    if route.method == "GET":
        return as_member(route, status, slug)
    return (status, slug) == (403, "policy-not-authorized")


def as_stranger(route: Route, status: int, slug: str) -> bool:
    if _owned(route):
        return status == 404
    if "{project_id}" in route.path:
        return status == 403
    return as_member(route, status, slug)


def without_project(route: Route, status: int, slug: str) -> bool:
    if route.operation in ("container.create", "capsule.create"):
        return (status, slug) == (403, "forbidden")
    return as_stranger(route, status, slug)


def system_wide(route: Route, status: int, slug: str) -> bool:
    return route.operation in ("container.create", "capsule.create") or let_in(route, status, slug)


def refused(route: Route, status: int, slug: str) -> bool:
    return status == 401


WHO: dict[str, Callable[[Route, int, str], bool]] = {
    "member": as_member,
    "by_credential": as_member,
    "service": as_member,
    "reader": as_reader,
    "stranger": as_stranger,
    "unscoped": without_project,
    "admin": let_in,
    "system_admin": system_wide,
    "nobody": refused,
    "guess": refused,
}


@pytest.mark.parametrize("claims", [False, True], ids=["plain", "claims"])
@pytest.mark.parametrize("who", WHO)
async def test_every_route(cloud: Cloud, who: str, claims: bool) -> None:
    things = await _things(cloud)
    said = {
        "X-Roles": "admin", "X-Role": "admin", "X-Project-Id": cloud.tokens.ours, "X-Tenant-Id": cloud.tokens.ours,
        "X-User-Id": "root", "X-Identity-Status": "Confirmed", "X-Service-Identity-Status": "Confirmed",
        "X-Service-Roles": "service,admin", "X-Is-Admin-Project": "True", "X-System-Scope": "all",
        "OpenStack-System-Scope": "all",
    }  # fmt: skip
    token = {"nobody": None, "guess": "gAAAAABnonsense"}.get(who, getattr(cloud.tokens, who, None))
    wrong = []
    async with cloud.client(token, **(said if claims else {})) as client:
        for route in sorted(ROUTES, key=lambda one: one.method == "DELETE"):  # what goes, goes last
            status, slug = await _call(client, route, things)
            if status == 500 or not WHO[who](route, status, slug):
                wrong.append(f"{route.operation} until {route.max_version}: {status} {slug}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("who", ["stranger", "unscoped"])
async def test_lists_hold_nothing_of_another_project(cloud: Cloud, who: str) -> None:
    things = await _things(cloud)
    async with cloud.client(getattr(cloud.tokens, who), **{"X-Project-Id": cloud.tokens.ours}) as client:
        for route in [one for one in ROUTES if one.method == "GET" and "{" not in one.path]:
            for query in ("", f"?project_id={cloud.tokens.ours}", "?name=theirs"):
                answer = await client.get(f"/v1{route.path}{query}", headers=_version(route.max_version))
                whole = answer.text if route.events else answer.json().values()
                found = whole if route.events else [value for value in whole if isinstance(value, list)]
                for secret in ("theirs", things["registry_ident"], things["container_ident"]):
                    assert answer.status_code >= 400 or secret not in str(found), (route.operation, query)


async def test_keystone_away_is_503_and_known_callers_go_on(tmp_path: Path, tokens: Tokens) -> None:
    folder = tmp_path / "keystone"
    folder.mkdir()
    with tcp_proxy(PORTS["Keystone"]) as proxy:
        url = f"{proxy.url}/v3"
        options = {**ACCOUNT, "auth_url": url, "endpoint_override": url}
        conf = configure(folder, {f"keystone_authtoken.{name}": value for name, value in options.items()})
        openstack = OpenStack(conf)
        async with make_plane(tmp_path) as plane:
            identity = KeystoneIdentity(openstack.keystone, conf, SystemClock())
            cloud = Cloud(plane, create_app(plane.api.control, identity, PolicyEnforcer(conf)), tokens)
            async with cloud.client(tokens.member) as known, cloud.client(tokens.reader) as unknown:
                assert (await known.get("/v1/containers")).status_code == 200
                proxy.mode("refuse")
                assert (await known.get("/v1/containers")).status_code == 200
                answer = await unknown.get("/v1/containers")
                error = answer.json()["errors"][0]
                assert (answer.status_code, error["status"]) == (503, 503)
                assert error["title"].startswith("Keystone is not available: ")
                assert "www-authenticate" not in answer.headers
                assert (await unknown.get("/v1")).status_code == 200
                proxy.mode("pass")
                assert (await unknown.get("/v1/containers")).status_code == 200
        await openstack.close()


async def test_public_routes_need_no_token(cloud: Cloud) -> None:
    async with cloud.client(None) as client:
        for path in ("/", "/v1", "/v1/", "/healthcheck"):
            assert (await client.get(path)).status_code == 200, path
        assert (await client.head("/healthcheck")).status_code == 200
        assert (await client.get("/v1/containers")).status_code == 401


async def test_what_a_caller_made_is_theirs(cloud: Cloud) -> None:
    """Project and user of the record are Keystone's, whatever the headers say."""
    headers = {"X-Project-Id": "elsewhere", "X-User-Id": "root", **_version("1.40")}
    async with cloud.client(cloud.tokens.member, **headers) as client:
        made = await cloud.plane.create(client)
    row = await cloud.plane.row(made["uuid"])
    assert row is not None
    assert row.project_id == cloud.tokens.ours
    assert row.user_id not in ("root", "")
