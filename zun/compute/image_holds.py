"""Which images work at hand needs, and which are being removed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable


class ImageUses:
    """Who needs which images, by name and by id, and which are being removed. Of one agent: the only one of its
    host."""

    def __init__(self) -> None:
        self._needs: dict[Hashable, set[str]] = {}
        self._removing: dict[str, asyncio.Event] = {}

    async def need(self, who: Hashable, name: str) -> bool:
        """From now on the image stays until ``free``. Was it just being removed? It is over then."""
        self._needs.setdefault(who, set()).add(name)
        removal = self._removing.get(name)
        if removal is None:
            return False
        await removal.wait()
        return True

    def free(self, who: Hashable) -> None:
        """What it needed may go; nothing needed is success."""
        self._needs.pop(who, None)

    @contextlib.asynccontextmanager
    async def removing(self, *names: str) -> AsyncIterator[bool]:
        """Around a removal: False when the image is needed, and has to stay. Who needs it meanwhile waits."""
        if any(name in needs for needs in self._needs.values() for name in names):
            yield False
            return
        over = asyncio.Event()
        self._removing.update(dict.fromkeys(names, over))
        try:
            yield True
        finally:
            for name in names:
                self._removing.pop(name, None)
            over.set()
