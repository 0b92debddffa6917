"""The network of capsules whose engine calls our CNI plug-in: ports, and the interface data that the node's CNI daemon
plugs by (S2.6, S2.7). Where ports come from is a ``PortSource``'s affair: Neutron, or the embedded networks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakValueDictionary

from zun.domain.clock import Clock
from zun.domain.container import Container, RequestedNetwork
from zun.domain.errors import NetworkSetupFailed
from zun.domain.observed import Attachment
from zun.plumbing.handover import Handover, HandoverBroken, Handovers
from zun.plumbing.plumber import Plumber
from zun.plumbing.vif import Vif
from zun.store import capsules
from zun.store import containers as rows
from zun.store.database import Database

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ports:
    """A capsule's ports: for its record, and as they are plugged."""

    attachments: Sequence[Attachment]
    vifs: Sequence[Vif]


class PortSource(Protocol):
    """Idempotent coroutines; the errors are ``zun.network.base.Network``'s."""

    awaited: bool
    """Does ADD wait until the ports are ACTIVE (S2.11)?"""

    async def expose(self, container: Container) -> Sequence[str] | None: ...

    async def ensure(
        self, container: Container, requested: Sequence[RequestedNetwork], *, new: bool = False
    ) -> Ports: ...

    async def release(self, container_uuid: str, *, exposed: bool = True) -> None: ...

    async def collect_idle(self) -> None: ...


class CniNetwork:
    """See ``zun.network.base.PodNetwork``."""

    def __init__(
        self, source: PortSource, plumber: Plumber, handovers: Handovers, db: Database, conf: Any, clock: Clock
    ) -> None:
        self._source = source
        self._plumber = plumber
        self._handovers = handovers
        self._db = db
        self._host = conf.host
        self._grace = float(conf.compute.orphan_grace_seconds)
        self._clock = clock
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._suspects: dict[str, float] = {}

    async def close(self) -> None:
        """End the threads."""
        await self._plumber.close()

    async def expose(self, container: Container) -> Sequence[str] | None:
        return await self._source.expose(container)

    async def ensure_ports(
        self, container: Container, requested: Sequence[RequestedNetwork], *, new: bool = False
    ) -> Sequence[Attachment]:
        """See the port. The hosts' ends are made here already: Neutron's agent works while the engine makes the
        sandbox. Raises NetworkSetupFailed, ServiceUnavailable."""
        ports = await self._source.ensure(container, requested, new=new)
        servers = dict.fromkeys(address for one in ports.attachments for address in one.dns)
        handover = Handover(container.uuid, tuple(ports.vifs), self._source.awaited, tuple(servers))
        async with self._lock(container.uuid):
            try:
                await asyncio.to_thread(self._handovers.put, handover)
            except OSError as error:
                raise NetworkSetupFailed(
                    f"Interface data could not be stored in {self._handovers.root}: {error}."
                ) from error
            await asyncio.gather(*(self._plumber.prepare(vif) for vif in ports.vifs))
        LOG.info("action=hand-over capsule=%s ports=%s", container.uuid, ",".join(vif.port_id for vif in ports.vifs))
        return ports.attachments

    async def release_ports(self, container_uuid: str, *, exposed: bool = True) -> None:
        """The interface data first: an ADD at work sees that it is gone and takes back what it made. Then devices, and
        at last the ports: nothing sends under an address that another may get."""
        await self._unplug(container_uuid)
        await self._source.release(container_uuid, exposed=exposed)

    async def plugged(self) -> Collection[str]:
        stored = await asyncio.to_thread(self._handovers.capsules)
        return await self._plumber.containers() | stored

    async def unplug(self, container_uuid: str) -> None:
        await self._unplug(container_uuid)

    async def collect_idle(self) -> None:
        """Remove devices and data of capsules that this node has no row of, and so for some time; then networks that
        nobody uses."""
        async with self._db.read() as connection:
            known = {row.uuid for row in await rows.of_host(connection, self._host)}
            known |= {row.uuid for row in await capsules.of_host(connection, self._host)}
        now, left = self._clock.monotonic(), set(await self.plugged()) - known
        self._suspects = {uuid: self._suspects.get(uuid, now) for uuid in left}
        for uuid, since in list(self._suspects.items()):
            if now - since >= self._grace:
                LOG.warning("action=unplug capsule=%s reason=no such capsule", uuid)
                await self._unplug(uuid)
        await self._source.collect_idle()

    async def _unplug(self, uuid: str) -> None:
        async with self._lock(uuid):
            former = await self._take_back(uuid)
            await self._plumber.remove(uuid, former.vifs if former else ())

    async def _take_back(self, uuid: str) -> Handover | None:
        former = None
        try:
            former = await asyncio.to_thread(self._handovers.get, uuid)
        except HandoverBroken as error:
            LOG.warning("action=unplug capsule=%s reason=%s", uuid, error.message)
        except PermissionError:
            return None  # not root: the API's side gives ports back of a host that is lost
        await asyncio.to_thread(self._handovers.remove, uuid)
        return former

    def _lock(self, uuid: str) -> asyncio.Lock:
        return self._locks.setdefault(uuid, asyncio.Lock())
