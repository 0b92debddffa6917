"""The OpenStack services of tests/testbed as a test sees them: behind the product's back, blocking."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

HOST = "127.0.0.1"
PASSWORD = os.environ.get("TESTBED_PASSWORD", "testbed")
REGION = "RegionOne"
FOLDER = Path(os.environ.get("TESTBED_DIR", "/var/lib/zun-testbed"))
SCRIPTS = Path(__file__).parents[1] / "testbed"
MACHINE = os.environ.get("TESTBED_HOST") or socket.gethostname()
"""The name Neutron's agent is registered under; ports are bound to it (``[neutron]/agent_host``)."""
REGISTRY = f"{HOST}:{os.environ.get('REGISTRY_PORT', '5000')}"
"""A registry with ``busybox:latest``; ``[docker]/default_registry`` makes ``busybox`` mean it."""
PORTS = {
    "MariaDB": int(os.environ.get("MYSQL_PORT", "3306")),
    "RabbitMQ": int(os.environ.get("RABBIT_PORT", "5672")),
    "Keystone": int(os.environ.get("KEYSTONE_PORT", "35357")),
    "Placement": int(os.environ.get("PLACEMENT_PORT", "8778")),
    "Glance": int(os.environ.get("GLANCE_PORT", "9292")),
    "Cinder": int(os.environ.get("CINDER_PORT", "8776")),
    "Neutron": int(os.environ.get("NEUTRON_PORT", "9696")),
    "Kuryr": int(os.environ.get("KURYR_PORT", "23750")),
    "registry": int(os.environ.get("REGISTRY_PORT", "5000")),
}
AUTH_URL = f"http://{HOST}:{PORTS['Keystone']}/v3"
OWN_ACCOUNT = f"""
[keystone_authtoken]
auth_url = {AUTH_URL}
auth_type = password
username = zun
password = {PASSWORD}
project_name = service
user_domain_id = default
project_domain_id = default
region_name = {REGION}
"""
"""Of a zun.conf: the product's own account."""
_VERSIONS = {"placement": "placement 1.39", "volumev3": "volume 3.60"}
_RENEW_BEFORE = 600.0  # seconds


def missing() -> list[str]:
    """Names of the services nobody listens for."""
    found = []
    for name, port in PORTS.items():
        try:
            socket.create_connection((HOST, port), timeout=5).close()
        except OSError:
            found.append(f"{name} ({HOST}:{port})")
    return found


class Refused(AssertionError):
    """A service answered a status that was not wanted."""

    def __init__(self, what: str, answer: httpx.Response) -> None:
        super().__init__(f"{what}: {answer.status_code} {answer.text[:2000]}")
        self.status = answer.status_code


class Account:
    """A user in a project, with its token and the endpoints of its catalogue."""

    def __init__(self, user: str, project: str, password: str = PASSWORD) -> None:
        self.user, self.project, self.password = user, project, password
        self._http = httpx.Client(timeout=60)
        self._token: dict[str, Any] | None = None
        self._secret = ""
        self._until = 0.0

    def close(self) -> None:
        self._http.close()

    @property
    def token(self) -> str:
        """Kept, and renewed before it ends."""
        if time.monotonic() > self._until:
            self.log_in()
        return self._secret

    @property
    def details(self) -> Mapping[str, Any]:
        """What Keystone says of the token: project, user, roles, catalog."""
        assert self.token
        assert self._token is not None
        return self._token

    @property
    def project_id(self) -> str:
        return str(self.details["project"]["id"])

    @property
    def user_id(self) -> str:
        return str(self.details["user"]["id"])

    def log_in(self) -> None:
        """A fresh token."""
        domain = {"id": "default"}
        who = {"name": self.user, "domain": domain, "password": self.password}
        body = {
            "auth": {
                "identity": {"methods": ["password"], "password": {"user": who}},
                "scope": {"project": {"name": self.project, "domain": domain}},
            }
        }
        answer = self._http.post(f"{AUTH_URL}/auth/tokens", json=body)
        if answer.status_code != 201:
            raise Refused(f"log in of {self.user}", answer)
        self._token, self._secret = answer.json()["token"], answer.headers["x-subject-token"]
        self._until = time.monotonic() + 3600 - _RENEW_BEFORE

    def endpoint(self, service: str) -> str:
        """``network``, ``placement``, ``image``, ``volumev3``, ``identity``, without a slash at the end."""
        entry = next(entry for entry in self.details["catalog"] if entry["type"] == service)
        url = next(point["url"] for point in entry["endpoints"] if point["interface"] == "public")
        return str(url).rstrip("/")

    def ask(self, service: str, method: str, path: str, **options: Any) -> httpx.Response:
        """One request, whatever the answer. ``path`` is below the endpoint (``/v2.0/ports``)."""
        headers = {"X-Auth-Token": self.token, **options.pop("headers", {})}
        if service in _VERSIONS:
            headers.setdefault("OpenStack-API-Version", _VERSIONS[service])
        return self._http.request(method, f"{self.endpoint(service)}{path}", headers=headers, **options)

    def call(self, service: str, method: str, path: str, *, absent_ok: bool = False, **options: Any) -> Any:
        """The answer's JSON, None where it has none (or is 404 and ``absent_ok``). Raises Refused."""
        answer = self.ask(service, method, path, **options)
        if absent_ok and answer.status_code == 404:
            return None
        if answer.status_code >= 400:
            raise Refused(f"{method} {service}{path}", answer)
        return answer.json() if answer.content and "json" in answer.headers.get("content-type", "") else None


