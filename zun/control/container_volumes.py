"""The volumes of a new container: found, or made for ``size``, and taken back when the request fails (S1.8)."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from datetime import timedelta
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.control.base import Control
from zun.control.container_values import Mount
from zun.domain.caller import Caller
from zun.domain.container import Container, VolumeMapping
from zun.domain.errors import Unavailable, VolumeNotFound, ZunError
from zun.store import made_volumes, volume_mappings
from zun.volume.base import container_volume_name


class VolumeGivenUp(Unavailable):
    """The sweep took a volume for one whose request had died."""


LOG = logging.getLogger(__name__)

SIZE = "size_gib"
"""Key of ``connection`` that keeps the size asked for until the volume is attached."""


DISCARD_SECONDS = 5.0
SWEEP_SECONDS = 10.0


async def prepare(
    control: Control, caller: Caller, container: Container, mounts: Sequence[Mount]
) -> Sequence[VolumeMapping]:
    """One mapping a mount; volumes for sizes are made. Raises VolumeNotFound, VolumeInUse, VolumeNotUsable, Conflict,
    VolumeCreateFailed, and then nothing it made is left."""
    mappings: dict[int, VolumeMapping] = {}
    try:
        # What can be refused without making anything comes first; the order asked is kept in the answer.
        for place in sorted(range(len(mounts)), key=lambda place: mounts[place].size is not None):
            mappings[place] = await _prepare_one(control, caller, container, mounts[place])
    except BaseException:
        await discard(control, list(mappings.values()))
        raise
    return [mappings[place] for place in sorted(mappings)]


async def _prepare_one(control: Control, caller: Caller, container: Container, mount: Mount) -> VolumeMapping:
    mapping = VolumeMapping(
        uuid=str(uuid4()),
        container_uuid=container.uuid,
        project_id=container.project_id,
        user_id=container.user_id,
        kind=mount.kind,
        driver=next(iter(control.volumes)),
        destination=mount.destination,
    )
    if mount.kind == "bind":
        return dataclasses.replace(mapping, driver="local", contents=mount.source)
    if mount.source is not None:
        driver, volume_id = await find(control, caller, mount.source)
        return dataclasses.replace(mapping, driver=driver, volume_id=volume_id)
    sized = dataclasses.replace(mapping, auto_remove=True, connection={SIZE: mount.size})
    return await make(control, caller, sized)


async def make(control: Control, caller: Caller, mapping: VolumeMapping) -> VolumeMapping:
    """The mapping with a new volume of the size it keeps. Raises VolumeCreateFailed."""
    volumes = control.volumes[mapping.driver]
    volume_id = await volumes.create(caller, int(mapping.connection[SIZE]), container_volume_name(mapping))
    return dataclasses.replace(mapping, volume_id=volume_id)


async def record(connection: AsyncConnection, mapping: VolumeMapping) -> None:
    """Write the mapping. Raises VolumeGivenUp, when the volume that was made for it is deleted by now."""
    await require(connection, mapping)
    await volume_mappings.insert(connection, mapping)


async def require(connection: AsyncConnection, mapping: VolumeMapping) -> None:
    """The volume that was made for a mapping is there, and no sweep takes it any more. Raises VolumeGivenUp."""
    made = mapping.volume_id is not None and SIZE in mapping.connection
    if made and not await made_volumes.take(connection, mapping):
        raise VolumeGivenUp("The request took so long that the volume made for it was given up. Try again.")


async def give_up(control: Control, driver: str, volume_id: str) -> bool:
    """Before a volume is deleted that no mount names; False when one does by now."""
    async with control.db.write() as connection:
        return await made_volumes.give_up(connection, driver, volume_id)


async def find(control: Control, caller: Caller, ident: str) -> tuple[str, str]:
    """(driver, volume id), asking the drivers in their order."""
    for name, driver in control.volumes.items():
        try:
            return name, await driver.find(caller, ident)
        except VolumeNotFound:
            continue
    raise VolumeNotFound(ident)


async def discard(control: Control, mappings: Sequence[VolumeMapping]) -> Sequence[VolumeMapping]:
    """Delete the volumes that were made for these mappings; the mappings without them, sizes kept for another try.

    What cannot be deleted at once is left to ``sweep``; nobody waits for it.
    """
    left = []
    for mapping in mappings:
        if mapping.auto_remove and mapping.volume_id:
            try:
                async with asyncio.timeout(DISCARD_SECONDS):
                    await control.volumes[mapping.driver].delete(mapping.volume_id)
            except (ZunError, TimeoutError) as error:
                LOG.warning(
                    "action=discard volume=%s container=%s result=left to the sweep reason=%s",
                    mapping.volume_id,
                    mapping.container_uuid,
                    error or f"not within {DISCARD_SECONDS:g} s",
                )
            mapping = dataclasses.replace(mapping, volume_id=None)
        left.append(mapping)
    return left


async def let_go(control: Control, mappings: Sequence[VolumeMapping]) -> None:
    """Volumes of a container whose host is lost, forced: free for others now, those made for it deleted, where that can
    be done from here. The records stay for the host, which still has them mounted."""
    await asyncio.gather(*(_let_go(control, mapping) for mapping in mappings if mapping.volume_id))


async def _let_go(control: Control, mapping: VolumeMapping) -> None:
    try:
        async with asyncio.timeout(DISCARD_SECONDS):
            free = await control.volumes[mapping.driver].let_go(mapping)
    except (ZunError, TimeoutError) as error:  # the tombstone does it once the node is back
        LOG.warning("action=let-go volume=%s result=postponed reason=%s", mapping.volume_id, error or "slow")
    else:
        if free:
            await discard(control, [mapping])


async def sweep(control: Control) -> int:
    """Delete volumes whose request died between making them and writing the row; how many (S1.8)."""
    before = control.clock.now() - timedelta(seconds=control.conf.compute.abandoned_volume_seconds)
    deleted = 0
    for name, driver in control.volumes.items():
        for volume_id in await driver.abandoned(before):
            if not await give_up(control, name, volume_id):
                continue
            LOG.warning("action=sweep volume=%s driver=%s result=deleting reason=its request died", volume_id, name)
            try:
                async with asyncio.timeout(SWEEP_SECONDS):
                    await driver.delete(volume_id)
            except (ZunError, TimeoutError) as error:  # still mounted somewhere, or slow: the next look tries again
                LOG.warning("action=sweep volume=%s result=postponed reason=%s", volume_id, error or "slow")
            else:
                deleted += 1
    return deleted
