"""Neutron's ports, plugged into the containers' network namespaces by this node itself; engine containers have network
mode none. Nothing in Neutron and no plug-in of the engine is involved.

An interface outlives its namespace: when a container ends it is taken out, and the next start gets it, so that the
switch and Neutron see no change.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

from zun.domain.clock import Clock
from zun.domain.container import Container, RequestedNetwork
from zun.domain.errors import NetworkNotFound
from zun.domain.observed import NO_ENGINE_NETWORK, Attachment, EngineNetwork
from zun.network.direct_active import ActivePorts
from zun.network.neutron import NeutronNetwork, attachments
from zun.network.neutron_plugging import prepare, vifs_on
from zun.network.neutron_ports import BoundPort
from zun.openstack.client import ServiceClient
from zun.plumbing.plumber import Plumber
from zun.plumbing.vif import Vif
from zun.store import capsules
from zun.store import containers as rows
from zun.store.database import Database

LOG = logging.getLogger(__name__)


class DirectNetwork(NeutronNetwork):
    """See ``zun.network.base.Network``."""

    DEVICE_OWNER = "compute:zun"
    plugs = True

    def __init__(self, client: ServiceClient, db: Database, conf: Any, clock: Clock, deployment_id: str) -> None:
        super().__init__(client, db, conf)
        self._db = db
        self._clock = clock
        self._host = conf.host
        self._grace = float(conf.compute.orphan_grace_seconds)
        self._patience = float(conf.network.vif_active_timeout)
        self._plumber = Plumber(f"{deployment_id}/{conf.host}", ovs_database=conf.network.ovsdb_connection)
        self._active = ActivePorts(self._api)
        self._vifs: dict[str, list[Vif]] = {}
        self._namespaces: dict[str, int] = {}
        """Container -> its present namespace, held open: what is in it does not die with the container's process."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._suspects: dict[str, float] = {}

    async def close(self) -> None:
        """Let go of namespaces and threads."""
        await self._active.close()
        for namespace in self._namespaces.values():
            os.close(namespace)
        self._namespaces.clear()
        await self._plumber.close()

    async def engine_network(self, bound: BoundPort) -> EngineNetwork:
        return NO_ENGINE_NETWORK

    async def ensure_ports(
        self, container: Container, requested: Sequence[RequestedNetwork], *, new: bool = False
    ) -> Sequence[Attachment]:
        """Ports in Neutron, and their host's ends on the switch, so that Neutron's agent works while the engine does.
        Raises NetworkSetupFailed, ServiceUnavailable."""
        bound = await self._ports.ensure(container, requested, new=new)
        vifs = await self._prepare(container.uuid, bound)
        self._vifs[container.uuid] = vifs
        return [item for port in bound for item in attachments(port, NO_ENGINE_NETWORK)]

    async def release_ports(self, container_uuid: str, *, exposed: bool = True) -> None:
        """Unplugged first: nothing sends under an address that Neutron may give to another."""
        await self._ports.release(container_uuid, after=self._unplug(container_uuid))
        if exposed:
            await self._groups.release(container_uuid)

    @asynccontextmanager
    async def leaving(self, container_uuid: str) -> AsyncIterator[None]:
        yield
        await self._unplug(container_uuid)

    async def _unplug(self, container_uuid: str) -> None:
        """What this process plugged it knows; else it is found by its marks."""
        async with self._lock(container_uuid):
            vifs = self._vifs.get(container_uuid)
            if vifs is None:
                await self._plumber.remove(container_uuid)
            else:
                await self._plumber.remove_all(vifs)
            self._forget(container_uuid)

    # -- plugging ------------------------------------------------------------------------------------

    def knows(self, container_uuid: str) -> bool:
        return container_uuid in self._vifs

    async def plug(self, container_uuid: str, namespace: int) -> None:
        """See the port. Raises NetworkSetupFailed, ServiceUnavailable."""
        async with self._lock(container_uuid):
            vifs = self._vifs.get(container_uuid, [])
            former = self._namespaces.get(container_uuid)
            made = await self._plumber.connect(vifs, namespace, former)
            self._active.forget(made)
            self._hold(container_uuid, os.dup(namespace))
        LOG.info("action=plug container=%s ports=%s", container_uuid, ",".join(vif.port_id for vif in vifs))

    async def usable(self, container_uuid: str, seconds: float | None = None) -> None:
        await self._active.wait([vif.port_id for vif in self._vifs.get(container_uuid, ())], seconds or self._patience)

    async def ended(self, container_uuid: str) -> None:
        async with self._lock(container_uuid):
            namespace = self._namespaces.get(container_uuid)
            if namespace is not None:
                await self._plumber.take_out(self._vifs.get(container_uuid, ()), namespace)
                os.close(self._namespaces.pop(container_uuid))

    async def unplugged(self, container_uuids: Collection[str]) -> Collection[str]:
        if not container_uuids:
            return []
        there = await self._plumber.devices()
        return [
            uuid
            for uuid in container_uuids
            if uuid not in self._namespaces or not {vif.tap for vif in self._vifs.get(uuid, ())} <= there
        ]

    # -- networks that come and go while the container lives -------------------------------------------

    async def attach(self, container: Container, requested: RequestedNetwork) -> Sequence[Attachment]:
        """A port on one more network, plugged at once where the container runs."""
        bound = await self._ports.ensure(container, [requested])
        async with self._lock(container.uuid):
            present = self._vifs.get(container.uuid, [])
            added = [vif for vif in await self._prepare(container.uuid, bound) if vif not in present]
            vifs = [*present, *added]
            namespace = self._namespaces.get(container.uuid)
            if namespace is not None:
                await self._plumber.connect(vifs, namespace, namespace)
            self._vifs[container.uuid] = vifs
        return [item for port in bound for item in attachments(port, NO_ENGINE_NETWORK)]

    async def detach(self, container: Container, network_id: str) -> None:
        """Every interface on the network goes, then its ports."""
        ports = [row for row in await self._ports.of_container(container.uuid) if row["network_id"] == network_id]
        gone = {row["id"] for row in ports}
        async with self._lock(container.uuid):
            for ident in sorted(gone):
                await self._plumber.remove_port(ident)
            if container.uuid in self._vifs:
                self._vifs[container.uuid] = [vif for vif in self._vifs[container.uuid] if vif.port_id not in gone]
            self._active.forget(gone)
        await self._ports.release_on(container.uuid, network_id)

    async def make_network(self, network_id: str) -> str:
        """The engine needs none. Raises NetworkNotFound."""
        if await self._ports.facts(network_id) is None:
            raise NetworkNotFound(network_id)
        return network_id

    async def remove_network(self, network_id: str) -> bool:
        return False

    async def plugged(self) -> Collection[str]:
        return await self._plumber.containers()

    async def unplug(self, container_uuid: str) -> None:
        await self._unplug(container_uuid)

    async def collect_idle(self) -> None:
        """Remove devices and switch ports of ours whose container this node has no row of, and so for some time."""
        async with self._db.read() as connection:
            known = {row.uuid for row in await rows.of_host(connection, self._host)}
            known |= {row.uuid for row in await capsules.of_host(connection, self._host)}
        now, left = self._clock.monotonic(), set(await self.plugged()) - known
        self._suspects = {uuid: self._suspects.get(uuid, now) for uuid in left}
        for uuid, since in list(self._suspects.items()):
            if now - since >= self._grace:
                LOG.warning("action=unplug container=%s reason=no such container", uuid)
                await self._plumber.remove(uuid)
                self._forget(uuid)

    # -- within --------------------------------------------------------------------------------------

    async def _prepare(self, container_uuid: str, bound: Sequence[BoundPort]) -> list[Vif]:
        vifs = await vifs_on(self._plumber, container_uuid, bound)
        self._active.forget(await prepare(self._plumber, vifs))
        return vifs

    def _lock(self, container_uuid: str) -> asyncio.Lock:
        return self._locks.setdefault(container_uuid, asyncio.Lock())

    def _hold(self, container_uuid: str, namespace: int) -> None:
        former = self._namespaces.get(container_uuid)
        self._namespaces[container_uuid] = namespace
        if former is not None:
            os.close(former)

    def _forget(self, container_uuid: str) -> None:
        self._active.forget([vif.port_id for vif in self._vifs.pop(container_uuid, [])])
        namespace = self._namespaces.pop(container_uuid, None)
        if namespace is not None:
            os.close(namespace)
