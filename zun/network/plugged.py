"""What a network driver has nothing to do for where the engine plugs its containers itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager


class PluggedByEngine:
    """That part of ``zun.network.base.Network``; drivers that plug namespaces themselves say otherwise."""

    async def close(self) -> None:
        return

    def knows(self, container_uuid: str) -> bool:
        return True

    async def plug(self, container_uuid: str, namespace: int) -> None:
        return

    async def usable(self, container_uuid: str, seconds: float | None = None) -> None:
        return

    @asynccontextmanager
    async def leaving(self, container_uuid: str) -> AsyncIterator[None]:
        yield

    async def ended(self, container_uuid: str) -> None:
        return

    async def unplugged(self, container_uuids: Collection[str]) -> Collection[str]:
        return []

    async def plugged(self) -> Collection[str]:
        return []

    async def unplug(self, container_uuid: str) -> None:
        return
