"""Network namespaces of containers without engine networks, heard of in the event loop by the container's uuid."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable

from zun.runtime.docker_starts import DockerStarts

LOG = logging.getLogger(__name__)

Listener = Callable[[str, int, Callable[[], None]], None]


class DockerNamespaces:
    """Idle until ``begin``. The containers are told to it; it does not ask the engine."""

    def __init__(self) -> None:
        self._uuids: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._starts: DockerStarts | None = None
        self._listener: Listener | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, listener: Listener) -> None:
        """From now on."""
        self._listener, self._loop = listener, asyncio.get_running_loop()
        self._starts = DockerStarts(self._heard)
        for engine_id in self._uuids:
            self._starts.follow(engine_id)

    def made(self, uuid: str, engine_id: str) -> None:
        """The engine has the container."""
        former = self._ids.get(uuid)
        if former != engine_id:
            self.removed(uuid)
        self._ids[uuid], self._uuids[engine_id] = engine_id, uuid
        if self._starts is not None:
            self._starts.follow(engine_id)

    def starting(self, uuid: str) -> None:
        """The engine is about to be asked to start it."""
        engine_id = self._ids.get(uuid)
        if self._starts is not None and engine_id is not None:
            self._starts.expect(engine_id)

    def holding(self, uuid: str) -> bool:
        """Is the container's process still held before its first instruction?"""
        engine_id = self._ids.get(uuid)
        return self._starts is not None and engine_id is not None and self._starts.holding(engine_id)

    def removed(self, uuid: str) -> None:
        engine_id = self._ids.pop(uuid, None)
        if engine_id is not None:
            self._uuids.pop(engine_id, None)
            if self._starts is not None:
                self._starts.forget(engine_id)

    async def close(self) -> None:
        starts, self._starts = self._starts, None
        if starts is not None:
            await asyncio.to_thread(starts.close)

    def _heard(self, engine_id: str, namespace: int, let_go: Callable[[], None]) -> None:
        """In the thread."""
        loop = self._loop
        try:
            if loop is None:
                raise RuntimeError("no event loop")
            loop.call_soon_threadsafe(self._tell, engine_id, namespace, let_go)
        except RuntimeError:  # the loop is closed: the process ends
            os.close(namespace)
            let_go()

    def _tell(self, engine_id: str, namespace: int, let_go: Callable[[], None]) -> None:
        uuid = self._uuids.get(engine_id)
        if uuid is None or self._listener is None:
            os.close(namespace)
            let_go()
        else:
            self._listener(uuid, namespace, let_go)


def open_namespace(pid: int) -> int | None:
    """The network namespace of a process; None when it is gone. The descriptor is the caller's."""
    try:
        return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
