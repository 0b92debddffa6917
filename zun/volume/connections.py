"""What this node has connected: one file a mount, written before anything is done and removed after all is undone.

Connection data may hold passwords of the storage, so it stays on the node (mode 0600) and never reaches the database.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

FOLDER = ".cinder"
"""Of the files, among the mounts."""


@dataclass(frozen=True, slots=True)
class Connection:
    """``data``: what Cinder gave; ``device``: what os-brick made of it, None until connected. ``formatting``: a file
    system is being made, so that what is on the device is nobody's. ``complete``: mounted, and Cinder told."""

    mapping: str
    container: str
    volume_id: str
    attachment_id: str
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    device: Mapping[str, Any] | None = field(default=None, repr=False)
    formatting: bool = False
    complete: bool = False

    @property
    def path(self) -> str | None:
        """Of the device."""
        return None if self.device is None else str(self.device["path"])


class Connections:
    """The files, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, mapping: str) -> Connection | None:
        """None when nothing of this mount was begun here."""
        try:
            content = self._file(mapping).read_bytes()
        except FileNotFoundError:
            return None
        return Connection(**orjson.loads(content))

    def put(self, connection: Connection) -> Connection:
        """On the disk when it returns, whole or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=self._folder, prefix=".")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(orjson.dumps(dataclasses.asdict(connection)))
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self._file(connection.mapping))
        except BaseException:
            os.unlink(name)
            raise
        self._sync()
        return connection

    def remove(self, mapping: str) -> None:
        """Absent is success."""
        self._file(mapping).unlink(missing_ok=True)

    def of_volume(self, volume_id: str) -> Sequence[Connection]:
        """Of all mounts of a volume on this node."""
        return [one for one in self.all() if one.volume_id == volume_id]

    def all(self) -> Sequence[Connection]:
        """Of this node."""
        names = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        found = (self.get(name.stem) for name in names)
        return [one for one in found if one is not None]

    def _file(self, mapping: str) -> Path:
        return self._folder / f"{mapping}.json"

    def _sync(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
