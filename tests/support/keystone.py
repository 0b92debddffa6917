"""Projects, users and tokens of a test's own in the testbed's Keystone; removed at the end, whatever happened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx

from tests.support.testbed import AUTH_URL, PASSWORD

DOMAIN = {"name": "Default"}
PUBLIC_URI = "http://identity.example.org/v3"

ACCOUNT = {
    "auth_type": "password",
    "auth_url": AUTH_URL,
    "username": "zun",
    "password": PASSWORD,
    "project_name": "service",
    "user_domain_name": "Default",
    "project_domain_name": "Default",
    "www_authenticate_uri": PUBLIC_URI,
    "memcached_servers": "127.0.0.1:11211",
    "service_type": "container",
    "include_service_catalog": "true",
}
"""[keystone_authtoken] as deployments have it, options without a meaning here included."""


@dataclass(frozen=True)
class User:
    """Somebody who can log in."""

    id: str
    name: str
    project_id: str
    password: str = PASSWORD


class Keystone:
    """The testbed's admin, and what was made through it."""

    def __init__(self) -> None:
        self.http = httpx.Client(base_url=AUTH_URL, timeout=60)
        self.http.headers["X-Auth-Token"] = self.token("admin", {"project": {"name": "admin", "domain": DOMAIN}})
        self._made: list[str] = []
        self._roles = {role["name"]: role["id"] for role in self.call("GET", "/roles")["roles"]}

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The parsed answer of a call that has to succeed."""
        answer = self.http.request(method, path, json=body, headers=headers)
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def log_in(self, identity: dict[str, Any], scope: Any = None) -> str:
        """A new token."""
        body: dict[str, Any] = {"auth": {"identity": identity}}
        if scope is not None:
            body["auth"]["scope"] = scope
        answer = httpx.post(f"{AUTH_URL}/auth/tokens", json=body, timeout=60)
        assert answer.status_code == 201, f"{answer.status_code} {answer.text}"
        return answer.headers["X-Subject-Token"]

    def token(self, name: str, scope: Any = None) -> str:
        """A token of a user of the default domain; ``scope`` None: unscoped."""
        user = {"name": name, "domain": DOMAIN, "password": PASSWORD}
        return self.log_in({"methods": ["password"], "password": {"user": user}}, scope or "unscoped")

    def project_token(self, user: User) -> str:
        return self.token(user.name, {"project": {"id": user.project_id}})

    def project(self, name: str | None = None) -> str:
        """Id of a new project."""
        body = {"project": {"name": name or f"zun-test-{uuid4().hex[:8]}", "domain_id": "default"}}
        project_id: str = self.call("POST", "/projects", body)["project"]["id"]
        self._made.append(f"/projects/{project_id}")
        return project_id

    def user(self, project_id: str, *roles: str) -> User:
        """A new user with these roles in the project."""
        name = f"zun-test-{uuid4().hex[:8]}"
        body = {"user": {"name": name, "domain_id": "default", "password": PASSWORD}}
        user_id: str = self.call("POST", "/users", body)["user"]["id"]
        self._made.append(f"/users/{user_id}")
        for role in roles:
            self.call("PUT", f"/projects/{project_id}/users/{user_id}/roles/{self._roles[role]}")
        return User(user_id, name, project_id)

    def role(self, where: str, user: User, role: str) -> None:
        """A role elsewhere: ``where`` is ``/system`` or ``/domains/default``."""
        self.call("PUT", f"{where}/users/{user.id}/roles/{self._roles[role]}")

    def application_credential(self, user: User, **options: Any) -> str:
        """A token of a new application credential of ``user``."""
        mine = self.project_token(user)
        body = {"application_credential": {"name": uuid4().hex, **options}}
        path = f"/users/{user.id}/application_credentials"
        made = self.call("POST", path, body, **{"X-Auth-Token": mine})["application_credential"]
        credential = {"id": made["id"], "secret": made["secret"]}
        return self.log_in({"methods": ["application_credential"], "application_credential": credential})

    def trust_token(self, trustor: User, trustee: User, role: str) -> str:
        """A token of ``trustee``, acting for ``trustor`` in the latter's project."""
        trust = {
            "trustor_user_id": trustor.id,
            "trustee_user_id": trustee.id,
            "project_id": trustor.project_id,
            "impersonation": True,
            "roles": [{"name": role}],
        }
        mine = self.project_token(trustor)
        made = self.call("POST", "/OS-TRUST/trusts", {"trust": trust}, **{"X-Auth-Token": mine})["trust"]
        return self.token(trustee.name, {"OS-TRUST:trust": {"id": made["id"]}})

    def revoke(self, token: str) -> None:
        self.call("DELETE", "/auth/tokens", **{"X-Subject-Token": token})

    def close(self) -> None:
        for path in reversed(self._made):
            answer = self.http.delete(path)
            assert answer.status_code in (204, 404), f"{path}: {answer.text}"
        self.http.close()


@contextmanager
def keystone() -> Iterator[Keystone]:
    """The testbed's Keystone; what was made through it is removed."""
    made = Keystone()
    try:
        yield made
    finally:
        made.close()
