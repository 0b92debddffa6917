"""Ports of capsules in Neutron: made, bound to this node and found again as those of containers are (S2.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zun.domain.container import Container, RequestedNetwork
from zun.domain.observed import NO_ENGINE_NETWORK
from zun.network.cni import Ports
from zun.network.neutron import attachments
from zun.network.neutron_api import NeutronApi
from zun.network.neutron_groups import NeutronGroups
from zun.network.neutron_plugging import vifs_on
from zun.network.neutron_ports import NeutronPorts
from zun.openstack.client import ServiceClient
from zun.plumbing.plumber import Plumber
from zun.store.database import Database

OWNER = "compute:zun"
"""``device_owner`` of the ports."""


class NeutronSource:
    """See ``zun.network.cni.PortSource``."""

    awaited = True

    def __init__(self, client: ServiceClient, plumber: Plumber, db: Database, conf: Any) -> None:
        api = NeutronApi(client)
        self._ports = NeutronPorts(api, db, conf.neutron.agent_host, OWNER)
        self._groups = NeutronGroups(api)
        self._plumber = plumber

    async def expose(self, container: Container) -> Sequence[str] | None:
        group = await self._groups.ensure(container)
        return None if group is None else [group]

    async def ensure(self, container: Container, requested: Sequence[RequestedNetwork], *, new: bool = False) -> Ports:
        bound = await self._ports.ensure(container, requested, new=new)
        vifs = await vifs_on(self._plumber, container.uuid, bound)
        return Ports([item for port in bound for item in attachments(port, NO_ENGINE_NETWORK)], vifs)

    async def release(self, container_uuid: str, *, exposed: bool = True) -> None:
        await self._ports.release(container_uuid)
        if exposed:
            await self._groups.release(container_uuid)

    async def collect_idle(self) -> None:
        """Neutron's networks are its own affair."""
