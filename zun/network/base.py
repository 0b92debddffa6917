"""The network port. The API resolves names with the caller's rights; the node makes and removes ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from zun.domain.caller import Caller
from zun.domain.container import Container, RequestedNetwork
from zun.domain.observed import Attachment


class Network(Protocol):
    """All methods are idempotent coroutines; Unavailable when the service does not answer."""

    async def resolve(self, caller: Caller, nets: Sequence[Mapping[str, Any]]) -> Sequence[RequestedNetwork]:
        """Entries as in the request (``network`` | ``port``, ``v4-fixed-ip``, ``v6-fixed-ip``) to ids, in order
        (S1.4). Empty: the project's default network. Raises NetworkNotFound, PortNotFound, PortInUse, Conflict
        (ambiguous name, or none available), InvalidValue (address outside the network or taken)."""
        ...

    async def security_groups(self, caller: Caller, names: Sequence[str]) -> Sequence[str]:
        """Names or ids to ids. InvalidValue ``Security group <x> not found.``; Conflict when ambiguous."""
        ...

    async def ensure_ports(self, container: Container, requested: Sequence[RequestedNetwork]) -> Sequence[Attachment]:
        """On the node: the container's ports, made or found by device id, in the order asked (S1.21)."""
        ...

    async def release_ports(self, container_uuid: str) -> None:
        """Delete own ports, unbind given ones, found by device id (S3.5). None is success."""
        ...

    async def collect_idle(self) -> None:
        """Remove engine networks nobody uses any more; called by the node's sync."""
        ...
