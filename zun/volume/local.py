"""Embedded volumes: a folder, or where a size is asked for a sparse file with a file system of that size.

The API's side makes and deletes data below ``[volume]/local_dir``; the node's side makes it ready below
``[volume]/volume_dir``, one entry for each mapping.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import errno
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from zun.domain.caller import Caller
from zun.domain.clock import Clock, SystemClock
from zun.domain.container import VolumeMapping
from zun.domain.errors import (
    Conflict,
    VolumeAttachFailed,
    VolumeCreateFailed,
    VolumeDetachFailed,
    VolumeInUse,
    VolumeNotFound,
    VolumeNotUsable,
    ZunError,
)
from zun.domain.held import Held
from zun.store import local_volumes as store
from zun.store import volume_mappings
from zun.store.database import Database
from zun.volume import image_file, mounts
from zun.volume.command import CommandFailed
from zun.volume.local_standing import standing

log = logging.getLogger(__name__)


class LocalVolumes:
    """See ``zun.volume.base.Volumes``. Volumes of this machine may be shared by containers."""

    name = "local"

    def __init__(self, db: Database, conf: Any, clock: Clock | None = None) -> None:
        self._db = db
        self._clock = clock or SystemClock()
        self._fstype = str(conf.volume.fstype)
        # Resolved, because the kernel's tables name real paths.
        self._data = Path(os.path.realpath(conf.volume.local_dir))
        self._mounts = Path(os.path.realpath(conf.volume.volume_dir))

    def _image(self, volume_id: str) -> Path:
        return self._data / f"{volume_id}.img"

    def _target(self, mapping: VolumeMapping) -> Path:
        return self._mounts / mapping.uuid

    # -- the API's side ----------------------------------------------------------------------------

    async def find(self, caller: Caller, ident: str) -> str:
        """Volume id for a name or id. Raises VolumeNotFound, Conflict (ambiguous), VolumeNotUsable."""
        project = caller.project_id or caller.user_id
        async with self._db.read() as connection:
            row = await store.get(connection, ident)
            if row is not None:
                if row["project_id"] != project and not caller.is_admin:
                    raise VolumeNotUsable(f"Volume {ident} is not usable by this project.")
                return str(row["uuid"])
            rows = await store.named(connection, project, ident)
        if len(rows) > 1:
            raise Conflict(f"Multiple volumes are named {ident}; use the id.")
        if not rows:
            raise VolumeNotFound(ident)
        return str(rows[0]["uuid"])

    async def create(self, caller: Caller, size_gib: int | None, name: str) -> str:
        """A new volume's id (S1.8); without a size a plain folder. Raises VolumeCreateFailed, leaving nothing."""
        uuid = str(uuid4())
        try:
            # The record first: a death in between leaves a row that ``abandoned`` finds, never a file nobody knows.
            async with self._db.write() as connection:
                project = caller.project_id or caller.user_id
                await store.insert(connection, uuid, name, project, size_gib or None, self._clock.now())
            with _as(VolumeCreateFailed, f"The volume of {size_gib or 0} GiB could not be made"):
                self._data.mkdir(parents=True, exist_ok=True, mode=0o700)
                if size_gib:
                    await image_file.make(self._image(uuid), size_gib, self._fstype)
                else:
                    _make_folder(self._data / uuid)
        except BaseException:
            with suppress(OSError):
                _remove_data(self._image(uuid), self._data / uuid)
            with suppress(ZunError):
                async with self._db.write() as connection:
                    await store.delete(connection, uuid)
            raise
        log.info("action=create-volume volume=%s size=%s", uuid, size_gib)
        return uuid

    async def delete(self, volume_id: str) -> None:
        """Remove data, then record; absent is success. Raises VolumeInUse while it is mounted or mapped to stay."""
        if not _is_uuid(volume_id):
            return
        async with self._db.read() as connection:
            used = await volume_mappings.lasting_use(connection, volume_id)
        if used or mounts.loop_devices(self._image(volume_id)):
            raise VolumeInUse(f"Volume {volume_id} is in use.")
        with _as(VolumeInUse, f"Volume {volume_id} could not be deleted"):
            await asyncio.to_thread(_remove_data, self._image(volume_id), self._data / volume_id)
        async with self._db.write() as connection:
            await store.delete(connection, volume_id)
        log.info("action=delete-volume volume=%s", volume_id)

    async def abandoned(self, before: datetime) -> Sequence[str]:
        """Ids of volumes made for a container before that moment that no mount names."""
        async with self._db.read() as connection:
            return await store.abandoned(connection, before)

    # -- the node's side ---------------------------------------------------------------------------

    async def attach(self, mapping: VolumeMapping) -> tuple[str, Mapping[str, Any]]:
        """(host path, connection data); made ready already is success. Raises VolumeAttachFailed, leaving nothing.

        Never formats anything (S1.18): volumes get their file system when they are made.
        """
        if mapping.kind == "bind":
            return await self._attach_file(mapping)
        volume_id = mapping.volume_id or ""
        async with self._db.read() as connection:
            row = await store.get(connection, volume_id)
        if row is None:
            raise VolumeAttachFailed(f"Volume {volume_id} does not exist.")
        if row["size"] is None:
            folder = self._data / volume_id
            if not folder.is_dir():
                raise VolumeAttachFailed(f"The data of volume {volume_id} is missing.")
            return str(folder), {"path": str(folder)}
        return await self._attach_image(mapping, self._image(volume_id))

    async def attached(self, mapping: VolumeMapping) -> bool:
        """Does it stand as ``attach`` left it?"""
        target = self._target(mapping)
        if mapping.kind == "bind":
            return (target / "file").exists()
        image = self._image(mapping.volume_id or "")
        if not image.exists():
            return (self._data / (mapping.volume_id or "")).is_dir()
        try:
            return mounts.holds(target, image)
        except CommandFailed:
            return False

    async def _attach_image(self, mapping: VolumeMapping, image: Path) -> tuple[str, Mapping[str, Any]]:
        if not mounts.is_root():
            raise VolumeAttachFailed("A volume with a size needs zun-compute to run as root, to mount it.")
        target = self._target(mapping)
        self._make_mounts()
        with _as(VolumeAttachFailed, f"Volume {mapping.volume_id} could not be mounted"):
            try:
                async with image_file.locked(image):
                    if not mounts.holds(target, image):
                        await mounts.mount_image(image, target, self._fstype)
            except FileNotFoundError as error:
                raise VolumeAttachFailed(f"The data of volume {mapping.volume_id} is missing.") from error
        return str(target), {"path": str(image)}

    async def _attach_file(self, mapping: VolumeMapping) -> tuple[str, Mapping[str, Any]]:
        target = self._target(mapping)
        self._make_mounts()
        try:
            content = base64.b64decode(mapping.contents or "", validate=True)
        except binascii.Error as error:
            raise VolumeAttachFailed(f"The file for {mapping.destination} is not base64.") from error
        with _as(VolumeAttachFailed, f"The file for {mapping.destination} could not be written"):
            await asyncio.to_thread(_write_file, target, content)
        return str(target / "file"), {"path": str(target / "file")}

    def _make_mounts(self) -> None:
        # Others on the host must not read what users put in files; the engine passes as root.
        with _as(VolumeAttachFailed, f"The folder {self._mounts} could not be made"):
            self._mounts.mkdir(parents=True, exist_ok=True, mode=0o700)

    async def detach(self, mapping: VolumeMapping) -> None:
        """Unmount, loop device gone, entry removed; safe though attach never ran. Raises VolumeDetachFailed."""
        target = self._target(mapping)
        with _as(VolumeDetachFailed, f"The mount for {mapping.destination} could not be removed"):
            if mapping.kind == "bind":
                await asyncio.to_thread(_remove_file, target)
                return
            image = self._image(mapping.volume_id or "")
            if mounts.source_of(target) is None and not target.exists():
                return
            try:
                async with image_file.locked(image):
                    await mounts.unmount(target)
            except FileNotFoundError:
                await mounts.unmount(target)
            mounts.remove_target(target)

    async def forget(self, mapping: str) -> None:
        """The file goes, or the place where nothing was mounted yet; a mount of a volume is no other host's. Raises
        VolumeDetachFailed."""
        with _as(VolumeDetachFailed, f"The file of mount {mapping} could not be removed"):
            await asyncio.to_thread(_forget_file, self._mounts / mapping)

    async def let_go(self, mapping: VolumeMapping) -> bool:
        """Directories and mounts are the host's own."""
        return False

    async def held(self) -> Sequence[Held]:
        """Mounts are all there is."""
        return []

    async def host_of(self, volume_id: str, container_uuid: str) -> str | None:
        """Nobody but the hosts knows."""
        return None

    async def standing(self) -> Sequence[VolumeMapping]:
        """Files, mounts of images of ours, and empty places for them."""
        return await asyncio.to_thread(standing, self._mounts, self._data)

    async def close(self) -> None:
        """Nothing runs beside us."""


