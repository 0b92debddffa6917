"""Holding: volumes attached and mounted on this node (S1.16–S1.18, S3.8, S3.9)."""

from __future__ import annotations

import asyncio

from zun.compute.holdings.base import Progress
from zun.compute.node import Node
from zun.compute.work import Work
from zun.domain.container import VolumeMapping
from zun.domain.errors import VolumeAttachFailed
from zun.domain.observed import HostMount
from zun.domain.operation import Kind
from zun.store import volume_mappings
from zun.volume.base import Volumes


class VolumeMounts:
    name = "volumes"

    async def ensure(self, work: Work, progress: Progress) -> None:
        """Every mount of the container, ready to be bind-mounted; side by side."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(attach(work.node, mapping)) for mapping in work.mappings]
        work.prepared.mounts = [task.result() for task in tasks]

    async def stands(self, work: Work) -> bool:
        """Is every mount there as ``ensure`` left it? After a reboot of the machine none is."""
        for mapping in work.mappings:
            if not await driver_of(work.node, mapping).attached(mapping):
                return False
        return True

    async def release(self, work: Work) -> None:
        """Detach; with a delete also remove the volumes made for this container."""
        detaching = (self._detach(work, mapping) for mapping in work.mappings)
        for result in await asyncio.gather(*detaching, return_exceptions=True):  # none goes on unwatched
            if isinstance(result, BaseException):
                raise result

    async def _detach(self, work: Work, mapping: VolumeMapping) -> None:
        driver = driver_of(work.node, mapping)
        await driver.detach(mapping)
        if work.operation.kind == Kind.DELETE and mapping.auto_remove and mapping.volume_id:
            await driver.delete(mapping.volume_id)


async def attach(node: Node, mapping: VolumeMapping) -> HostMount:
    """One mount, ready to be bind-mounted; attached already is success."""
    path, connection_data = await driver_of(node, mapping).attach(mapping)
    if dict(connection_data) != dict(mapping.connection):
        async with node.db.write() as connection:
            await volume_mappings.set_connection(connection, mapping.uuid, connection_data)
    return HostMount(path, mapping.destination)


def driver_of(node: Node, mapping: VolumeMapping) -> Volumes:
    """The driver that the mount was made with. Raises VolumeAttachFailed."""
    driver = node.volumes.get(mapping.driver)
    if driver is None:
        raise VolumeAttachFailed(f"This host has no volume driver '{mapping.driver}' (see [volume]/driver_list)")
    return driver
