"""What happens to members and sandboxes, from containerd's events.

containerd tells of it before its CRI side knows: an event is passed on when CRI agrees. Nothing is replayed and nothing
tells that a subscription is active, so an event of our own is published until it comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import grpc.aio

from zun.domain.errors import EngineError, EngineNotFound
from zun.runtime.base import Event
from zun.runtime.cri import facts
from zun.runtime.cri.client import CriClient
from zun.runtime.cri.errors import translated, unreachable
from zun.runtime.cri.protocol import EVENTS, message
from zun.runtime.docker_facts import OWNER_LABEL, UUID_LABEL

LOG = logging.getLogger(__name__)

_FILTER = 'namespace==k8s.io,topic~="^/(tasks/(start|exit|oom)|containers/(create|delete))$"'
_ACTIONS = {
    "/containers/create": "create",
    "/tasks/start": "start",
    "/tasks/exit": "die",
    "/tasks/oom": "oom",
    "/containers/delete": "destroy",
}
"""containerd's topics in Docker's words: the port's callers know those."""

_TASK, _EXIT, _CONTAINER = (message(f"{EVENTS}.{name}") for name in ("TaskEvent", "TaskExit", "ContainerEvent"))
_AGREES_SECONDS = 5.0
_MAKING_SECONDS = 1.0
"""After which CRI is asked again of something new, though calls that make something are not at their end."""
_MARK_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class _Known:
    uuid: str
    owner: str


class Events:
    """Streams of events, and who is behind the engine's ids."""

    def __init__(self, client: CriClient) -> None:
        self._client = client
        self._known: dict[str, _Known] = {}
        self._opening: set[asyncio.Future[None]] = set()
        self._making = 0
        self._awaited: dict[str, set[asyncio.Event]] = {}

    @contextlib.contextmanager
    def making(self) -> Iterator[Callable[[str], None]]:
        """Around a call that makes or starts something: containerd tells of it long before CRI knows. What is yielded
        takes the id of what is there now."""
        self._making += 1
        try:
            yield self._is_there
        finally:
            self._making -= 1

    def _is_there(self, engine_id: str) -> None:
        for waiter in self._awaited.get(engine_id, ()):
            waiter.set()

    @contextlib.contextmanager
    def awaiting(self, engine_id: str) -> Iterator[Callable[[float], Awaitable[None]]]:
        """Yields the pause, of so many seconds, before CRI is asked of it once more: while something is being made it
        ends when that is there."""
        there = asyncio.Event()
        waiters = self._awaited.setdefault(engine_id, set())
        waiters.add(there)

        async def pause(seconds: float) -> None:
            if not self._making or there.is_set():
                await asyncio.sleep(seconds)
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_MAKING_SECONDS):
                    await there.wait()

        try:
            yield pause
        finally:
            waiters.discard(there)
            if not waiters and self._awaited.get(engine_id) is waiters:
                del self._awaited[engine_id]

    def remember(self, rows: Iterable[Any]) -> None:
        """Rows of a list: whose they are goes on being known when they are gone."""
        for row in rows:
            self._known[row.id] = _Known(row.labels.get(UUID_LABEL, ""), row.labels.get(OWNER_LABEL, ""))

    async def opened(self) -> None:
        """Waits for the streams that are being opened: what is listed afterwards misses nothing that they miss."""
        if self._opening:
            await asyncio.wait(set(self._opening), timeout=self._client.deadline)

    def follow(self) -> AsyncIterator[Event]:
        """As the port's ``events``."""
        stream = _Stream(self._client, self)
        self._opening.add(stream.active)
        stream.active.add_done_callback(self._opening.discard)
        events = stream.events()
        weakref.finalize(events, stream.end)  # also when nobody ever asked for the first one
        return events

    def forget(self, engine_id: str) -> None:
        self._known.pop(engine_id, None)

    async def learn(self) -> None:
        """Everything of ours that is there. Raises the port's errors."""
        found: list[Any] = []
        for method, field in (("ListContainers", "containers"), ("ListPodSandbox", "items")):
            answer = await self._client.call(method)
            found += (row for row in getattr(answer, field) if facts.PART_LABEL in row.labels)
        self._known.clear()  # also of what went while nobody listened
        self.remember(found)

    async def name(self, engine_id: str, pause: Callable[[float], Awaitable[None]]) -> _Known | None:
        """Whose it is; None for what is not ours, or is gone and never was heard of."""
        known = self._known.get(engine_id)
        if known is None:
            labels = await self._labels(engine_id, pause)
            if labels is None:
                return None
            known = _Known(labels.get(UUID_LABEL, ""), labels.get(OWNER_LABEL, ""))
            self._known[engine_id] = known
        return known if known.uuid else None

    async def _labels(self, engine_id: str, pause: Callable[[float], Awaitable[None]]) -> Any | None:
        async def look() -> Any | None:
            for kind, field in (("ContainerStatus", "container_id"), ("PodSandboxStatus", "pod_sandbox_id")):
                with contextlib.suppress(EngineNotFound):
                    fields: dict[str, Any] = {field: engine_id}
                    return (await self._client.call(kind, **fields)).status.labels
            return None

        return await _until(look, pause)


