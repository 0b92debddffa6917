"""Neutron's ports, brought into Docker's containers by its Kuryr plug-in: one engine network for each Neutron network,
named by its id, made when a container first needs it and removed once idle.

Needs kuryr-libnetwork beside the engine, with ``process_external_connectivity = false``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID
from weakref import WeakValueDictionary

from zun.domain.clock import Clock
from zun.domain.container import Container, RequestedNetwork
from zun.domain.errors import Conflict, EngineConflict, EngineNotFound, NetworkNotFound, NetworkSetupFailed
from zun.domain.observed import Attachment, EngineNetwork
from zun.network.kuryr_leftovers import KuryrLeftovers
from zun.network.kuryr_networks import engine_network
from zun.network.kuryr_pools import KuryrPools
from zun.network.neutron import NeutronNetwork
from zun.network.neutron_facts import NetworkFacts
from zun.network.neutron_ports import BoundPort
from zun.openstack.client import ServiceClient
from zun.runtime.base import Runtime
from zun.store.database import Database

LOG = logging.getLogger(__name__)


class KuryrNetwork(NeutronNetwork):
    """See ``zun.network.base.Network``."""

    def __init__(self, client: ServiceClient, db: Database, conf: Any, runtime: Runtime, clock: Clock) -> None:
        super().__init__(client, db, conf)
        self._runtime = runtime
        self._clock = clock
        self._driver = conf.network.driver_name
        self._idle_seconds = float(conf.network.idle_seconds)
        self._leftovers = KuryrLeftovers(conf)
        self._pools = KuryrPools(self._api, conf.neutron.agent_host)
        self._used: dict[str, float] = {}
        """Network id -> when it was last needed or seen with containers."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def engine_network(self, bound: BoundPort) -> EngineNetwork:
        """With the subnets that this port needs, once the engine has it. Raises EngineError, NetworkSetupFailed."""
        needed = {ip["subnet_id"] for ip in bound.port["fixed_ips"]}
        await self._ensure(bound.facts, needed)
        return engine_network(bound.facts, self._driver, needed)

    async def ensure_ports(
        self, container: Container, requested: Sequence[RequestedNetwork], *, new: bool = False
    ) -> Sequence[Attachment]:
        """Docker before API 1.44 gives each interface but the first a MAC by chance, at every start; Kuryr then writes
        it to the port, which must not be bound yet. A try before this one may have left devices of its ports."""
        joined = await self._joined(container, requested, late={one.network_id for one in requested[1:]}, new=new)
        ports = list(dict.fromkeys(item.port_id for item in joined))
        if self._leftovers.there(ports):
            observed = await self._runtime.inspect(container.uuid)
            if observed is None or observed.state not in ("running", "paused"):
                await self._leftovers.remove(ports)
        return joined

    async def release_ports(self, container_uuid: str, *, exposed: bool = True) -> None:
        await self._leftovers.remove(await self._ports.release(container_uuid))
        if exposed:
            await self._groups.release(container_uuid)

    @asynccontextmanager
    async def leaving(self, container_uuid: str) -> AsyncIterator[None]:
        """Kuryr unbinds the ports of an endpoint that goes, whoever has them by then."""
        async with self._ports.bound_as_they_are(container_uuid) as port_ids:
            yield
        await self._leftovers.remove(port_ids)

    async def attach(self, container: Container, requested: RequestedNetwork) -> Sequence[Attachment]:
        """A port on one more network, then Kuryr. Raises NetworkSetupFailed, EngineError."""
        joined = await self._joined(container, [requested], late={requested.network_id})
        await self._runtime.connect_network(container.uuid, joined)
        return joined

    async def detach(self, container: Container, network_id: str) -> None:
        """Kuryr unplugs the port before it goes. Raises EngineError, NetworkSetupFailed."""
        with contextlib.suppress(EngineNotFound):
            await self._runtime.disconnect_network(container.uuid, network_id)
        await self._ports.release_on(container.uuid, network_id)

    async def make_network(self, network_id: str) -> str:
        """The engine's network, ahead of its first port. Raises NetworkNotFound, NetworkSetupFailed, EngineError."""
        facts = await self._ports.facts(network_id)
        if facts is None:
            raise NetworkNotFound(network_id)
        await self._ensure(facts, set())
        return network_id

    async def remove_network(self, network_id: str) -> bool:
        """Remove the engine's network; was there one? Raises Conflict while containers are on it."""
        there = network_id in await self._runtime.list_networks(network_id)
        try:
            await self._remove(network_id)
        except EngineConflict as error:
            raise Conflict(f"Network {network_id} is in use: {error.text}.") from error
        return there

    async def collect_idle(self) -> None:
        """Remove networks that had no container for a while, with their pools. A name that is an id of Neutron's says
        whose they are: ours, or an earlier installation's, which we go on with."""
        now = self._clock.monotonic()
        names = [name for name in await self._runtime.list_networks("") if _is_uuid(name)]
        self._used = {name: self._used.get(name, now) for name in names}
        for name in names:
            if now - self._used[name] < self._idle_seconds:
                continue
            self._used[name] = now
            try:
                await self._remove(name)
            except EngineConflict as error:
                LOG.debug("action=collect-network network=%s result=busy reason=%r", name, error.text)
            else:
                LOG.info("action=collect-network network=%s result=removed", name)

    # -- within --------------------------------------------------------------------------------------

    async def _ensure(self, facts: NetworkFacts, needed: set[str]) -> None:
        """The engine has the network. One made before a subnet that is needed now is made anew while it is empty."""
        network_id = str(facts.network["id"])
        self._used[network_id] = self._clock.monotonic()
        if await self._present(facts, needed):
            return
        lock = self._locks.setdefault(network_id, asyncio.Lock())
        async with lock:  # of many containers at once the first one makes it
            if await self._present(facts, needed):
                return
            if network_id in await self._runtime.list_networks(network_id):
                await self._clear(network_id)
            pools = await self._pools.ensure(facts)
            await self._runtime.ensure_network(engine_network(facts, self._driver, set(facts.subnets), pools=pools))
        LOG.info("action=network-ready network=%s subnets=%s", network_id, ",".join(facts.subnets))

    async def _present(self, facts: NetworkFacts, needed: set[str]) -> bool:
        network_id = str(facts.network["id"])
        if network_id not in await self._runtime.list_networks(network_id):
            return False
        try:
            await self._runtime.ensure_network(engine_network(facts, self._driver, needed))
        except EngineConflict as error:
            LOG.info("action=network-outdated network=%s reason=%r", network_id, error.text)
            return False
        return True

    async def _clear(self, network_id: str) -> None:
        try:
            await self._remove(network_id)
        except EngineConflict as error:
            raise NetworkSetupFailed(
                f"The engine's network {network_id} lacks a subnet that was added later, and has containers: it is made"
                " anew once they are gone."
            ) from error

    async def _remove(self, network_id: str) -> None:
        await self._runtime.remove_network(network_id)
        await self._pools.release(network_id)


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
