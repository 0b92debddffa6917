"""The volume port. The API resolves and makes volumes; the node attaches them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from zun.domain.caller import Caller
from zun.domain.container import VolumeMapping


class Volumes(Protocol):
    """One volume driver. Methods are idempotent coroutines; Unavailable when the service does not answer."""

    name: str
    """``local`` or ``cinder``."""

    async def find(self, caller: Caller, ident: str) -> str:
        """Volume id for a name or id. Raises VolumeNotFound, Conflict (ambiguous), VolumeNotUsable, VolumeInUse."""
        ...

    async def create(self, caller: Caller, size_gib: int, name: str) -> str:
        """A new volume's id (S1.8). Raises VolumeCreateFailed."""
        ...

    async def delete(self, volume_id: str) -> None:
        """Absent is success."""
        ...

    async def attach(self, mapping: VolumeMapping) -> tuple[str, Mapping[str, Any]]:
        """On the node: ready to be bind-mounted; (host path, connection data to store). Data that exists is never
        formatted (S1.18). Raises VolumeAttachFailed."""
        ...

    async def detach(self, mapping: VolumeMapping) -> None:
        """On the node, the way down; safe though attach never ran."""
        ...