class Testbed:
    """Raises AssertionError with one sentence where the services are not up."""

    __test__ = False  # not a test class

    def __init__(self) -> None:
        if away := missing():
            raise AssertionError(
                f"The cloud testbed is not up ({', '.join(away)}): `make testbed-up` starts it,"
                " `make test-cloud` does so by itself."
            )
        self.admin = Account("admin", "admin")
        self.demo = Account("demo", "demo")
        self.zun = Account("zun", "service")

    def close(self) -> None:
        for account in (self.admin, self.demo, self.zun):
            account.close()

    # -- its own processes ----------------------------------------------------------------------------

    def pid(self, name: str) -> int:
        """Of a service that the scripts started, as status.sh names it."""
        return int((FOLDER / "run" / f"{name}.pid").read_text().split()[0])

    def end(self, name: str) -> None:
        """The service ends; for tests that are alone (``testbed_alone``) and bring it back."""
        self._script("down.sh", name)

    def bring_back(self) -> None:
        """Every service that does not run is started."""
        self._script("up.sh")

    def _script(self, *words: str) -> None:
        command = [str(SCRIPTS / words[0]), *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"

    # -- Neutron --------------------------------------------------------------------------------------

    def ports(self, **filters: str) -> list[dict[str, Any]]:
        """All ports that match, e.g. ``device_id=<container>``; fields as Neutron names them."""
        return list(self.admin.call("network", "GET", "/v2.0/ports", params=filters)["ports"])

    def port(self, uuid: str) -> dict[str, Any] | None:
        found = self.admin.call("network", "GET", f"/v2.0/ports/{uuid}", absent_ok=True)
        return dict(found["port"]) if found else None

    def l2_agent(self) -> dict[str, Any]:
        """Neutron's record of this machine's Open vSwitch agent."""
        params = {"host": MACHINE, "binary": "neutron-openvswitch-agent"}
        [found] = self.admin.call("network", "GET", "/v2.0/agents", params=params)["agents"]
        return dict(found)

    def security_groups(self, **filters: str) -> list[dict[str, Any]]:
        return list(self.admin.call("network", "GET", "/v2.0/security-groups", params=filters)["security_groups"])

    # -- Cinder ---------------------------------------------------------------------------------------

    def volumes(self, **filters: str) -> list[dict[str, Any]]:
        """All volumes with details (``attachments``, ``status``, ``metadata``)."""
        params = {"all_tenants": "1", **filters}
        return list(self.admin.call("volumev3", "GET", "/volumes/detail", params=params)["volumes"])

    def volume(self, uuid: str) -> dict[str, Any] | None:
        found = self.admin.call("volumev3", "GET", f"/volumes/{uuid}", absent_ok=True)
        return dict(found["volume"]) if found else None

    def volumes_attached_to(self, container: str) -> list[dict[str, Any]]:
        """Volumes one of whose attachments names the container."""
        return [v for v in self.volumes() if any(a["server_id"] == container for a in v["attachments"])]

    # -- Placement ------------------------------------------------------------------------------------

    def provider(self, name: str) -> dict[str, Any] | None:
        """The resource provider of a host name."""
        found = self.admin.call("placement", "GET", "/resource_providers", params={"name": name})["resource_providers"]
        return dict(found[0]) if found else None

    def allocation(self, consumer: str) -> dict[str, int]:
        """Resource class -> amount held for a container, over all providers."""
        held: dict[str, int] = {}
        found = self.admin.call("placement", "GET", f"/allocations/{consumer}")["allocations"]
        for provider in found.values():
            for name, amount in provider["resources"].items():
                held[name] = held.get(name, 0) + amount
        return held

    def allocations_on(self, host: str) -> dict[str, dict[str, int]]:
        """Consumer -> resources, of the provider named ``host``; empty where there is none."""
        provider = self.provider(host)
        if provider is None:
            return {}
        path = f"/resource_providers/{provider['uuid']}/allocations"
        found = self.admin.call("placement", "GET", path)["allocations"]
        return {consumer: entry["resources"] for consumer, entry in found.items()}

    def inventories(self, host: str) -> dict[str, dict[str, Any]]:
        provider = self.provider(host)
        assert provider is not None, f"Placement has no provider {host}"
        path = f"/resource_providers/{provider['uuid']}/inventories"
        return dict(self.admin.call("placement", "GET", path)["inventories"])

    def traits(self, host: str) -> list[str]:
        provider = self.provider(host)
        assert provider is not None, f"Placement has no provider {host}"
        return list(self.admin.call("placement", "GET", f"/resource_providers/{provider['uuid']}/traits")["traits"])

    def remove_provider(self, host: str) -> None:
        """With what it still holds; absent is success."""
        for consumer in self.allocations_on(host):
            self.admin.call("placement", "DELETE", f"/allocations/{consumer}", absent_ok=True)
        if (provider := self.provider(host)) is not None:
            self.admin.call("placement", "DELETE", f"/resource_providers/{provider['uuid']}", absent_ok=True)

    # -- Glance ---------------------------------------------------------------------------------------

    def images(self, **filters: str) -> list[dict[str, Any]]:
        return list(self.admin.call("image", "GET", "/v2/images", params=filters)["images"])
