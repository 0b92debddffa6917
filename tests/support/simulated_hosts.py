"""Several nodes on simulated engines beside the API, in this process: for what passes from host to host.

A killed node's engine runs on, as a real one does, until the test says that the machine is off.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import sqlalchemy as sa

from tests.support.api import Api, make_api
from tests.support.wait import eventually
from zun.compute import agent, ending
from zun.compute.journal import Journal
from zun.compute.node import Node
from zun.control.evacuation import Decider
from zun.image.registry import RegistryImages
from zun.network.local import LocalNetwork
from zun.runtime.simulated import SimulatedRuntime
from zun.store.tables import compute_nodes, containers, local_allocations, local_ports, operations, services
from zun.volume.local import LocalVolumes

QUICK = {
    "service_down_time": 20,
    "periodic_interval_max": 1,
    "compute.fence_seconds": 1,
    "compute.evacuate_after": 30,
    "compute.evacuation_interval": 5,
    "compute.sweep_interval": 1,
    "compute.orphan_grace_seconds": 0,
}


class SimulatedHost:
    """One node: ``live`` starts an agent process of it, ``kill`` ends that without a word."""

    def __init__(self, cloud: SimulatedHosts, name: str) -> None:
        self.cloud, self.name = cloud, name
        self.runtime = SimulatedRuntime()
        self.folder = cloud.api.folder / name
        self.lease: int | None = None
        """Its ``service_down_time``, where it is not the others'."""
        self.node: Node | None = None
        self._task: asyncio.Task[None] | None = None

    async def live(self) -> None:
        """Returns when the agent works."""
        parts, conf = self.cloud.api.parts, self._conf()
        network = LocalNetwork(parts.db, self.runtime, conf, parts.clock)
        self.node = Node(
            conf=conf,
            db=parts.db,
            clock=parts.clock,
            bus=parts.bus,
            runtime=self.runtime,
            images={"docker": RegistryImages(self.runtime, conf, parts.clock)},
            network=network,
            volumes={"local": LocalVolumes(parts.db, conf, parts.clock)},
            placement=parts.placement,
            cipher=parts.cipher,
            host=self.name,
            deployment_id=parts.deployment_id,
            instance=str(uuid4()),
        )
        ready = asyncio.Event()
        self._task = asyncio.create_task(agent.run(self.node, ready.set), name=f"agent-{self.name}")
        waiter = asyncio.create_task(ready.wait())
        await asyncio.wait({self._task, waiter}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        if self._task.done():
            await self._task
        assert ready.is_set(), f"the agent of {self.name} came up"

    def _conf(self) -> Any:
        conf = self.cloud.api.conf
        self.folder.mkdir(exist_ok=True)
        return _Conf(
            conf,
            host=self.name,
            state_path=str(self.folder),
            volume=_volume(conf, self.folder),
            service_down_time=self.lease or conf.service_down_time,
        )

    async def stop(self) -> None:
        """In an orderly way."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
            self.cloud.api.parts.bus._agents.pop(self.name, None)  # type: ignore[attr-defined]

    async def kill(self) -> None:
        """It says nothing any more: what it promised stands."""
        before = await self.cloud.row(sa.select(services.c.fenced_after).where(services.c.host == self.name))
        await self.stop()
        await self.cloud.write(services.update().where(services.c.host == self.name).values(fenced_after=before[0]))

    async def silent(self, seconds: float = 3600) -> None:
        """Killed, and so long ago."""
        await self.kill()
        await self.aged(seconds)

    async def aged(self, seconds: float = 3600) -> None:
        """It was last heard so long ago."""
        heard = self.cloud.api.parts.clock.now() - timedelta(seconds=seconds)
        await self.cloud.write(services.update().where(services.c.host == self.name).values(last_seen_up=heard))

    def off(self) -> None:
        """The machine lost its power: nothing runs, and the engine has what it had."""
        for sim in self.runtime._containers.values():
            if sim.live:
                self.runtime._end(sim, 137)

    async def engine(self) -> dict[str, str]:
        """uuid -> state in the engine."""
        return {item.uuid: item.state for item in await self.runtime.list()}


class SimulatedHosts:
    """The cloud; every host's agent is alive at the beginning."""

    def __init__(self, api: Api, *names: str) -> None:
        self.api = api
        self.http: httpx.AsyncClient = api.client(("admin",))
        self.hosts = {name: SimulatedHost(self, name) for name in names}
        self.decider = Decider(api.control)

    def __getitem__(self, name: str) -> SimulatedHost:
        return self.hosts[name]

    async def create(self, host: str, *, run: bool = True, **body: Any) -> str:
        """A container that came up on ``host``."""
        wanted = {"image": "busybox", "command": ["sleep", "9"], "cpu": 0.1, "memory": 16, "auto_heal": True}
        answer = await self.http.post(
            "/v1/containers", params={"run": str(run).lower()}, json=wanted | body | {"host": host}
        )
        assert answer.status_code == 202, answer.text
        uuid = str(answer.json()["uuid"])
        await self.wait(uuid, "Running" if run else "Created")
        return uuid

    async def show(self, uuid: str) -> dict[str, Any]:
        answer = await self.http.get(f"/v1/containers/{uuid}")
        return dict(answer.json()) if answer.status_code == 200 else {}

    async def wait(self, uuid: str, status: str, host: str | None = None) -> dict[str, Any]:
        """The container once it is idle in that status, and on that host."""

        async def reached() -> dict[str, Any] | None:
            shown = await self.show(uuid)
            there = shown.get("status") == status and shown["task_state"] is None
            return shown if there and host in (None, shown["host"]) else None

        found = await eventually(reached, 60, f"{uuid} is {status} on {host}; it is {await self.show(uuid)}")
        return found or {}

    async def actions(self, uuid: str) -> list[str]:
        answer = await self.http.get(f"/v1/containers/{uuid}/container_actions")
        return [action["action"] for action in answer.json()["containerActions"]]

    async def events(self, uuid: str, kind: str = "evacuate") -> list[tuple[str, str]]:
        """(step, result) of the last operation of that kind, in their order."""
        number = (await self.row(sa.select(sa.func.max(operations.c.id)).where(
            operations.c.container_uuid == uuid, operations.c.kind == kind)))[0]  # fmt: skip
        request = (await self.row(sa.select(operations.c.request_id).where(operations.c.id == number)))[0]
        answer = await self.http.get(f"/v1/containers/{uuid}/container_actions/{request}")
        found = answer.json()["events"]
        return [(event["event"], event["result"]) for event in reversed(found)]

    async def decide(self) -> str:
        """One look of the decider, which has watched for long enough."""
        self.decider._since, self.decider._looked = -3600.0, self.api.parts.clock.monotonic()
        return await self.decider.once()

    async def row(self, query: Any) -> Any:
        async with self.api.parts.db.read() as connection:
            return (await connection.execute(query)).first()

    async def rows(self, query: Any) -> list[Any]:
        async with self.api.parts.db.read() as connection:
            return list(await connection.execute(query))

    async def write(self, statement: Any) -> None:
        async with self.api.parts.db.write() as connection:
            await connection.execute(statement)

    async def lies(self) -> list[str]:
        """Where records, engines, allocations and ports disagree."""
        found = []
        told = {row.uuid: row for row in await self.rows(sa.select(containers))}
        for host in self.hosts.values():
            for uuid, state in (await host.engine()).items():
                row = told.get(uuid)
                if row is None or row.host != host.name:
                    found.append(f"{host.name} has {uuid} ({state}), which is on {row.host if row else 'no record'}")
                elif (state == "running") != (row.status == "Running"):
                    found.append(f"{uuid} is {state} and told to be {row.status}")
        query = sa.select(local_allocations.c.consumer, compute_nodes.c.hostname).join(
            compute_nodes, compute_nodes.c.uuid == local_allocations.c.provider_uuid
        )
        held = {tuple(row) for row in await self.rows(query.distinct())}
        found += [f"held {one}" for one in held ^ {(row.uuid, row.host) for row in told.values()}]
        ports = {row[0] for row in await self.rows(sa.select(local_ports.c.device_id))}
        found += [f"ports {one}" for one in ports ^ set(told)]
        open_ones = await self.rows(sa.select(operations.c.kind).where(operations.c.finish_time.is_(None)))
        return found + [f"operation {row.kind} is not done" for row in open_ones]

    async def truth(self) -> None:
        async def true() -> bool:
            return not await self.lies()

        await eventually(true, 60, f"all is true: {await self.lies()}")


class _Conf:
    """A configuration with some values of a host's own."""

    def __init__(self, conf: Any, **own: Any) -> None:
        self.__dict__.update(own)
        self._conf = conf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conf, name)


