"""The bus port: a doorbell, and short calls to a node that need its answer now. Nothing durable travels here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

Handler = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""Takes and returns JSON-like data; a raised ZunError reaches the caller as the same class and message."""


class Bus(Protocol):
    """Reaches the node agents by host name."""

    async def ring(self, host: str) -> None:
        """ "An operation is yours." Returns at once, never raises: a lost ring is made good by the node's sweep."""
        ...

    async def call(self, host: str, method: str, params: Mapping[str, Any], deadline: float) -> Any:
        """Ask the node and wait at most ``deadline`` seconds. Raises HostUnreachable, or the node's ZunError."""
        ...

    async def serve(self, host: str, doorbell: Callable[[], None], methods: Mapping[str, Handler]) -> None:
        """Register this process as the agent of ``host``. Returns when registered."""
        ...

    async def close(self) -> None: ...