@contextmanager
def _as(kind: type[ZunError], what: str) -> Iterator[None]:
    """Faults of the host as one sentence."""
    try:
        yield
    except CommandFailed as error:
        text = str(error)
        raise kind(f"{what}: {'the disk is full' if 'No space left' in text else text.rstrip('.')}.") from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise kind(f"{what}: {'the disk is full' if full else error.strerror or error}.") from error


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _remove_data(image: Path, folder: Path) -> None:
    image.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _make_folder(folder: Path) -> None:
    """Open to whatever user the container runs as, whatever our umask; the folder above is closed to others."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)


def _write_file(folder: Path, content: bytes) -> None:
    """``folder/file``, whole or not at all, readable for whatever user the container runs as."""
    if (folder / "file").exists():
        return  # what the container wrote into it stays until the container goes
    made = not folder.exists()
    try:
        _make_folder(folder)
        descriptor, name = tempfile.mkstemp(dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(content)
        os.replace(name, folder / "file")
    except OSError:
        if made:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _forget_file(target: Path) -> None:
    """Only a file that was written for a container, or nothing at all: a mount has somebody's data behind it."""
    if not target.is_dir() or mounts.source_of(target) is not None:
        return
    names = [entry.name for entry in target.iterdir()]
    if names == ["file"]:
        _remove_file(target)
    elif not names:
        mounts.remove_target(target)


def _remove_file(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
