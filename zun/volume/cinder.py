"""Volumes of Cinder. The API's side finds, makes and deletes them; the node's side is ``cinder_attach``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from zun.domain.caller import Caller
from zun.domain.clock import Clock, SystemClock
from zun.domain.container import VolumeMapping
from zun.domain.errors import (
    Conflict,
    ServiceUnavailable,
    Unauthorized,
    VolumeCreateFailed,
    VolumeDeleteFailed,
    VolumeDetachFailed,
    VolumeInUse,
    VolumeNotFound,
    VolumeNotUsable,
)
from zun.domain.held import Held
from zun.openstack.client import Refused, ServiceClient
from zun.store import cinder_volumes as store
from zun.store.database import Database
from zun.volume.cinder_api import CinderApi, Volume
from zun.volume.cinder_attach import CinderAttach
from zun.volume.pause import pauses

log = logging.getLogger(__name__)

_DELETABLE = frozenset({"available", "error", "error_restoring", "error_extending", "error_managing"})


class CinderVolumes:
    """See ``zun.volume.base.Volumes``."""

    name = "cinder"

    def __init__(self, db: Database, conf: Any, client: ServiceClient, clock: Clock | None = None) -> None:
        self._db = db
        self._clock = clock or SystemClock()
        self._api = CinderApi(client)
        self._gone_within = int(conf.volume.timeout_wait_volume_deleted)
        self._node = CinderAttach(conf, self._api, self._clock)

    # -- the API's side ----------------------------------------------------------------------------

    async def find(self, caller: Caller, ident: str) -> str:
        """Volume id for a name or id, seen with the caller's token. Raises VolumeNotFound, Conflict (ambiguous),
        VolumeNotUsable, VolumeInUse, ServiceUnavailable."""
        try:
            volume = await self._look_up(caller, ident)
        except Refused as refused:
            raise _refused(refused, VolumeNotUsable, f"Volume {ident} cannot be looked up") from refused
        if volume is None:
            raise VolumeNotFound(ident)
        if volume.project_id is not None and volume.project_id != caller.project_id:
            raise VolumeNotUsable(f"Volume {volume.id} is not usable by this project.")
        if volume.encrypted:
            raise VolumeNotUsable(f"Volume {volume.id} is encrypted, which containers cannot use.")
        if volume.attachments and not volume.multiattach:
            raise VolumeInUse(f"Volume {volume.id} is in use.")
        return volume.id

    async def _look_up(self, caller: Caller, ident: str) -> Volume | None:
        if _is_uuid(ident) and (volume := await self._api.volume(ident, caller.token)) is not None:
            return volume
        named = await self._api.named(ident, caller.token)
        if len(named) > 1:
            raise Conflict(f"Multiple volumes are named {ident}; use the id.")
        return named[0] if named else None

    async def create(self, caller: Caller, size_gib: int, name: str) -> str:
        """A new volume's id (S1.8), made with the caller's token and within the caller's quota of Cinder. Raises
        VolumeCreateFailed with Cinder's words, ServiceUnavailable.

        Noted first: a death, or a call without an answer, leaves a note that ``abandoned`` follows up.
        """
        note = str(uuid4())
        async with self._db.write() as connection:
            await store.insert(connection, note, name, self._clock.now())
        try:
            volume_id = await self._api.create_volume(name, size_gib, {NOTE: note}, caller.token)
        except Refused as refused:
            async with self._db.write() as connection:
                await store.never_made(connection, note)
            raise _refused(refused, VolumeCreateFailed, f"The volume of {size_gib} GiB could not be made") from refused
        async with self._db.write() as connection:
            await store.made(connection, note, volume_id)
        log.info("action=create-volume volume=%s size=%s", volume_id, size_gib)
        return volume_id

    async def delete(self, volume_id: str) -> None:
        """Delete and wait until it is gone (S3.9); absent is success. Raises VolumeDeleteFailed, ServiceUnavailable.

        A volume in making, or just detached, is waited for until it can be deleted.
        """
        end = self._clock.monotonic() + self._gone_within
        for pause in pauses():
            volume = await self._api.volume(volume_id)
            if volume is None:
                break
            if volume.status in _DELETABLE:
                await self._ask_deletion(volume)
            if self._clock.monotonic() >= end:
                log.error("action=delete-volume volume=%s result=late status=%s", volume_id, volume.status)
                raise VolumeDeleteFailed(f"Volumes cannot be successfully deleted after {self._gone_within} seconds")
            await self._clock.sleep(pause)
        async with self._db.write() as connection:
            await store.gone(connection, volume_id)
        log.info("action=delete-volume volume=%s", volume_id)

    async def _ask_deletion(self, volume: Volume) -> None:
        try:
            await self._api.delete_volume(volume.id)
        except Refused as refused:
            now = await self._api.volume(volume.id)
            if now is not None and now.status in _DELETABLE:  # not a matter of time: it has snapshots, or the like
                raise VolumeDeleteFailed(f"Volume {volume.id} could not be deleted: {refused.message}") from refused

    async def abandoned(self, before: datetime) -> Sequence[str]:
        """Ids of volumes made before that moment that no mount names. Asks Cinder only for those whose create call
        had no answer."""
        async with self._db.read() as connection:
            noted = await store.abandoned(connection, before)
        found = [str(row["volume_id"]) for row in noted if row["volume_id"] is not None]
        for row in noted:
            if row["volume_id"] is None and (volume_id := await self._followed_up(row["uuid"], row["name"])):
                found.append(volume_id)
        return found

    async def _followed_up(self, note: str, name: str) -> str | None:
        try:
            named = await self._api.named(name, everywhere=True)
        except (Refused, ServiceUnavailable) as error:
            log.warning("action=sweep volume=%s result=postponed reason=%s", name, error)
            return None
        made = next((volume.id for volume in named if volume.metadata.get(NOTE) == note), None)
        async with self._db.write() as connection:
            if made is None:
                await store.never_made(connection, note)
            else:
                await store.made(connection, note, made)
        return made

    async def let_go(self, mapping: VolumeMapping) -> bool:
        """End the container's attachments in Cinder; what the lost host still has of it, it finds at its return.
        Raises VolumeDetachFailed, ServiceUnavailable."""
        volume_id = mapping.volume_id or ""
        try:
            for attachment in await self._api.attachments(volume_id, mapping.container_uuid) if volume_id else ():
                await self._api.delete_attachment(attachment.id)
                log.warning("action=let-go volume=%s container=%s", volume_id, mapping.container_uuid)
        except Refused as refused:
            raise VolumeDetachFailed(
                f"Volume {volume_id} could not be detached: Cinder answered: {refused.message}"
            ) from refused
        return True

    async def held(self) -> Sequence[Held]:
        """All attachments, servers' too. Raises ServiceUnavailable, VolumeDetachFailed."""
        try:
            found = await self._api.all_attachments()
        except Refused as refused:
            raise VolumeDetachFailed(f"Cinder does not tell its attachments: {refused.message}") from refused
        return [Held(one.id, one.instance, volume=one.volume_id) for one in found if one.instance]

    async def host_of(self, volume_id: str, container_uuid: str) -> str | None:
        """By the volume's own list. Raises ServiceUnavailable, VolumeDetachFailed."""
        try:
            volume = await self._api.volume(volume_id)
        except Refused as refused:
            raise VolumeDetachFailed(f"Cinder does not show volume {volume_id}: {refused.message}") from refused
        return None if volume is None else volume.attachments.get(container_uuid)

    # -- the node's side ---------------------------------------------------------------------------

    async def attach(self, mapping: VolumeMapping) -> tuple[str, Mapping[str, Any]]:
        """(host path, what to store of it). Raises VolumeNotReady, VolumeAttachFailed, ServiceUnavailable."""
        return await self._node.attach(mapping)

    async def attached(self, mapping: VolumeMapping) -> bool:
        """Mounted, and Cinder was told."""
        return self._node.attached(mapping)

    async def detach(self, mapping: VolumeMapping) -> None:
        """Unmounted, disconnected, let go of. Raises VolumeDetachFailed, ServiceUnavailable."""
        await self._node.detach(mapping)

    async def standing(self) -> Sequence[VolumeMapping]:
        """What the files of this node tell."""
        return await asyncio.to_thread(self._node.standing)

    async def forget(self, mapping: str) -> None:
        """Unmounted and disconnected. Raises VolumeDetachFailed."""
        await self._node.forget(mapping)

    async def close(self) -> None:
        """End what runs beside us."""
        await self._node.close()


NOTE = "zun_note"
"""Key of a volume's metadata: which note of ours it was made for."""


def _refused(
    refused: Refused, kind: type[VolumeCreateFailed] | type[VolumeNotUsable], what: str
) -> VolumeCreateFailed | VolumeNotUsable | Unauthorized:
    """Cinder's no to a caller, with its words: quota, policy, size."""
    if refused.status == 401:
        return Unauthorized("The token is not valid for Cinder.")
    return kind(f"{what}: {refused.message}")


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
