"""One operation at work: the record, the container, and what its holdings prepared for the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.compute.journal import Journal
from zun.compute.node import Node
from zun.domain.container import Container, VolumeMapping
from zun.domain.moving import Move
from zun.domain.observed import Attachment, HostMount
from zun.domain.operation import Kind, Operation
from zun.runtime.base import ImageFacts
from zun.runtime.pods import Sandbox


@dataclass(slots=True)
class Prepared:
    """What ``ensure`` of the holdings found or made."""

    image: ImageFacts | None = None
    attachments: Sequence[Attachment] = ()
    security_groups: Sequence[str] | None = None
    """Those of the exposed ports; None leaves the row's."""
    mounts: Sequence[HostMount] = ()
    cpuset: str = ""
    """CPUs it may run on (``2,3``); empty = all."""
    memory_nodes: str = ""
    """NUMA nodes of its memory; empty = all."""
    images: Mapping[str, ImageFacts] = field(default_factory=dict)
    """Of a capsule: member's uuid -> its image."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Of a capsule: volume mapping's uuid -> where the host has it."""
    sandbox: Sandbox | None = None


async def _stay() -> None:
    """An operation outside of a worker has nobody waiting for it."""


@asynccontextmanager
async def _beside() -> AsyncIterator[None]:
    """An operation outside of a worker has no place to give up."""
    yield


@dataclass(slots=True)
class Work:
    """Given to operations and holdings. ``container`` is None once the row is gone (tombstones)."""

    node: Node
    operation: Operation
    container: Container | None
    journal: Journal
    mappings: Sequence[VolumeMapping] = ()
    prepared: Prepared = field(default_factory=Prepared)
    elsewhere: bool = False
    """The container lives on another host now; its ports, volumes and allocation are that host's."""
    leave: Callable[[], Awaitable[None]] = _stay
    """Tells that the rest no longer concerns the container: its next operation need not wait for this one."""
    aside: Callable[[], AbstractAsyncContextManager[None]] = _beside
    """Around a wait that may be long: other operations may have this one's place meanwhile."""
    members: Sequence[Container] = ()
    """Of a capsule, init containers first."""

    @property
    def uuid(self) -> str:
        return self.operation.container_uuid

    @property
    def params(self) -> Mapping[str, Any]:
        return self.operation.params

    @property
    def is_first(self) -> bool:
        """Nobody has begun to make the container before, so that the engine has nothing of it."""
        return self.operation.kind == Kind.CREATE and self.operation.attempt == 1

    @property
    def row(self) -> Container:
        """The container, for operations that need one."""
        if self.container is None:
            raise RuntimeError(f"operation {self.operation.id} runs without its container")
        return self.container


@dataclass(slots=True)
class Outcome:
    """What an operation's end writes, in one transaction."""

    values: dict[str, Any] = field(default_factory=dict)
    """Columns of the container's row."""
    error: str | None = None
    """The operation failed; the text for people."""
    remove_row: bool = False
    record: Callable[[AsyncConnection], Awaitable[object]] | None = None
    """What else is written in that transaction."""
    follow_up: str | None = None
    """Kind of an operation to queue in the same transaction."""
    follow_up_params: dict[str, Any] = field(default_factory=dict)
    hand_over: Move | None = None
    """This node's part of a move is done: its target goes on with the operation, which does not end here."""
