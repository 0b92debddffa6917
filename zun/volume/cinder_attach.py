"""A volume of Cinder on this node, up and down (S1.16 to S1.18, S3.8, S3.14), through Cinder's attachments.

Every step may be run again by another process that died after any other: the attachment carries the container's uuid
from the first step on, ``connections`` keeps what was done here, and the kernel says what is mounted.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from zun.domain.clock import Clock
from zun.domain.container import VolumeMapping
from zun.domain.errors import ServiceUnavailable, VolumeAttachFailed, VolumeDetachFailed, VolumeNotReady
from zun.openstack.client import Refused
from zun.volume import filesystem, mounts
from zun.volume.brick import Brick, BrickFailed
from zun.volume.cinder_api import Attachment, CinderApi, Volume
from zun.volume.command import CommandFailed
from zun.volume.connections import FOLDER, Connection, Connections
from zun.volume.locks import Locks
from zun.volume.pause import pauses

log = logging.getLogger(__name__)

_CLUSTERED = frozenset({"ocfs2", "gfs2", "gfs"})
"""File systems that several hosts may mount at once; any other would be ruined."""
_GIB = 1024**3


class CinderAttach:
    """The node's side of one agent."""

    def __init__(self, conf: Any, api: CinderApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._brick = Brick(conf)
        self._host = str(conf.host)
        self._fstype = str(conf.volume.fstype)
        self._ready_within = int(conf.volume.timeout_wait_volume_available)
        # Resolved, because the kernel's tables name real paths.
        self._mounts = Path(os.path.realpath(conf.volume.volume_dir))
        self._connections = Connections(self._mounts / FOLDER)
        self._locks = Locks()

    def _target(self, mapping: str) -> Path:
        return self._mounts / mapping

    async def close(self) -> None:
        """End os-brick's process."""
        await self._brick.close()

    def standing(self) -> Sequence[VolumeMapping]:
        """What was begun here and not undone."""
        return [
            VolumeMapping(one.mapping, one.container, "", "", "volume", "cinder", one.mapping, one.volume_id)
            for one in self._connections.all()
        ]

    # -- up ----------------------------------------------------------------------------------------

    async def attach(self, mapping: VolumeMapping) -> tuple[str, Mapping[str, Any]]:
        """(host path, what the record keeps); what is there already stays. Raises VolumeNotReady, VolumeAttachFailed,
        ServiceUnavailable; ``detach`` gives back what was begun."""
        volume_id = mapping.volume_id or ""
        target = self._target(mapping.uuid)
        async with self._locks.of(volume_id):
            with _told(volume_id):
                connection = self._connections.get(mapping.uuid)
                if connection is None or not connection.complete or not self._is_mounted(connection):
                    connection = await self._bring_up(mapping, connection)
        return str(target), {"attachment_id": connection.attachment_id, "device": connection.path, "host": self._host}

    def attached(self, mapping: VolumeMapping) -> bool:
        """Mounted, and Cinder was told; not, when something else is mounted in its place."""
        connection = self._connections.get(mapping.uuid)
        try:
            return connection is not None and connection.complete and self._is_mounted(connection)
        except CommandFailed:
            return False

    async def _bring_up(self, mapping: VolumeMapping, begun: Connection | None) -> Connection:
        if not mounts.is_root():
            raise VolumeAttachFailed("A volume of Cinder needs zun-compute to run as root, to mount it.")
        volume, attachment = await self._reserve(mapping)
        if begun is None or begun.attachment_id != attachment.id:
            if begun is not None:  # somebody ended the attachment it belonged to: nothing of it can be used
                await self._take_down(begun.mapping, begun)
            begun = Connection(mapping.uuid, mapping.container_uuid, volume.id, attachment.id)
            await self._put(begun)
        if not self._is_mounted(begun):
            begun = await self._connect(volume, begun)
            await self._mount(volume, begun)
        await self._api.complete_attachment(attachment.id)
        log.info("action=attach volume=%s container=%s device=%s", volume.id, mapping.container_uuid, begun.path)
        return await self._put(replace(begun, formatting=False, complete=True))

    async def _reserve(self, mapping: VolumeMapping) -> tuple[Volume, Attachment]:
        """The volume once it is ours: reserved now, or before (S1.16). What somebody else holds is waited for."""
        end = self._clock.monotonic() + self._ready_within
        for pause in pauses():
            volume = await self._api.volume(mapping.volume_id or "")
            if volume is None:
                raise VolumeAttachFailed(f"Volume {mapping.volume_id} could not be found.")
            if volume.encrypted:
                raise VolumeAttachFailed(f"Volume {volume.id} is encrypted, which containers cannot use.")
            free = volume.status == "available"
            held = [] if free else await self._ours(volume, mapping.container_uuid)
            attachment = next(iter(held), None)
            if attachment is None and (free or (volume.multiattach and volume.status == "in-use")):
                attachment = await self._create_attachment(volume, mapping.container_uuid)
            if attachment is not None:
                if volume.status == "detaching":
                    await self._api.roll_detaching(volume.id)
                return volume, attachment
            if self._clock.monotonic() >= end:
                log.warning("action=attach volume=%s result=not ready status=%s", volume.id, volume.status)
                raise VolumeNotReady(self._ready_within)
            await self._clock.sleep(pause)
        raise AssertionError

    async def _ours(self, volume: Volume, container: str) -> Sequence[Attachment]:
        """The container's holds on the volume, those made here first; none when another node has it."""
        if volume.attachments.get(container) not in (None, self._host):
            return []
        recorded = {one.attachment_id for one in self._connections.of_volume(volume.id)}
        found = await self._api.attachments(volume.id, container)
        return sorted(found, key=lambda one: (one.id not in recorded, one.id))

    async def _create_attachment(self, volume: Volume, container: str) -> Attachment | None:
        """None when somebody was faster."""
        try:
            return await self._api.create_attachment(volume.id, container)
        except Refused as refused:
            if refused.status not in (400, 409):
                raise
            log.info("action=reserve volume=%s result=refused reason=%s", volume.id, refused.message)
            return None

    async def _connect(self, volume: Volume, begun: Connection) -> Connection:
        """The storage opened to this host anew (a device's name does not outlive a reboot), and connected."""
        async with self._locks.of(volume.backend):
            properties = await self._brick.properties()
            opened = await self._api.update_attachment(begun.attachment_id, properties)
            if opened.connection.get("encrypted"):
                raise VolumeAttachFailed(f"Volume {volume.id} is encrypted, which containers cannot use.")
            begun = await self._put(replace(begun, data=opened.connection, device=None, complete=False))
            device = await self._brick.connect(opened.connection)
        begun = await self._put(replace(begun, device=device))
        if filesystem.number_of(str(begun.path)) is None:
            kind = opened.connection.get("driver_volume_type")
            raise CommandFailed(f"{begun.path} is no block device; storage of type {kind} is not supported")
        return begun

    async def _mount(self, volume: Volume, begun: Connection) -> None:
        device, target = str(begun.path), self._target(begun.mapping)
        # Cut off before it was ever mounted, and held by us alone since: nobody's data.
        unfinished = begun.formatting and not volume.multiattach
        fstype = None if unfinished else (await filesystem.probe(device)).fstype
        if volume.multiattach and fstype not in _CLUSTERED:
            await self._require_alone(volume, begun.attachment_id)
        if fstype is None:
            if await filesystem.readable(device) < volume.size * _GIB:
                raise CommandFailed(f"{device} is smaller than the volume; it is left as it is")
            begun = await self._put(replace(begun, formatting=True))
            await filesystem.make(device, self._fstype, anyway=unfinished)
            fstype = self._fstype
        await self._put(replace(begun, formatting=False))  # before the mount: from now on there may be data
        mounts.make_target(target)
        await filesystem.mount(device, str(target), fstype)

    async def _require_alone(self, volume: Volume, attachment_id: str) -> None:
        """No other host may mount the volume. Of two that come at once the one with the lower attachment id goes on:
        each has told Cinder of itself before it looks for the other."""
        end = self._clock.monotonic() + self._ready_within
        for pause in pauses():
            now = await self._api.volume(volume.id) or volume
            here = {one.attachment_id for one in self._connections.of_volume(volume.id)}
            elsewhere = {user for user, host in now.attachments.items() if host != self._host}
            others = [one for one in await self._api.attachments(volume.id) if one.id not in here]
            coming = [one for one in others if one.status == "attaching"]
            lower = any(one.id < attachment_id for one in coming)
            late = self._clock.monotonic() >= end
            if elsewhere or lower or (coming and late):
                raise VolumeAttachFailed(
                    f"Volume {volume.id} is attached on another host, and its file system can be mounted on one only."
                )
            if not coming:
                return
            await self._clock.sleep(pause)

    # -- down --------------------------------------------------------------------------------------

    async def detach(self, mapping: VolumeMapping) -> None:
        """Unmounted, disconnected, let go of; safe though attach never ran, or ran in part. Raises VolumeDetachFailed
        (the volume is in use again then), ServiceUnavailable."""
        if mapping.volume_id is None:
            return
        async with self._locks.of(mapping.volume_id):
            try:
                volume = await self._api.volume(mapping.volume_id)
                held = await self._to_let_go(volume, mapping) if volume else []
                begun = self._connections.get(mapping.uuid) or await self._remembered(mapping, held)
                async with self._detaching(volume, held), self._locks.of(volume.backend if volume else None):
                    await self._take_down(mapping.uuid, begun)
                    for attachment in held:
                        await self._api.delete_attachment(attachment.id)
            except Refused as refused:
                text = f"Volume {mapping.volume_id} could not be detached: Cinder answered: {refused.message}"
                raise VolumeDetachFailed(text) from refused
            except (CommandFailed, BrickFailed, OSError) as error:
                text = f"Volume {mapping.volume_id} could not be detached: {str(error).rstrip('.')}."
                raise VolumeDetachFailed(text) from error
            self._connections.remove(mapping.uuid)
            mounts.remove_target(self._target(mapping.uuid))
        log.info("action=detach volume=%s container=%s held=%s", mapping.volume_id, mapping.container_uuid, len(held))

    async def forget(self, mapping: str) -> None:
        """What this host has of a mapping goes, and Cinder is not told: the attachment is another host's, or gone.
        Raises VolumeDetachFailed."""
        begun = self._connections.get(mapping)
        if begun is None:
            return
        async with self._locks.of(begun.volume_id):
            try:
                await self._take_down(mapping, begun)
            except (CommandFailed, BrickFailed, OSError) as error:
                text = f"Volume {begun.volume_id} could not be detached: {str(error).rstrip('.')}."
                raise VolumeDetachFailed(text) from error
            self._connections.remove(mapping)
            mounts.remove_target(self._target(mapping))
        log.info("action=forget volume=%s container=%s", begun.volume_id, begun.container)

    async def _to_let_go(self, volume: Volume, mapping: VolumeMapping) -> Sequence[Attachment]:
        """What ends with this mount: nothing while another mount of the container needs it, or another node has it."""
        siblings = self._siblings(volume.id, mapping.uuid)
        if any(one.container == mapping.container_uuid for one in siblings):
            return []
        return await self._ours(volume, mapping.container_uuid)

    async def _remembered(self, mapping: VolumeMapping, held: Sequence[Attachment]) -> Connection | None:
        """This node's files are lost: Cinder still knows how the volume was connected."""
        for one in held:
            full = await self._api.attachment(one.id) if one.status != "reserved" else None
            if full is not None and full.connection:
                container, volume_id = mapping.container_uuid, mapping.volume_id or ""
                return Connection(mapping.uuid, container, volume_id, one.id, full.connection)
        return None

    def _siblings(self, volume_id: str, mapping: str) -> Sequence[Connection]:
        """Other mounts of the volume that stand on this node."""
        others = [one for one in self._connections.of_volume(volume_id) if one.mapping != mapping]
        return [one for one in others if mounts.source_of(self._target(one.mapping)) is not None]

    @asynccontextmanager
    async def _detaching(self, volume: Volume | None, held: Sequence[Attachment]) -> AsyncIterator[None]:
        """Cinder shows ``detaching`` meanwhile, and ``in-use`` again when it failed (S3.14)."""
        if volume is None or not any(one.status == "attached" for one in held):
            yield
            return
        with suppress(Refused):  # detaching already, or another attachment of it is
            await self._api.begin_detaching(volume.id)
        try:
            yield
        except BaseException:
            try:
                await asyncio.shield(self._api.roll_detaching(volume.id))
            except (Refused, ServiceUnavailable) as error:
                log.warning("action=roll-detaching volume=%s result=failed reason=%s", volume.id, error)
            raise

    async def _take_down(self, mapping: str, begun: Connection | None) -> None:
        """Unmount; disconnect when nobody else here uses the device. Raises CommandFailed, BrickFailed, OSError."""
        target = self._target(mapping)
        source = mounts.source_of(target)
        number = filesystem.number_of(source) if source else None
        await filesystem.unmount(target)
        if begun is None or not begun.data or self._siblings(begun.volume_id, mapping):
            return
        if number is not None and source is not None:
            if filesystem.is_mounted(number):  # another agent's on this machine
                return
            await filesystem.let_go_of(source)
        await self._brick.disconnect(begun.data, begun.device)

    # -- records -----------------------------------------------------------------------------------

    def _is_mounted(self, connection: Connection) -> bool:
        """Raises CommandFailed when something else is mounted in its place."""
        target = self._target(connection.mapping)
        source = mounts.source_of(target)
        if source is None:
            return False
        number = filesystem.number_of(source)
        if number is None or connection.path is None or number != filesystem.number_of(connection.path):
            raise CommandFailed(f"{target} is a mount of {source} already")
        return True

    async def _put(self, connection: Connection) -> Connection:
        return await asyncio.to_thread(self._connections.put, connection)


@contextmanager
def _told(volume_id: str) -> Iterator[None]:
    """Faults of the way up as one sentence."""
    what = f"Volume {volume_id} could not be attached"
    try:
        yield
    except Refused as refused:
        raise VolumeAttachFailed(f"{what}: Cinder answered: {refused.message}") from refused
    except OSError as error:
        raise VolumeAttachFailed(f"{what}: {error.strerror or error}.") from error
    except (CommandFailed, BrickFailed) as error:
        raise VolumeAttachFailed(f"{what}: {str(error).rstrip('.')}.") from error
