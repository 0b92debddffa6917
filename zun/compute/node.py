"""The node: its ports and its names. Everything in ``compute`` is given one; adapters are chosen by ``wiring``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from zun.bus.base import Bus
from zun.control.secrets import Cipher
from zun.domain.clock import Clock
from zun.image.base import Images
from zun.network.base import Network
from zun.placement.base import Placement
from zun.runtime.base import Runtime
from zun.store.database import Database
from zun.volume.base import Volumes

BINARY = "zun-compute"


@dataclass(slots=True)
class Node:
    """``host`` names the node; ``instance`` this very process; ``owner`` marks what it makes in the engine."""

    conf: Any
    db: Database
    clock: Clock
    bus: Bus
    runtime: Runtime
    images: Mapping[str, Images]
    network: Network
    volumes: Mapping[str, Volumes]
    placement: Placement
    cipher: Cipher
    host: str
    deployment_id: str
    instance: str
    provider_uuid: str | None = None
    """The node's record and provider; known after the first inventory."""
    disk_quota_supported: bool = False
    stopping: bool = False
    """The process was told to stop; what is cut off now is found by the next one."""
    usage_changed: Callable[[], None] = lambda: None
    """Told when containers came or went, so that the host's figures follow soon."""
    unseen: set[str] = field(default_factory=set)
    """Containers whose engine had news while an operation worked on them."""
    settled: Callable[[str], None] = lambda uuid: None
    """Told when an attempt of an operation on the container is over."""

    @property
    def owner(self) -> str:
        """``<deployment id>/<host>``: an agent never touches what carries another mark."""
        return f"{self.deployment_id}/{self.host}"
