"""The image port: an image, ready in the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from zun.runtime.base import ImageFacts, PullProgress, RegistryAuth


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """What a container wants. ``pull_policy``: ``always ifnotpresent never`` in lower case."""

    reference: str
    pull_policy: str
    auth: RegistryAuth | None = None


class Images(Protocol):
    """One image driver."""

    name: str
    """``docker`` (any OCI registry) or ``glance``."""

    async def ensure(self, request: ImageRequest, progress: Callable[[PullProgress], None]) -> ImageFacts:
        """The image in the engine (S1.20). Requests for one reference with the same credentials share one pull; a
        pull without progress for the configured time is given up and tried again. Raises ImageFailed."""
        ...

    async def exists(self, request: ImageRequest) -> bool:
        """Would ``ensure`` find it? Nothing is pulled. Raises ImageFailed for what is no reference, its kind
        ImagePullFailed when the registry cannot tell."""
        ...
