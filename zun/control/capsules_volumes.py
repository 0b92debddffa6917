"""The volumes of a new capsule: found, or made for ``size``, and those made taken back when the request fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.control import container_volumes
from zun.control.base import Control
from zun.domain.caller import Caller
from zun.domain.capsule import Volume
from zun.domain.container import Container, VolumeMapping
from zun.store import volume_mappings


async def prepare(
    control: Control, caller: Caller, capsule: Container, volumes: Sequence[Volume]
) -> Sequence[VolumeMapping]:
    """One mapping a volume, in order; volumes for sizes are made. Raises VolumeNotFound, VolumeInUse, VolumeNotUsable,
    VolumeCreateFailed, and then nothing it made is left."""
    mappings: dict[str, VolumeMapping] = {}
    try:
        # What can be refused without making anything comes first.
        for volume in sorted(volumes, key=lambda one: one.size is not None):
            mappings[volume.name] = await _prepare_one(control, caller, capsule, volume)
    except BaseException:
        await discard(control, list(mappings.values()))
        raise
    return [mappings[volume.name] for volume in volumes]


async def _prepare_one(control: Control, caller: Caller, capsule: Container, volume: Volume) -> VolumeMapping:
    mapping = VolumeMapping(
        uuid=volume.mapping_uuid,
        container_uuid=capsule.uuid,
        project_id=capsule.project_id,
        user_id=capsule.user_id,
        kind="volume",
        driver=next(iter(control.volumes)),
        destination=volume.name,  # each member has it at a place of its own
        auto_remove=volume.auto_remove,
    )
    if volume.size is not None:
        sized = dataclasses.replace(mapping, connection={container_volumes.SIZE: volume.size})
        return await container_volumes.make(control, caller, sized)
    driver, volume_id = await container_volumes.find(control, caller, str(volume.volume_id))
    return dataclasses.replace(mapping, driver=driver, volume_id=volume_id)


async def record(connection: AsyncConnection, mapping: VolumeMapping) -> None:
    """Write the mapping. A volume made for it without ``autoRemove`` then outlives the capsule (S3.9), and no sweep
    takes it for one whose request died."""
    await container_volumes.record(connection, mapping)
    if container_volumes.SIZE in mapping.connection and not mapping.auto_remove:
        await volume_mappings.keep_volume(connection, mapping, mapping.destination)


async def discard(control: Control, mappings: Sequence[VolumeMapping]) -> Sequence[VolumeMapping]:
    """Delete the volumes that were made for these mappings, whatever ``autoRemove`` says of them once the capsule is
    there; never one that was there before. The mappings without them."""
    made = [
        dataclasses.replace(mapping, auto_remove=True)
        for mapping in mappings
        if container_volumes.SIZE in mapping.connection
    ]
    left = {mapping.uuid: mapping for mapping in await container_volumes.discard(control, made)}
    return [
        dataclasses.replace(left.get(mapping.uuid, mapping), auto_remove=mapping.auto_remove) for mapping in mappings
    ]
