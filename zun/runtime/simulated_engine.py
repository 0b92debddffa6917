"""What simulated engines share, of containers and of capsules: faults, images by reference, logs, events."""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from weakref import WeakSet

from zun.domain.clock import Clock, SystemClock
from zun.domain.errors import EngineUnreachable, ImageFailed, ImagePullFailed, InvalidValue
from zun.domain.image import parse_reference
from zun.runtime.base import Event, ImageFacts, PullProgress, RegistryAuth
from zun.runtime.log_records import Growth, LogRecord
from zun.runtime.simulated_commands import Handler, SmallShell
from zun.runtime.simulated_faults import Faults, faulty

IMAGE_BYTES = 4 * 1024 * 1024

_EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)

Line = tuple[datetime, str, str]
"""When, on which stream, what."""


class SimulatedEngine(ABC):
    """``faults`` makes calls slow, failing or silent; ``cut_events`` ends the streams of events."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.faults = Faults(self.clock)
        self.on_execute: Handler = SmallShell(self.clock).run
        """Answers ``execute``."""
        self._images: dict[str, ImageFacts] = {}
        self._refused: dict[str, ImageFailed] = {}
        self._log_watchers: WeakSet[asyncio.Event] = WeakSet()
        self._listeners: WeakSet[asyncio.Queue[Event | None]] = WeakSet()

    # -- behind the product's back ---------------------------------------------------------------

    def add_image(self, reference: str) -> ImageFacts:
        """An image that is there without a pull."""
        digest = hashlib.sha256(reference.encode()).hexdigest()
        facts = ImageFacts(f"sha256:{digest}", IMAGE_BYTES, ("sh",), (), ())
        self._images[str(parse_reference(reference))] = facts
        return facts

    def refuse_image(self, reference: str, error: ImageFailed) -> None:
        """Every pull of ``reference`` raises ``error``."""
        self._refused[reference] = error

    def cut_events(self) -> None:
        """All streams of events end."""
        for queue in list(self._listeners):
            queue.put_nowait(None)

    # -- the ports -------------------------------------------------------------------------------

    @faulty  # noqa: B027 - it has its faults alone
    async def connect(self) -> None:
        """Nothing to reach."""

    async def close(self) -> None:
        self.cut_events()

    def events(self) -> AsyncIterator[Event]:
        """From this call on."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._listeners.add(queue)
        return self._events(queue)

    @faulty
    async def pull(
        self, reference: str, auth: RegistryAuth | None, progress: Callable[[PullProgress], None]
    ) -> ImageFacts:
        if reference in self._refused:
            raise self._refused[reference]
        try:
            parse_reference(reference)
        except InvalidValue as error:
            raise ImageFailed(f"Image {reference} is not a valid reference: {error}") from error
        progress(PullProgress(0, IMAGE_BYTES, "Downloading"))
        progress(PullProgress(IMAGE_BYTES, IMAGE_BYTES, "Pull complete"))
        return self.add_image(reference)

    @faulty
    async def has_remote_image(self, reference: str, auth: RegistryAuth | None) -> bool:
        refusal = self._refused.get(reference)
        if isinstance(refusal, ImagePullFailed):
            raise refusal
        return refusal is None

    async def log_records(self, uuid: str, last: int | None) -> AsyncGenerator[Sequence[LogRecord], None]:
        error = await self.faults.enter("log_records")
        lines = self._log_of(uuid)
        if error is not None:
            raise error
        kept = _records(lines)
        kept = kept if last is None else kept[max(0, len(kept) - last) :]
        for start in range(0, len(kept), 100):
            yield kept[start : start + 100]

    @asynccontextmanager
    async def log_growth(self, uuid: str) -> AsyncIterator[Growth]:
        grew = asyncio.Event()
        self._log_watchers.add(grew)

        async def grown(seconds: float) -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await grew.wait()
            grew.clear()

        yield grown

    # -- within ----------------------------------------------------------------------------------

    @abstractmethod
    def _log_of(self, uuid: str) -> Sequence[Line]:
        """Raises EngineNotFound."""

    def _log_changed(self) -> None:
        for grew in list(self._log_watchers):
            grew.set()

    def _send(self, event: Event) -> None:
        for queue in list(self._listeners):
            queue.put_nowait(event)
        self._log_changed()

    async def _events(self, queue: asyncio.Queue[Event | None]) -> AsyncIterator[Event]:
        if self.faults.unreachable:
            raise EngineUnreachable("the simulated engine does not answer")
        while (event := await queue.get()) is not None:
            yield event
        raise EngineUnreachable("the simulated engine ended the stream of events")


def written(moment: datetime, text: str, stream: str) -> Sequence[Line]:
    """What a write of ``text`` adds to a log."""
    return [(moment, stream, line) for line in text.splitlines(keepends=True)]


def _records(lines: Sequence[Line]) -> Sequence[LogRecord]:
    """Lines of one microsecond have different nanoseconds."""
    found, before = list[LogRecord](), 0
    for moment, stream, text in lines:
        micros = (moment - _EPOCH) // timedelta(microseconds=1)
        before = max(micros * 1000, before + 1)
        data = text.encode()
        found.append(LogRecord(before, stream, data.removesuffix(b"\n"), data.endswith(b"\n")))
    return found


def log_text(
    lines: Sequence[Line], *, stdout: bool, stderr: bool, timestamps: bool, tail: int | None, since: float | None
) -> str:
    """A log as the ports' ``logs`` gives it."""
    wanted = {name for name, on in (("stdout", stdout), ("stderr", stderr)) if on}
    rows = [row for row in lines if row[1] in wanted]
    if since is not None:
        rows = [row for row in rows if row[0].replace(tzinfo=UTC).timestamp() >= since]
    if tail is not None:
        rows = rows[max(0, len(rows) - tail) :]
    return "".join(f"{moment.isoformat()}Z {text}" if timestamps else text for moment, _, text in rows)
