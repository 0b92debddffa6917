"""The network port over Neutron. How a port reaches the container is left to a subclass: Kuryr's, or our own.

Names are read with the caller's token, ports are made with our own rights.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from zun.domain.caller import Caller
from zun.domain.container import Container, RequestedNetwork
from zun.domain.held import Held
from zun.domain.observed import Attachment, EngineNetwork
from zun.network.neutron_api import NeutronApi
from zun.network.neutron_groups import NeutronGroups
from zun.network.neutron_ports import OWNER, BoundPort, NeutronPorts
from zun.network.neutron_requests import NeutronRequests
from zun.network.plugged import PluggedByEngine
from zun.openstack.client import ServiceClient
from zun.store.database import Database


class NeutronNetwork(PluggedByEngine, ABC):
    """See ``zun.network.base.Network``."""

    DEVICE_OWNER = OWNER
    plugs = False

    def __init__(self, client: ServiceClient, db: Database, conf: Any) -> None:
        self._api = NeutronApi(client)
        self._requests = NeutronRequests(self._api)
        self._ports = NeutronPorts(self._api, db, conf.neutron.agent_host, self.DEVICE_OWNER)
        self._groups = NeutronGroups(self._api)

    @abstractmethod
    async def engine_network(self, bound: BoundPort) -> EngineNetwork:
        """The network of the engine that brings this port into the container."""

    # -- the API's side ----------------------------------------------------------------------------

    async def resolve(
        self, caller: Caller, nets: Sequence[Mapping[str, Any]], *, external: bool = False
    ) -> Sequence[RequestedNetwork]:
        return await self._requests.networks(caller, nets, external=external)

    async def security_groups(self, caller: Caller, names: Sequence[str]) -> Sequence[str]:
        return await self._requests.security_groups(caller, names)

    async def port_id(self, caller: Caller, ident: str) -> str:
        return await self._requests.port_id(caller, ident)

    # -- the node's side ---------------------------------------------------------------------------

    async def expose(self, container: Container) -> Sequence[str] | None:
        group = await self._groups.ensure(container)
        return None if group is None else [group]

    async def ensure_ports(
        self, container: Container, requested: Sequence[RequestedNetwork], *, new: bool = False
    ) -> Sequence[Attachment]:
        return await self._joined(container, requested, new=new)

    async def _joined(
        self,
        container: Container,
        requested: Sequence[RequestedNetwork],
        *,
        late: Collection[str] = (),
        new: bool = False,
    ) -> Sequence[Attachment]:
        bound = await self._ports.ensure(container, requested, late=late, new=new)
        networks = await asyncio.gather(*(self.engine_network(port) for port in bound))
        return [item for port, network in zip(bound, networks, strict=True) for item in attachments(port, network)]

    async def release_ports(self, container_uuid: str, *, exposed: bool = True) -> None:
        await self._ports.release(container_uuid)
        if exposed:
            await self._groups.release(container_uuid)

    async def ports(self) -> Sequence[Held]:
        return await self._ports.all()

    async def groups(self) -> Sequence[Held]:
        return await self._groups.all()

    async def change_security_groups(
        self, container_uuid: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> None:
        await self._ports.change_security_groups(container_uuid, add, remove)


def attachments(bound: BoundPort, network: EngineNetwork) -> Sequence[Attachment]:
    """One for each address of the port, IPv4 first; they share port and MAC."""
    found = [
        Attachment(
            network_id=bound.network_id,
            port_id=bound.id,
            subnet_id=ip["subnet_id"],
            address=ip["ip_address"],
            mac=bound.port["mac_address"],
            version=6 if ":" in ip["ip_address"] else 4,
            preserve_on_delete=bound.given,
            engine_network=network,
            dns=tuple((bound.facts.subnets.get(ip["subnet_id"]) or {}).get("dns_nameservers") or ()),
        )
        for ip in bound.port["fixed_ips"]
    ]
    return sorted(found, key=lambda item: item.version)
