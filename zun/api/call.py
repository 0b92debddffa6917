"""One API call as a handler sees it: who, which version, which arguments; and what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from zun.control.base import Control
from zun.control.status_waits import StatusWaits
from zun.domain.caller import Caller
from zun.domain.errors import Unauthorized


class Version(NamedTuple):
    """A microversion; compares as a tuple."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


MIN_VERSION = Version(1, 1)
MAX_VERSION = Version(1, 40)


class Policy(Protocol):
    """Answers the operator's policy rules."""

    def check(self, rule: str, caller: Caller, target: Mapping[str, Any] | None = None) -> bool:
        """Does ``rule`` allow the caller on ``target`` (default: the caller's own project and user)?"""
        ...

    def enforce(self, rule: str, caller: Caller, target: Mapping[str, Any] | None = None) -> None:
        """Raise PolicyNotAuthorized unless ``check``."""
        ...

    def hidden_fields(self, prefix: str, caller: Caller, target: Mapping[str, Any] | None = None) -> frozenset[str]:
        """Fields whose rule ``<prefix>:<field>`` exists and denies the caller (``container:get_one``)."""
        ...


async def _for_ever() -> None:
    await asyncio.Event().wait()


async def _never() -> Caller:
    raise Unauthorized("Nobody is known to have called.")


@dataclass(slots=True)
class Call:
    """A decoded, authenticated and version-checked request."""

    control: Control
    policy: Policy
    caller: Caller
    version: Version
    request_id: str
    base_url: str
    """Scheme and host, no trailing slash: base of links."""
    path: Mapping[str, str]
    """Path parameters, percent-decoded."""
    query: Mapping[str, list[str]]
    """Query parameters as sent, every value kept."""
    body: Mapping[str, Any]
    """The JSON object (or form) of the body; {} when none."""
    waits: StatusWaits
    """Those of this process."""
    args: Any = None
    """Instance of the route's model, validated from body and query merged; None without a model."""
    operation: str = ""
    """``Route.operation``."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Those of the request that the route names (``Route.headers``), by that name."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the process was told to stop: whoever waits for news answers at once."""
    gone: Callable[[], Coroutine[Any, Any, None]] = _for_ever
    """Returns when the client has gone. For requests without a body, by one task at a time."""
    again: Callable[[], Awaitable[Caller]] = _never
    """Asks once more who calls, for answers that take long. Raises Unauthorized, Unavailable."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A JSON text that is sent while it is made; ``length`` in bytes when it is known. ``pieces`` is closed at the
    end, whatever ends it."""

    pieces: AsyncGenerator[bytes, None]
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Events:
    """Server-sent events, without end. ``pieces`` and then ``held`` are closed at the end, whatever ends it."""

    pieces: AsyncGenerator[bytes, None]
    held: AsyncExitStack


@dataclass(slots=True)
class Answer:
    """What a handler returns: ``body`` None with 202/200 is the JSON text ``null``; 204 has none; ``Stream`` and
    ``Events`` are sent piece by piece.

    ``body`` may hold ``orjson.Fragment`` for JSON text from the database.
    """

    body: Any = None
    status: int | None = None
    """None = the route's success status."""
    headers: dict[str, str] = field(default_factory=dict)


Handler = Callable[[Call], Awaitable[Answer]]
