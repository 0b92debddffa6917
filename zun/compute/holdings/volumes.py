"""Holding: volumes attached and mounted on this node (S1.16–S1.18, S3.8, S3.9)."""

from __future__ import annotations

import asyncio

from zun.compute.holdings.base import Progress
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
            tasks = [group.create_task(self._attach(work, mapping)) for mapping in work.mappings]
        work.prepared.mounts = [task.result() for task in tasks]

    async def _attach(self, work: Work, mapping: VolumeMapping) -> HostMount:
        path, connection_data = await _driver(work, mapping).attach(mapping)
        if dict(connection_data) != dict(mapping.connection):
            async with work.node.db.write() as connection:
                await volume_mappings.set_connection(connection, mapping.uuid, connection_data)
        return HostMount(path, mapping.destination)

    async def release(self, work: Work) -> None:
        """Detach; with a delete also remove the volumes made for this container."""
        detaching = (self._detach(work, mapping) for mapping in work.mappings)
        for result in await asyncio.gather(*detaching, return_exceptions=True):  # none goes on unwatched
            if isinstance(result, BaseException):
                raise result

    async def _detach(self, work: Work, mapping: VolumeMapping) -> None:
        driver = _driver(work, mapping)
        await driver.detach(mapping)
        if work.operation.kind == Kind.DELETE and mapping.auto_remove and mapping.volume_id:
            await driver.delete(mapping.volume_id)


def _driver(work: Work, mapping: VolumeMapping) -> Volumes:
    driver = work.node.volumes.get(mapping.driver)
    if driver is None:
        raise VolumeAttachFailed(f"This host has no volume driver '{mapping.driver}' (see [volume]/driver_list)")
    return driver
