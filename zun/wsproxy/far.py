"""What a session needs of its other side: a relay's connection, or what stands for one."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol


class Far(Protocol):
    """As ``websockets.asyncio.connection.Connection``, of which it is the part that is used. Every method raises
    ConnectionClosed once it is over, ``close_code`` and ``close_reason`` tell why."""

    @property
    def close_code(self) -> int | None: ...

    @property
    def close_reason(self) -> str | None: ...

    @property
    def paused(self) -> bool:
        """Is more on its way to us than we take?"""
        ...

    async def recv(self) -> str | bytes:
        """A piece of output, or words of ``zun.relay.control``. May be cancelled and called again; nothing is lost."""
        ...

    async def send(self, message: str | bytes) -> None:
        """Input, or such words; returns when it is taken."""
        ...

    async def ping(self) -> Awaitable[float]:
        """What it gives is done as soon as the other side has answered."""
        ...

    async def close(self) -> None:
        """Again is success."""
        ...
