"""The image ports: an image, ready in the engine; and the place where images of containers are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from zun.domain.caller import Caller
from zun.runtime.base import ImageFacts, PullProgress, RegistryAuth

Progress = Callable[[PullProgress], None]


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """What a container wants. ``pull_policy``: ``always ifnotpresent never`` in lower case."""

    reference: str
    pull_policy: str
    auth: RegistryAuth | None = None
    uuid: str | None = None
    """What ``resolve`` gave when the caller was there; drivers that have ids fetch this and nothing else."""


class Images(Protocol):
    """One image driver."""

    name: str
    """``docker`` (any OCI registry) or ``glance``."""

    async def resolve(self, caller: Caller, reference: str) -> str | None:
        """The id of the image that ``caller`` means, None for drivers without ids. Asked by the API with the caller's
        own rights, so that nobody reaches another project's image: the node, which acts for all, takes ids only.
        Raises InvalidValue for what is no reference, ImageNotFound, Conflict when a name fits several, Unavailable."""
        ...

    async def ensure(self, request: ImageRequest, progress: Callable[[PullProgress], None]) -> ImageFacts:
        """The image in the engine (S1.20). Requests for one image with the same credentials share one transfer; one
        without progress for the configured time is given up and tried again. Raises ImageFailed."""
        ...

    def engine_name(self, request: ImageRequest) -> str:
        """What the image is called in the engine. Raises ImageFailed for what is no reference."""
        ...

    async def exists(self, request: ImageRequest) -> bool:
        """Would ``ensure`` find it? Nothing is pulled. Raises ImageFailed for what is no reference, its kind
        ImagePullFailed when the registry cannot tell."""
        ...

    async def forget(self, request: ImageRequest) -> None:
        """Remove the image from the engine, by the name that ``ensure`` gave it. Absent is success. Raises
        EngineConflict while a container uses it."""
        ...

    async def search(self, caller: Caller | None, text: str, *, exact: bool) -> Sequence[Mapping[str, Any]]:
        """Images whose names hold ``text`` (or are it), as the driver's users know them. ``caller`` None: with the
        node's own rights. Raises Invalid where that cannot be searched, Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class NewImage:
    """An image of a container that will have its data later. ``uuid`` is chosen by who asks, so that it is on record
    before the image is."""

    uuid: str
    repository: str
    tag: str


class ImageStore(Protocol):
    """Where commits go. All methods raise Unavailable when the store does not answer."""

    async def announce(self, caller: Caller, image: NewImage) -> None:
        """Record the image in the caller's project, with the caller's rights. Raises Forbidden, Conflict, Invalid."""
        ...

    async def upload(
        self,
        image: NewImage,
        archive: AbstractAsyncContextManager[AsyncIterator[bytes]],
        progress: Callable[[PullProgress], None],
    ) -> None:
        """Give the recorded image its data, with our own rights. Has it already: nothing is read. Raises
        ImageStoreFailed where a retry cannot help."""
        ...

    async def discard(self, uuid: str) -> None:
        """Remove the record unless it has its data. Absent is success."""
        ...
