"""One user's view of a product beside the testbed, with what is held outside read from the services themselves."""

from __future__ import annotations

from typing import Any

from tests.support.cloud import Cloud
from tests.support.cloud_product import CloudProduct
from tests.support.testbed import Account, Testbed
from tests.support.wait import wait_until


class RealCloud(Cloud):
    """``account`` None is the cloud's administrator."""

    product: CloudProduct  # type: ignore[assignment]

    def __init__(self, product: CloudProduct, account: Account | None = None, *, version: str = "1.40", api: int = 0):
        self.product = product
        self.image = product.image
        self.account = account or product.testbed.admin
        self.http = product.http(account, version, api=api)

    @property
    def testbed(self) -> Testbed:
        return self.product.testbed

    def allocation(self, uuid: str) -> dict[str, int]:
        """Resource class -> amount, as Placement holds it."""
        return self.testbed.allocation(uuid)

    def ports(self, uuid: str) -> list[str]:
        """Addresses of the container's ports in Neutron."""
        return [ip["ip_address"] for port in self.port_rows(uuid) for ip in port["fixed_ips"]]

    def port_rows(self, uuid: str) -> list[dict[str, Any]]:
        return self.testbed.ports(device_id=uuid)

    def holds_nothing(self, uuid: str) -> bool:
        """Neither the engine, Neutron, Placement nor Cinder holds anything for it."""
        return not self.product.leaks_of(uuid)

    def make_volume(self, **fields: Any) -> str:
        """A volume of 1 GiB in the user's project, once it is available."""
        body = {"volume": {"size": 1, "name": "scenario", **fields}}
        uuid = str(self.account.call("volumev3", "POST", "/volumes", json=body)["volume"]["id"])
        wait_until(lambda: self.volume_status(uuid) == "available", 60, f"volume {uuid} is available")
        return uuid

    def volume_status(self, uuid: str) -> str | None:
        """None when Cinder does not have it."""
        found = self.testbed.volume(uuid)
        return str(found["status"]) if found else None

    def own_volumes(self) -> list[dict[str, Any]]:
        """All volumes of the user's project."""
        return self.testbed.volumes(project_id=self.account.project_id)

    def output(self, uuid: str, command: str) -> str:
        """Of a command in the container that has to end with 0."""
        answer = self.act(uuid, "execute", 200, command=command).json()
        assert answer["exit_code"] == 0, answer
        return str(answer["output"])
