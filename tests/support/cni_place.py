"""A node whose capsules are on the embedded networks: the agent's network adapter beside the real CNI pair."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from tests.support.cni import CniNode, sandbox_id
from tests.support.namespaces import Namespace
from tests.support.virtual_clock import StandingClock
from tests.support.wait import eventually
from zun.domain.caller import Caller
from zun.domain.container import Container
from zun.network.cni import CniNetwork
from zun.network.cni_local import LocalSource
from zun.network.local import LocalNetwork
from zun.plumbing.plumber import Plumber
from zun.store.database import Database


class Place:
    """One node with its embedded networks; ``network`` is what its agent has."""

    def __init__(self, node: CniNode, db: Database, runtime: Any, conf: Any) -> None:
        self.node = node
        self.clock = StandingClock()
        self.local = LocalNetwork(db, runtime, conf, self.clock)
        owner = node.handovers.owner
        self.network = CniNetwork(
            LocalSource(self.local, runtime, owner, conf), Plumber(owner), node.handovers, db, conf, self.clock
        )
        self.namespaces: list[Namespace] = []
        self.plugged: list[tuple[str, str]] = []

    async def capsule(self, caller: Caller) -> tuple[Namespace, str]:
        """A sandbox on the caller's network; its namespace and address."""
        asked = await self.local.resolve(caller, [])
        row = capsule_row(caller)
        [attachment] = await self.network.ensure_ports(row, asked)
        namespace = await asyncio.to_thread(Namespace)
        self.namespaces.append(namespace)
        sandbox = sandbox_id()
        (await asyncio.to_thread(self.node.add, row.uuid, sandbox, namespace)).ok()
        self.plugged.append((row.uuid, sandbox))
        return namespace, attachment.address

    async def idle(self) -> None:
        """Long after: what nobody uses goes."""
        await self.clock.sleep(10_000)
        await self.network.collect_idle()
        await self.local.collect_idle()
        await self.network.collect_idle()

    async def empty(self) -> None:
        for capsule, _ in self.plugged:
            await self.network.release_ports(capsule)
        await self.idle()
        for namespace in self.namespaces:
            namespace.close()
        await self.network.close()


def capsule_row(caller: Caller, **fields: Any) -> Container:
    values = {"name": "web", "image": "", "image_driver": "docker", "status": "Creating", "uuid": str(uuid.uuid4())}
    return Container(project_id=str(caller.project_id), user_id=caller.user_id, **{**values, **fields})


async def reaches(one: Namespace, other: Namespace, address: str) -> None:
    with other.serving(8000, "hello"):
        await eventually(lambda: asyncio.to_thread(_fetched, one, address), 60, f"TCP passes to {address}")


def _fetched(one: Namespace, address: str) -> bool:
    return one.fetch(address, 8000) == "hello"
