"""Who waits for something of a capsule, and the word that something happened. Within one event loop."""

from __future__ import annotations

import asyncio


class News:
    """``wait`` returns at the next ``tell`` of its uuid, or after a time: what was missed is found by looking."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def tell(self, uuid: str) -> None:
        """Something happened to this member or sandbox."""
        for event in self._waiting.get(uuid, ()):
            event.set()

    def tell_all(self) -> None:
        """Anything may have happened."""
        for uuid in list(self._waiting):
            self.tell(uuid)

    def expect(self, uuid: str) -> Expected:
        """To be entered before looking, so that nothing falls in between."""
        return Expected(self, uuid)

    def _add(self, uuid: str, event: asyncio.Event) -> None:
        self._waiting.setdefault(uuid, set()).add(event)

    def _remove(self, uuid: str, event: asyncio.Event) -> None:
        events = self._waiting.get(uuid, set())
        events.discard(event)
        if not events:
            self._waiting.pop(uuid, None)


class Expected:
    """``with news.expect(uuid) as expected: look(); await expected.within(5)``."""

    def __init__(self, news: News, uuid: str) -> None:
        self._news, self._uuid, self._event = news, uuid, asyncio.Event()

    def __enter__(self) -> Expected:
        self._news._add(self._uuid, self._event)
        return self

    def __exit__(self, *exc: object) -> None:
        self._news._remove(self._uuid, self._event)

    async def within(self, seconds: float) -> bool:
        """Was something told? False after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True
