"""What every control function needs: the ports and the store, chosen by ``wiring``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zun.bus.base import Bus
from zun.bus.notifier import Notifier
from zun.control.event_feed import EventFeed
from zun.control.log_places import LogPlaces
from zun.control.secrets import Cipher
from zun.domain.clock import Clock
from zun.image.base import Images, ImageStore
from zun.network.base import Network
from zun.placement.base import Placement
from zun.scheduler.choices import Choices
from zun.store.database import Database
from zun.volume.base import Volumes


@dataclass(frozen=True, slots=True)
class Control:
    """Passed to each control function; holds no state of its own."""

    conf: Any
    db: Database
    clock: Clock
    bus: Bus
    placement: Placement
    network: Network
    volumes: Mapping[str, Volumes]
    """Volume drivers by name; the first one makes volumes for ``size``."""
    cipher: Cipher
    deployment_id: str
    """Marks what this deployment makes in engines, with the host: ``<deployment id>/<host>``."""
    events: EventFeed
    """Status events for listeners of this process."""
    log_places: LogPlaces
    """Places for streams of logs of this process."""
    notifier: Notifier
    images: Mapping[str, Images] = field(default_factory=dict)
    """Image drivers by name."""
    choices: Choices = field(default_factory=Choices)
    """Of hosts, of this process."""
    image_store: ImageStore | None = None
    """Where images of containers are kept; None where there is no such service."""