class _Stream:
    """One subscription, made in a task from the moment it is asked for."""

    def __init__(self, client: CriClient, all_events: Events) -> None:
        self._client = client
        self._all = all_events
        self._found: asyncio.Queue[Event | EngineError] = asyncio.Queue()
        self._settling: set[asyncio.Task[None]] = set()
        self.active: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read(), name="cri-events")

    async def events(self) -> AsyncIterator[Event]:
        try:
            while True:
                found = await self._found.get()
                if isinstance(found, EngineError):
                    raise found
                yield found
        finally:
            self.end()
            await asyncio.gather(self._reader, *self._settling, return_exceptions=True)

    def end(self) -> None:
        if not self._reader.get_loop().is_closed():
            for task in {self._reader, *self._settling}:
                task.cancel()

    async def _read(self) -> None:
        try:
            await self._all.learn()
            await self._subscribed()
            ended: EngineError = unreachable(f"{self._client.endpoint} ended the stream of events")
        except grpc.aio.AioRpcError as error:
            ended = unreachable(translated(error, self._client.endpoint, None).text)
        except EngineError as error:
            ended = unreachable(error.text)
        finally:
            if not self.active.done():
                self.active.set_result(None)
        await asyncio.gather(*self._settling, return_exceptions=True)
        self._found.put_nowait(ended)

    async def _subscribed(self) -> None:
        topic = f"/zun/subscribed/{uuid4()}"
        async with self._client.stream("Subscribe", filters=[_FILTER, f'topic=="{topic}"']) as envelopes:
            marking = asyncio.create_task(self._mark(topic), name="cri-events-mark")
            try:
                async for envelope in envelopes:
                    if envelope.topic == topic:
                        marking.cancel()
                        if not self.active.done():
                            self.active.set_result(None)
                    else:
                        self._take(envelope)
            finally:
                marking.cancel()
                await asyncio.gather(marking, return_exceptions=True)

    async def _mark(self, topic: str) -> None:
        while True:
            await self._client.call("Publish", topic=topic, event={"type_url": "zun.Subscribed"})
            await asyncio.sleep(_MARK_PAUSE)

    def _take(self, envelope: Any) -> None:
        action, raw = _ACTIONS[envelope.topic], envelope.event.value
        if action == "die":
            ended = _EXIT.FromString(raw)
            if ended.id != ended.container_id:  # of a command
                return
            engine_id = ended.container_id
        elif action in ("create", "destroy"):
            engine_id = _CONTAINER.FromString(raw).id
        else:
            engine_id = _TASK.FromString(raw).container_id
        task = asyncio.create_task(self._settle(action, engine_id), name=f"cri-event-{action}")
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle(self, action: str, engine_id: str) -> None:
        """Tell of it once CRI's answers are of afterwards."""
        try:
            with self._all.awaiting(engine_id) as pause:
                known = await self._all.name(engine_id, pause)
                if known is None:
                    return
                begins = action in ("create", "start")
                agreed = await _until(lambda: self._agrees(action, engine_id), pause if begins else asyncio.sleep)
            if not agreed:
                LOG.info("action=event engine_id=%s event=%s result=told reason=cri_disagrees", engine_id, action)
        except EngineError as error:
            LOG.debug("action=event engine_id=%s event=%s result=lost reason=%s", engine_id, action, error.text)
            return
        if action == "destroy":
            self._all.forget(engine_id)
        self._found.put_nowait(Event(known.uuid, action, known.owner))

    async def _agrees(self, action: str, engine_id: str) -> bool:
        try:
            status = (await self._client.call("ContainerStatus", container_id=engine_id)).status
        except EngineNotFound:
            return await self._sandbox_agrees(action, engine_id)
        if action == "destroy":
            return False
        if action == "oom":
            return bool(status.reason == "OOMKilled" or status.state == facts.EXITED)
        if action == "die":
            return bool(status.state == facts.EXITED)
        return bool(status.state != facts.CREATED or action == "create")

    async def _sandbox_agrees(self, action: str, engine_id: str) -> bool:
        try:
            status = (await self._client.call("PodSandboxStatus", pod_sandbox_id=engine_id)).status
        except EngineNotFound:  # gone: later than all that could be told of it, but for its beginning
            return action not in ("create", "start")
        return bool(status.state == facts.READY) == (action not in ("die", "destroy"))


async def _until(look: Callable[[], Awaitable[Any]], wait: Callable[[float], Awaitable[Any]]) -> Any:
    """The first true answer, asked again with growing pauses for some seconds; else the last one."""
    loop, pause = asyncio.get_running_loop(), 0.02
    end = loop.time() + _AGREES_SECONDS
    while True:
        found = await look()
        if found or loop.time() > end:
            return found
        await wait(pause)
        pause = min(pause * 1.5, 0.25)
