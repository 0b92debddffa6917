"""API and agent in this process on a simulated engine: the whole product without an engine, for faults and chance."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import sqlalchemy as sa

from tests.support.api import Api, make_api
from tests.support.wait import eventually
from zun.compute import agent
from zun.compute.node import Node
from zun.compute.sync import Sync
from zun.runtime.simulated import SimulatedRuntime
from zun.runtime.simulated_pods import SimulatedPods
from zun.store.tables import containers, local_allocations, local_ports, operations, quota_usages

QUICK = {"sweep_interval": 1, "retry_attempts": 2, "orphan_grace_seconds": 0}
SETTLED = frozenset({"Running", "Stopped", "Created", "Paused", "Error"})


@dataclass
class SimulatedCloud:
    """One node. ``die`` ends the agent where it stands; ``live`` starts the next one on the same records."""

    api: Api
    runtime: SimulatedRuntime
    http: httpx.AsyncClient
    node: Node | None = None
    _task: asyncio.Task[None] | None = None
    seen: list[str] = field(default_factory=list)

    async def live(self) -> None:
        """Start an agent process of the host."""
        parts = self.api.parts
        self.node = Node(
            conf=parts.conf,
            db=parts.db,
            clock=parts.clock,
            bus=parts.bus,
            runtime=parts.runtime,
            pods=parts.pods,
            pod_images=parts.pod_images,
            pod_network=parts.pod_network,
            images=parts.images,
            image_store=parts.image_store,
            network=parts.network,
            volumes=parts.volumes,
            placement=parts.placement,
            cipher=parts.cipher,
            host="sim",
            deployment_id=parts.deployment_id,
            instance=str(uuid4()),
        )
        ready = asyncio.Event()
        self._task = asyncio.create_task(agent.run(self.node, ready.set), name="agent")
        waiter = asyncio.create_task(ready.wait())
        await asyncio.wait({self._task, waiter}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        if self._task.done():
            await self._task
        assert ready.is_set(), "the agent came up"

    async def die(self) -> None:
        """End the agent at whatever await it stands."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
            await self.api.parts.bus.close()

    async def create(self, *, run: bool = True, **body: Any) -> str:
        """A container accepted (202); its uuid."""
        body = {"image": "busybox", "command": ["sleep", "9"], "cpu": 0.1, "memory": 16} | body
        answer = await self.http.post("/v1/containers", params={"run": str(run).lower()}, json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["uuid"])

    @property
    def pods(self) -> SimulatedPods:
        """The engine for capsules."""
        found = self.api.parts.pods
        assert isinstance(found, SimulatedPods)
        return found

    async def create_capsule(self, *containers: dict[str, Any], **spec: Any) -> str:
        """A capsule accepted (202); its uuid. ``name`` and ``metadata`` belong to the metadata."""
        metadata = {"name": spec.pop("name", None), **spec.pop("metadata", {})}
        entries = [{"image": "busybox", **entry} for entry in containers or ({},)]
        template = {"kind": "capsule", "metadata": metadata, "spec": {"containers": entries, **spec}}
        answer = await self.http.post("/v1/capsules", json={"template": template})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["uuid"])

    async def capsule(self, uuid: str) -> dict[str, Any]:
        """As the API shows it; {} when it is gone."""
        answer = await self.http.get(f"/v1/capsules/{uuid}")
        return {} if answer.status_code == 404 else dict(answer.json())

    async def wait_capsule(self, uuid: str, *statuses: str) -> dict[str, Any]:
        """The capsule once nothing works on it and it is in one of ``statuses`` (``gone``: {} then)."""

        async def reached() -> dict[str, Any] | bool:
            shown = await self.capsule(uuid)
            if not shown:
                return "gone" in statuses
            task = await self.rows(sa.select(containers.c.task_state).where(containers.c.uuid == uuid))
            return shown if shown["status"] in statuses and task and task[0][0] is None else False

        found = await eventually(reached, 60, f"capsule {uuid} becomes {statuses}; it is {await self.capsule(uuid)}")
        return found if isinstance(found, dict) else {}

    async def capsule_leftovers(self) -> list[str]:
        """What a deleted capsule might have left."""
        found = [f"sandbox {one.uuid}" for one in await self.pods.sandboxes()]
        found += [f"member {one.uuid}" for one in await self.pods.list()]
        for name, column in (
            ("allocation", local_allocations.c.consumer),
            ("port", local_ports.c.device_id),
            ("row", containers.c.uuid),
        ):
            found += [f"{name} {row[0]}" for row in await self.rows(sa.select(column).distinct())]
        used = await self.rows(sa.select(quota_usages.c.containers, quota_usages.c.cpu, quota_usages.c.memory))
        found += [f"quota {tuple(row)}" for row in used if any(row)]
        return found

    async def show(self, uuid: str) -> dict[str, Any] | None:
        answer = await self.http.get(f"/v1/containers/{uuid}")
        return None if answer.status_code == 404 else dict(answer.json())

    async def status(self, uuid: str) -> str | None:
        """The status once no task is at work; None while one is."""
        shown = await self.show(uuid)
        if shown is None:
            return "gone"
        return None if shown["task_state"] else str(shown["status"])

    async def wait(self, uuid: str, *statuses: str) -> dict[str, Any]:
        """The container once it is idle in one of ``statuses`` (``gone`` for none: {} then)."""

        async def reached() -> bool:
            return await self.status(uuid) in statuses

        await eventually(reached, 60, f"{uuid} becomes {statuses}")
        return await self.show(uuid) or {}

    async def rows(self, query: sa.Select[Any]) -> list[Any]:
        async with self.api.parts.db.read() as connection:
            return list(await connection.execute(query))

    async def sync(self, times: int = 2) -> None:
        """Compare now; twice, because what has no record is believed only the second time."""
        assert self.node
        sync = Sync(self.node, lambda: frozenset())
        for _ in range(times):
            await sync.once()

    async def lies(self) -> list[str]:
        """Where records, engine, allocations, ports and quota disagree."""
        rows = await self.rows(sa.select(containers.c.uuid, containers.c.status, containers.c.task_state))
        found = [f"{r.uuid} {r.status}/{r.task_state}" for r in rows if r.status not in SETTLED or r.task_state]
        waiting = await self.rows(sa.select(operations.c.kind).where(operations.c.finish_time.is_(None)))
        found += [f"operation {row.kind} is not done" for row in waiting]
        engine = {item.uuid: item.state for item in await self.runtime.list()}
        told = {r.uuid: r.status for r in rows}
        for uuid, state in engine.items():
            if uuid not in told:
                found.append(f"the engine has {uuid}, no record does")
            elif (state == "running") != (told[uuid] == "Running"):
                found.append(f"{uuid} is {state} in the engine and {told[uuid]} in the record")
        found += [f"{u} is {s} and not in the engine" for u, s in told.items() if s != "Error" and u not in engine]
        live = {uuid for uuid, status in told.items() if status != "Error"}
        for name, column in (("allocation", local_allocations.c.consumer), ("port", local_ports.c.device_id)):
            held = {row[0] for row in await self.rows(sa.select(column).distinct())}
            found += [f"{name} of {uuid}, which no record has" for uuid in held - set(told)]
            found += [f"{uuid} has no {name}" for uuid in live - held]
        counted = sum(row[0] for row in await self.rows(sa.select(quota_usages.c.containers)))
        if counted != len(rows):
            found.append(f"quota counts {counted} of {len(rows)}")
        return found

    async def truth(self) -> None:
        """All is true, at the latest after two syncs."""

        async def true() -> bool:
            if not await self.lies():
                return True
            await self.sync()
            return not await self.lies()

        await eventually(true, 90, "records and engine agree")


@contextlib.asynccontextmanager
async def simulated_cloud(folder: Path, **options: Any) -> AsyncIterator[SimulatedCloud]:
    """A node that works, with short intervals."""
    settings = (
        {"host": "sim"}
        | {f"compute.{name}": value for name, value in QUICK.items()}
        | {name.replace("__", "."): value for name, value in options.items()}
    )
    async with make_api(folder, settings) as api:
        runtime = api.parts.runtime
        assert isinstance(runtime, SimulatedRuntime)
        cloud = SimulatedCloud(api, runtime, api.client(("admin",)))
        await cloud.live()
        try:
            yield cloud
        finally:
            await cloud.die()
