"""Ports of capsules on the embedded networks: addresses from the database, on the bridge that containers of the same
network have from Docker, or on one of our own where Docker is not used or does not answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Address, ip_network
from typing import Any
from weakref import WeakValueDictionary

from pyroute2.netlink.exceptions import NetlinkError

from zun.domain.container import Container, RequestedNetwork
from zun.domain.errors import EngineUnreachable, NetworkSetupFailed
from zun.domain.observed import NO_ENGINE_NETWORK, Attachment, EngineNetwork
from zun.network.cni import Ports
from zun.network.local import LocalNetwork, bridge_of, mac_of
from zun.plumbing import bridges, routing
from zun.plumbing.vif import Route, Vif
from zun.runtime.base import Runtime

LOG = logging.getLogger(__name__)

_MTU = 1500


class LocalSource:
    """See ``zun.network.cni.PortSource``. ``owner`` marks our bridges."""

    awaited = False

    def __init__(self, local: LocalNetwork, runtime: Runtime, owner: str, conf: Any) -> None:
        self._local = local
        self._runtime = runtime
        self._owner = owner
        self._docker = conf.container_driver == "docker"
        self._mtu = conf.local.mtu or _MTU
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def expose(self, container: Container) -> Sequence[str] | None:
        return await self._local.expose(container)

    async def ensure(self, container: Container, requested: Sequence[RequestedNetwork], *, new: bool = False) -> Ports:
        given = await self._local.ensure_ports(container, requested)
        vifs = []
        for number, one in enumerate(given):
            vifs.append(self._vif(container.uuid, one, await self._bridge(one), gateway=not number))
        return Ports([replace(one, engine_network=NO_ENGINE_NETWORK) for one in given], vifs)

    async def release(self, container_uuid: str, *, exposed: bool = True) -> None:
        await self._local.release_ports(container_uuid)

    async def collect_idle(self) -> None:
        """Remove our bridges whose networks had no port for a while. One that Docker has taken up stays as long as
        Docker's network does."""
        made = await asyncio.to_thread(bridges.ours, self._owner)
        for bridge in made:
            async with self._lock(bridge.network):
                if await self._local.is_idle(bridge.network) and not await self._docker_has(bridge.network):
                    await asyncio.to_thread(_remove, bridge.name)
                    LOG.info("action=collect-bridge bridge=%s network=%s result=removed", bridge.name, bridge.network)

    async def _docker_has(self, network_id: str) -> bool:
        if not self._docker:
            return False
        try:
            return bool(await self._local.engine_name(network_id))
        except EngineUnreachable:
            return True  # unknown: another time

    async def _bridge(self, one: Attachment) -> str:
        """The bridge with the network's gateway, made if there is none. Raises NetworkSetupFailed, EngineError."""
        network = one.engine_network
        address = f"{network.gateway}/{ip_network(str(network.subnet)).prefixlen}"
        name = bridge_of(one.network_id)
        async with self._lock(one.network_id):
            if self._docker and await asyncio.to_thread(bridges.is_others, name, address):
                return name  # made by Docker, and there as long as Docker has the network: it need not be asked
            if self._docker:
                await self._ask_docker(network)
            found = await asyncio.to_thread(bridges.holding, address)
            if found is not None and (found != name or await self._docker_has(one.network_id)):
                return found
            try:
                await asyncio.to_thread(self._make, name, one.network_id, address)
            except (NetlinkError, OSError) as error:
                raise NetworkSetupFailed(f"Bridge {name} could not be made on this host: {error}.") from error
        return name

    async def _ask_docker(self, network: EngineNetwork) -> None:
        try:
            await self._runtime.ensure_network(network)
        except EngineUnreachable as error:
            LOG.warning("action=bridge network=%s result=made without Docker reason=%s", network.name, error.message)

    def _make(self, name: str, network: str, address: str) -> None:
        mac = mac_of(IPv4Address(address.partition("/")[0]))
        bridges.make(name, self._owner, network, address, mac, self._mtu)
        routing.open_up(name, address)

    def _vif(self, capsule: str, one: Attachment, bridge: str, *, gateway: bool) -> Vif:
        network = one.engine_network
        routes = (Route("0.0.0.0/0", network.gateway),) if gateway and network.gateway else ()
        return Vif(
            port_id=one.port_id,
            container=capsule,
            owner=self._owner,
            mac=one.mac,
            mtu=self._mtu,
            switch="bridge",
            bridge=bridge,
            addresses=(f"{one.address}/{ip_network(str(network.subnet)).prefixlen}",),
            routes=routes,
        )

    def _lock(self, network_id: str) -> asyncio.Lock:
        return self._locks.setdefault(network_id, asyncio.Lock())


def _remove(bridge: str) -> None:
    routing.close_down(bridge)
    bridges.remove(bridge)