def _volume(conf: Any, folder: Path) -> Any:
    return _Conf(conf.volume, volume_dir=str(folder / "mnt"))


@asynccontextmanager
async def simulated_hosts(
    folder: Path, *names: str, leases: Mapping[str, int] | None = None, **options: Any
) -> AsyncIterator[SimulatedHosts]:
    """A cloud of these hosts; ``leases``: seconds, of those that lose theirs sooner."""
    settings = {**QUICK, **{name.replace("__", "."): value for name, value in options.items()}}
    async with make_api(folder, settings) as api:
        cloud = SimulatedHosts(api, *names)
        before = asyncio.all_tasks()
        for host in cloud.hosts.values():
            host.lease = (leases or {}).get(host.name)
            await host.live()
        try:
            yield cloud
        finally:
            for host in cloud.hosts.values():
                await host.stop()
            await _settled(before)


async def _settled(before: set[Any]) -> None:
    """What an agent that was killed had begun with the database comes to its end before that is closed: a thread of
    SQLite's that tells a loop which is there no more fails whatever test runs then."""
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        _, late = await asyncio.wait(left, timeout=60)
        assert not late, f"still at work: {late}"


@contextlib.contextmanager
def standing_at(point: str) -> Iterator[asyncio.Event]:
    """The first attempt that comes to ``before:<step>`` or ``after:<step>`` (``end``: the transaction that ends it)
    stands there until its agent is killed; the event tells when."""
    reached = asyncio.Event()
    step, write = Journal.step, ending.write

    async def stand(here: str) -> None:
        if here == point and not reached.is_set():
            reached.set()
            await asyncio.Event().wait()

    @asynccontextmanager
    async def standing_step(self: Journal, name: str) -> AsyncIterator[Any]:
        await stand(f"before:{name}")
        async with step(self, name) as progress:
            yield progress
        await stand(f"after:{name}")

    async def standing_write(work: Any, outcome: Any) -> None:
        await stand("before:end")
        await write(work, outcome)
        await stand("after:end")

    Journal.step, ending.write = standing_step, standing_write  # type: ignore[method-assign]
    try:
        yield reached
    finally:
        Journal.step, ending.write = step, write  # type: ignore[method-assign]
