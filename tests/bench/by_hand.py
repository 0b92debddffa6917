"""The same ports and engine containers without the product: the floor that it is compared with."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Any, cast

import httpx

from tests.bench.cloud_rounds import COMMAND, LONGEST, READY
from tests.support.cloud_product import CloudProduct
from tests.support.engine import SOCKET
from tests.support.testbed import MACHINE
from tests.support.testbed_project import Project
from tests.support.wait import eventually

_KEEP = ("Memory", "MemorySwap", "CpuShares", "CpuPeriod", "CpuQuota", "PidsLimit", "LogConfig")


class ByHand:
    """``pattern`` is a container of the product: image and limits are taken from it."""

    def __init__(self, product: CloudProduct, project: Project, pattern: str) -> None:
        self._project = project
        found = product.engine.container(pattern)
        assert found
        self._image = str(found["Image"])
        self._limits = {name: found["HostConfig"][name] for name in _KEEP if found["HostConfig"].get(name)}
        admin = product.testbed.admin
        self._neutron = httpx.AsyncClient(
            base_url=admin.endpoint("network"), headers={"X-Auth-Token": admin.token}, timeout=120
        )
        transport = httpx.AsyncHTTPTransport(uds=SOCKET)
        self._engine = httpx.AsyncClient(transport=transport, base_url="http://docker", timeout=300)

    async def __aenter__(self) -> ByHand:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._neutron.aclose()
        await self._engine.aclose()

    async def with_kuryr(self, count: int) -> float:
        """Seconds for ``count`` side by side of: port, create on Kuryr's network, start."""
        return await self._timed(count, self._one_with_kuryr)

    async def gone_with_kuryr(self) -> float:
        """Seconds for: stop of a container that is at work, remove it, delete its port."""
        port, container = await self._one_with_kuryr()

        async def ready() -> bool:
            return READY in (await self._engine.get(f"/containers/{container}/logs", params={"stdout": "true"})).text

        await eventually(cast("Callable[[], bool]", ready), LONGEST, f"{container} says that it is ready")
        begin = time.perf_counter()
        (await self._engine.post(f"/containers/{container}/stop")).raise_for_status()
        (await self._engine.delete(f"/containers/{container}")).raise_for_status()
        (await self._neutron.delete(f"/v2.0/ports/{port}")).raise_for_status()
        return time.perf_counter() - begin

    async def _one_with_kuryr(self) -> tuple[str, str]:
        port = await self._port("compute:kuryr")
        address = {"IPAMConfig": {"IPv4Address": port["fixed_ips"][0]["ip_address"]}}
        network = {"EndpointsConfig": {self._project.network_id: address}}
        more = {"MacAddress": port["mac_address"], "NetworkingConfig": network}
        return port["id"], await self._container(self._project.network_id, more)

    async def with_direct(self, count: int) -> float:
        """Seconds for ``count`` side by side of: port beside create without a network and start."""

        async def one() -> tuple[str, str]:
            port, container = await asyncio.gather(self._port("compute:zun"), self._container("none", {}))
            return port["id"], container

        return await self._timed(count, one)

    async def _timed(self, count: int, one: Any) -> float:
        begin = time.perf_counter()
        made = await asyncio.gather(*(one() for _ in range(count)))
        took = time.perf_counter() - begin
        for _, container in made:
            (await self._engine.delete(f"/containers/{container}", params={"force": "true"})).raise_for_status()
        for port, _ in made:
            (await self._neutron.delete(f"/v2.0/ports/{port}")).raise_for_status()
        return took

    async def _port(self, owner: str) -> Any:
        body = {
            "network_id": self._project.network_id,
            "project_id": self._project.id,
            "device_id": secrets.token_hex(16),
            "device_owner": owner,
            "binding:host_id": MACHINE,
        }
        answer = await self._neutron.post("/v2.0/ports", json={"port": body})
        assert answer.status_code == 201, answer.text
        return answer.json()["port"]

    async def _container(self, network: str, more: dict[str, Any]) -> str:
        host = {**self._limits, "NetworkMode": network}
        body = {"Image": self._image, "Cmd": COMMAND, "HostConfig": host, **more}
        made = await self._engine.post("/containers/create", json=body)
        assert made.status_code == 201, made.text
        ident = str(made.json()["Id"])
        started = await self._engine.post(f"/containers/{ident}/start")
        assert started.status_code == 204, started.text
        return ident
