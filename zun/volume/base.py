"""The volume port. The API resolves and makes volumes; the node attaches them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from zun.domain.caller import Caller
from zun.domain.container import VolumeMapping
from zun.domain.held import Held


def container_volume_name(mapping: VolumeMapping) -> str:
    """The name of a volume made for one mount of a container."""
    return f"zun-{mapping.container_uuid}-{mapping.uuid[:8]}"


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
        """Gone when it returns; absent is success. Raises VolumeDeleteFailed, VolumeInUse."""
        ...

    async def abandoned(self, before: datetime) -> Sequence[str]:
        """Ids of volumes that ``create`` made for containers (``container_volume_name``) before that moment and that
        no mount of a container names: what a process left that died between volume and row."""
        ...

    async def attach(self, mapping: VolumeMapping) -> tuple[str, Mapping[str, Any]]:
        """On the node: ready to be bind-mounted; (host path, connection data to store). Data that exists is never
        formatted (S1.18). Raises VolumeAttachFailed, VolumeNotReady (S1.27). Before each start, too: what is attached
        already stays."""
        ...

    async def attached(self, mapping: VolumeMapping) -> bool:
        """On the node: does it stand as ``attach`` left it? Looks at this host only, so that it is quick."""
        ...

    async def detach(self, mapping: VolumeMapping) -> None:
        """On the node, the way down; safe though attach never ran, or not to its end. Raises VolumeDetachFailed."""
        ...

    async def forget(self, mapping: str) -> None:
        """On the node: what it has of a mapping that is another host's by now, or nobody's, goes; the service is not
        told, and the data stay. Nothing is success. Raises VolumeDetachFailed."""
        ...

    async def let_go(self, mapping: VolumeMapping) -> bool:
        """From anywhere, of a mount on a host that is lost for good, by an administrator's word: others may have the
        volume. False where only the host itself can do that."""
        ...

    async def held(self) -> Sequence[Held]:
        """From anywhere: holds on volumes that the service has, of others too; ``let_go`` ends them."""
        ...

    async def host_of(self, volume_id: str, container_uuid: str) -> str | None:
        """From anywhere: the host that the service says has the volume for the container; None where none has."""
        ...

    async def standing(self) -> Sequence[VolumeMapping]:
        """On the node: what of this driver stands on this machine, as far as the machine knows: of the mapping its
        uuid, kind, volume and perhaps container. ``detach`` takes it down."""
        ...

    async def close(self) -> None:
        """End what the driver runs beside this process."""
        ...
