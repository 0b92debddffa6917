"""One operation at work: the record, the container, and what its holdings prepared for the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zun.compute.journal import Journal
from zun.compute.node import Node
from zun.domain.container import Container, VolumeMapping
from zun.domain.observed import Attachment, HostMount
from zun.domain.operation import Operation
from zun.runtime.base import ImageFacts


@dataclass(slots=True)
class Prepared:
    """What ``ensure`` of the holdings found or made."""

    image: ImageFacts | None = None
    attachments: Sequence[Attachment] = ()
    mounts: Sequence[HostMount] = ()


@dataclass(slots=True)
class Work:
    """Given to operations and holdings. ``container`` is None once the row is gone (tombstones)."""

    node: Node
    operation: Operation
    container: Container | None
    journal: Journal
    mappings: Sequence[VolumeMapping] = ()
    prepared: Prepared = field(default_factory=Prepared)

    @property
    def uuid(self) -> str:
        return self.operation.container_uuid

    @property
    def params(self) -> Mapping[str, Any]:
        return self.operation.params

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
    follow_up: str | None = None
    """Kind of an operation to queue in the same transaction."""
    follow_up_params: dict[str, Any] = field(default_factory=dict)
