"""Images that a node pulled itself, and which of them may go when its disk fills up. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

DISK_PRESSURE = "DISK_PRESSURE"
"""The condition of a host whose disk is so full that it takes no new containers."""


@dataclass(frozen=True, slots=True)
class NodeImage:
    """``reference``: as the engine knows it; the image's own id once the name has moved to a newer one. ``used_at``:
    when a container was last made of it, or seen that is."""

    host: str
    driver: str
    reference: str
    image_id: str
    pulled_at: datetime
    used_at: datetime


@dataclass(frozen=True, slots=True)
class Marks:
    """Percent of the disk: from ``high`` on images go, until it is at ``low``."""

    high: float
    low: float

    def wanting(self, use: float, *, begun: bool) -> bool:
        """Is room to be made? ``begun``: this round has removed some already."""
        return use > self.low if begun else use >= self.high


@dataclass(frozen=True, slots=True)
class Needed:
    """What containers need: ``ids`` of images, and ``names`` with which they were asked for."""

    ids: Collection[str]
    names: Collection[str] = ()

    def covers(self, image: NodeImage) -> bool:
        """Names may lack the registry that the node adds."""
        return image.image_id in self.ids or any(
            image.reference == name or image.reference.endswith(f"/{name}") for name in self.names
        )


def removable(images: Sequence[NodeImage], needed: Needed, unused_since: datetime) -> Sequence[NodeImage]:
    """Those that nothing needs and nothing has used since then, the longest unused first."""
    free = [image for image in images if image.used_at <= unused_since and not needed.covers(image)]
    return sorted(free, key=lambda image: (image.used_at, image.reference))
