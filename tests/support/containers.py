"""A small cloud for tests of the containers' control plane: hosts that are only records, a clock and a bus the test
steers, and fakes of what does not answer."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import sqlalchemy as sa

from tests.support.api import Api, make_api, told
from zun.api.app import create_app
from zun.api.policy import PolicyEnforcer
from zun.domain.clock import SystemClock
from zun.domain.container import Container
from zun.domain.errors import HostUnreachable, PlacementUnavailable
from zun.domain.operation import Operation
from zun.domain.resources import DISK_GB, MEMORY_MB, VCPU
from zun.placement.base import Inventory, Provider
from zun.store import compute_nodes, containers, operations, quotas, services, tables

BINARY = "zun-compute"


STATS = {
    "cpu_percent": 1.5, "memory_usage_mib": 64.0, "memory_limit_mib": 512.0, "block_read": 1, "block_write": 2,
    "net_rx": 3, "net_tx": 4,
}  # fmt: skip
"""Of a node."""


class RecordingBus:
    """Notes rings; answers calls from ``answers`` (a value, or an exception to raise)."""

    def __init__(self) -> None:
        self.rings: list[str] = []
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {}

    async def ring(self, host: str) -> None:
        self.rings.append(host)

    async def call(self, host: str, method: str, params: Mapping[str, Any], deadline: float) -> Any:
        self.calls.append((host, method, dict(params)))
        if method not in self.answers:
            raise HostUnreachable(f"Host {host} did not answer.")
        answer = self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def serve(
        self,
        host: str,
        doorbell: Callable[[], None],
        methods: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[Any]]],
    ) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        self.rings.clear()


class ShiftedClock(SystemClock):
    """The real clock, moved forward by the test."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


class Switch:
    """Stands before a port: while ``down`` every method raises ``error``; ``seen`` has the names of calls."""

    def __init__(self, real: Any, error: Exception) -> None:
        self._real, self._error = real, error
        self.down = False
        self.seen: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        if not callable(method):
            return method

        async def call(*args: Any, **more: Any) -> Any:
            self.seen.append(name)
            if self.down:
                raise self._error
            return await method(*args, **more)

        return call


@dataclasses.dataclass
class Plane:
    """The API with what the test steers, and the records behind it."""

    api: Api
    bus: RecordingBus
    clock: ShiftedClock
    placement: Switch
    network: Switch

    @property
    def db(self) -> Any:
        return self.api.control.db

    def client(self, *roles: str, **who: Any) -> httpx.AsyncClient:
        return self.api.client(roles or ("member",), **who)

    async def add_host(
        self,
        name: str = "node1",
        *,
        cpus: int = 8,
        memory: int = 64000,
        disk: int = 500,
        zone: str | None = "nova",
        **node: Any,
    ) -> str:
        """A host that is up; its provider's uuid. Placement counts 16 times its cpus."""
        now = self.clock.now()
        values = {
            "hostname": name, "mem_total": memory, "mem_used": 0, "cpus": cpus, "cpu_used": 0.0, "disk_total": disk,
            "disk_used": 0, "disk_quota_supported": False, "total_containers": 0, "labels": {}, "runtimes": ["runc"],
            "enable_cpu_pinning": False,
        }  # fmt: skip
        async with self.db.write() as connection:
            uuid = await compute_nodes.upsert(connection, {**values, **node}, now)
            await services.register(
                connection, host=name, binary=BINARY, availability_zone=zone, instance=str(uuid4()), now=now
            )
        inventories = {VCPU: Inventory(cpus, 0, 16.0), MEMORY_MB: Inventory(memory), DISK_GB: Inventory(disk)}
        await self.api.control.placement.set_provider(Provider(uuid, name, inventories))
        return uuid

    async def set_service(self, host: str = "node1", **values: Any) -> None:
        async with self.db.write() as connection:
            assert await services.change(connection, host, BINARY, values, self.clock.now())

    async def host_down(self, host: str = "node1") -> None:
        await self.set_service(host, forced_down=True)

    async def row(self, uuid: str) -> Container | None:
        async with self.db.read() as connection:
            return await containers.get(connection, uuid)

    async def set_row(self, uuid: str, **values: Any) -> None:
        """What the node would have written."""
        async with self.db.write() as connection:
            assert await containers.update(connection, uuid, {}, values, self.clock.now())

    async def operations(self, uuid: str) -> list[Operation]:
        """Unfinished ones, oldest first."""
        async with self.db.read() as connection:
            return list(await operations.unfinished_of_container(connection, uuid))

    async def finish(self, uuid: str, *, error: bool = False) -> None:
        """The node ended everything it had of the container."""
        for operation in await self.operations(uuid):
            async with self.db.write() as connection:
                await operations.finish(connection, operation.id, worker=None, now=self.clock.now(), error=error)

    async def settle(self, uuid: str, status: str = "Running", **values: Any) -> None:
        """The node did what it was told; the row shows it."""
        await self.finish(uuid)
        made = {"container_id": "e" * 64} | values
        await self.set_row(uuid, status=status, task_state=None, **made)

    async def create(self, client: httpx.AsyncClient, status: str | None = "Running", **body: Any) -> dict[str, Any]:
        """A container in ``status`` (None: as the API left it)."""
        answer = await client.post("/v1/containers?run=true", json={"image": "cirros", **body})
        assert answer.status_code == 202, answer.text
        made: dict[str, Any] = answer.json()
        if status is not None:
            await self.settle(made["uuid"], status)
        return made

    async def usage(self, project_id: str = "proj1") -> dict[str, int]:
        async with self.db.read() as connection:
            return await quotas.usage(connection, project_id)

    async def count(self, table: Any) -> int:
        async with self.db.read() as connection:
            return int((await connection.execute(sa.select(sa.func.count()).select_from(table))).scalar_one())


@asynccontextmanager
async def make_plane(folder: Path, options: Mapping[str, Any] | None = None) -> AsyncIterator[Plane]:
    """The real application, database, Placement, network and volumes; no node."""
    async with make_api(folder, options) as api:
        bus, clock = RecordingBus(), ShiftedClock()
        placement = Switch(api.control.placement, PlacementUnavailable("Placement does not answer."))
        network = Switch(api.control.network, PlacementUnavailable("The network service does not answer."))
        api.control = dataclasses.replace(api.control, bus=bus, clock=clock, placement=placement, network=network)
        api.app = create_app(api.control, api.identity, PolicyEnforcer(api.conf))
        yield Plane(api, bus, clock, placement, network)


async def refused(plane: Plane, body: dict[str, Any], version: str = "1.40", **client: Any) -> tuple[int, str, str]:
    """As ``told``, of a create that fails, after which nothing of it is left."""
    answer = await plane.client(version=version, **client).post("/v1/containers", json=body)
    for table in (tables.containers, tables.operations, tables.local_volumes):
        assert await plane.count(table) == 0
    assert (await plane.usage())["containers"] == 0
    return told(answer)
