"""A project of a test's own in the testbed, with a user and, if asked, a network; all of it goes with the test."""

from __future__ import annotations

import random
import secrets
from typing import Any

from tests.support.engine import Engine
from tests.support.testbed import Account, Testbed
from tests.support.wait import wait_until


class Project:
    """``account`` is its user. What the test makes in the project may stay there: ``remove`` finds it."""

    def __init__(self, testbed: Testbed, *roles: str) -> None:
        self.testbed = testbed
        self.name = f"zun-test-{secrets.token_hex(4)}"
        self.accounts: list[Account] = []
        made = self._identity("POST", "/projects", json={"project": {"name": self.name, "domain_id": "default"}})
        self.id = str(made["project"]["id"])
        self._users: list[str] = []
        self.account = self.add_user(*(roles or ("member", "reader")))
        self.network_id = ""
        self.subnet_id = ""
        self.cidr = ""

    @property
    def token(self) -> str:
        return self.account.token

    def _identity(self, method: str, path: str, **options: Any) -> Any:
        return self.testbed.admin.call("identity", method, path, **options)

    def add_user(self, *roles: str) -> Account:
        """One more user with these roles in the project."""
        name, password = f"{self.name}-{len(self._users)}", secrets.token_hex(8)
        body = {"user": {"name": name, "password": password, "domain_id": "default"}}
        user = self._identity("POST", "/users", json=body)["user"]["id"]
        self._users.append(user)
        known = {role["name"]: role["id"] for role in self._identity("GET", "/roles")["roles"]}
        for role in roles:
            self._identity("PUT", f"/projects/{self.id}/users/{user}/roles/{known[role]}")
        account = Account(name, self.name, password)
        self.accounts.append(account)
        return account

    # -- networks -------------------------------------------------------------------------------------

    def add_network(self, **subnet: Any) -> tuple[str, str]:
        """A network with a subnet (10.x.y.0/24 unless ``subnet`` says otherwise); their ids."""
        network = self.neutron("POST", "/networks", json={"network": {"name": f"{self.name}-net"}})["network"]["id"]
        return network, self.add_subnet(network, **subnet)

    def add_subnet(self, network: str, **fields: Any) -> str:
        """Fields as Neutron has them: ``cidr``, ``ip_version``, ``gateway_ip``, …"""
        body = {
            "network_id": network,
            "ip_version": 4,
            "name": f"{self.name}-subnet",
            "enable_dhcp": False,
            **({} if "cidr" in fields or "subnetpool_id" in fields else {"cidr": random_cidr()}),
            **fields,
        }
        return str(self.neutron("POST", "/subnets", json={"subnet": body})["subnet"]["id"])

    def use_network(self) -> Project:
        """The project's own network, which requests without ``nets`` find."""
        self.cidr = random_cidr()
        self.network_id, self.subnet_id = self.add_network(cidr=self.cidr)
        return self

    def neutron(self, method: str, path: str, **options: Any) -> Any:
        """A call of the project's user, below /v2.0."""
        return self.account.call("network", method, f"/v2.0{path}", **options)

    # -- the end --------------------------------------------------------------------------------------

    def remove(self, engine: Engine | None = None) -> None:
        """All the project has in the engine's networks, Neutron, Cinder and Glance; then user and project."""
        self._remove_volumes()
        self._remove_networks(engine)
        for image in self.testbed.images(owner=self.id):
            self.testbed.admin.call("image", "DELETE", f"/v2/images/{image['id']}", absent_ok=True)
        for account in self.accounts:
            account.close()
        for user in self._users:
            self._identity("DELETE", f"/users/{user}", absent_ok=True)
        self._identity("DELETE", f"/projects/{self.id}", absent_ok=True)

    def _remove_networks(self, engine: Engine | None) -> None:
        admin = self.testbed.admin
        networks = self.listed("networks")
        if engine is not None and networks:
            for name in engine_networks(engine, {row["id"] for row in networks}):
                engine.remove_network(name)
        pools = admin.call("network", "GET", "/v2.0/subnetpools")["subnetpools"]
        for pool in pools:  # of engine networks that went just now, and not by the product
            if any(row["id"] in pool["description"] for row in networks):
                admin.call("network", "DELETE", f"/v2.0/subnetpools/{pool['id']}", absent_ok=True)
        for kind in ("ports", "subnets", "networks", "subnetpools", "security-groups"):
            for row in self.listed(kind):
                if row["name"] != "default" or kind != "security-groups":
                    admin.call("network", "DELETE", f"/v2.0/{kind}/{row['id']}", absent_ok=True)
        for row in self.listed("security-groups"):  # the default one goes last
            admin.call("network", "DELETE", f"/v2.0/security-groups/{row['id']}", absent_ok=True)

    def listed(self, kind: str) -> list[dict[str, Any]]:
        """Sorted out here: asked for a project's security groups, Neutron makes a default one."""
        found = self.testbed.admin.call("network", "GET", f"/v2.0/{kind}")[kind.replace("-", "_")]
        return [row for row in found if row["project_id"] == self.id]

    def _remove_volumes(self) -> None:
        admin, mine = self.testbed.admin, {"project_id": self.id}
        for volume in self.testbed.volumes(**mine):
            path = f"/volumes/{volume['id']}"
            if volume["attachments"]:
                admin.call("volumev3", "POST", f"{path}/action", json={"os-force_detach": {}}, absent_ok=True)
            if volume["status"] not in ("available", "error", "deleting"):
                reset = {"os-reset_status": {"status": "available", "attach_status": "detached"}}
                admin.call("volumev3", "POST", f"{path}/action", json=reset, absent_ok=True)
            admin.call("volumev3", "DELETE", path, params={"cascade": "true", "force": "true"}, absent_ok=True)
        wait_until(lambda: not self.testbed.volumes(**mine), 60, f"Cinder deleted the volumes of {self.name}")


def random_cidr() -> str:
    """Products side by side want different ones."""
    return f"10.{random.randrange(100, 200)}.{random.randrange(256)}.0/24"


def engine_networks(engine: Engine, networks: set[str]) -> list[str]:
    """Names of Docker networks made for Neutron networks: by their names or options."""
    found = []
    for row in engine.get("/networks"):
        words = {row["Name"], *(row["Options"] or {}).values(), *((row["IPAM"] or {}).get("Options") or {}).values()}
        if any(network in word for network in networks for word in words):
            found.append(str(row["Name"]))
    return found
