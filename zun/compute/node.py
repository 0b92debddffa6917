"""The node: its ports and its names. Everything in ``compute`` is given one; adapters are chosen by ``wiring``."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zun.bus.base import Bus
from zun.bus.notifier import Notifier, Silent
from zun.compute.capsules.news import News
from zun.compute.execs import Execs
from zun.compute.image_holds import ImageUses
from zun.control.secrets import Cipher
from zun.domain.clock import Clock
from zun.domain.container import Container
from zun.domain.vitals import Vitals
from zun.image.base import Images, ImageStore
from zun.network.base import Network, PodNetwork
from zun.placement.base import Placement
from zun.runtime.base import Runtime
from zun.runtime.pods import Pods, PodsInfo
from zun.store.database import Database
from zun.volume.base import Volumes

BINARY = "zun-compute"

LONGEST_ROUND = 600.0
"""Seconds after which a loop's round stands still: all that it waits for has a deadline, and few come together."""


async def _at_once() -> None:
    """An agent that reports by its schedule only."""


async def _nothing(uuid: str) -> None:
    """Where the engine plugs the interfaces there is nothing to wait for."""


async def _no_check(rows: Sequence[Container], running: set[str]) -> None:
    """The same."""


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
    notifier: Notifier = field(default_factory=Silent)
    """Told how operations go."""
    vitals: Vitals = field(default_factory=Vitals)
    """Told by the loops that they are well."""
    pods: Pods | None = None
    """The engine for capsules; None where this node takes none."""
    pod_images: Images | None = None
    pod_network: PodNetwork | None = None
    """Prepares capsules' interfaces; None where ``pods`` is."""
    image_store: ImageStore | None = None
    """Where images of containers are kept; None where there is no such service."""
    pods_info: PodsInfo | None = None
    """What the engine for capsules said when it was last reached; None while it is not: the node takes none then."""
    pods_silence: str = ""
    """Why it was not reached when it was last tried; told once."""
    news: News = field(default_factory=News)
    """Of capsules and their members."""
    execs: Execs = field(default_factory=Execs)
    """Interactive commands."""
    relay: str | None = None
    """``host:port`` that proxies of sessions connect to; None: this node has no sessions."""
    provider_uuid: str | None = None
    """The node's record and provider; known after the first inventory."""
    disk_quota_supported: bool = False
    floating_cpus: str = ""
    """CPUs for containers without CPUs of their own; empty = all."""
    image_uses: ImageUses = field(default_factory=ImageUses)
    """Images that must not be removed now."""
    engine_roots: Sequence[str] = ()
    """Folders of the engines; known after the first inventory."""
    disk_full: bool = False
    """Was it when last measured?"""
    disk_usage: Callable[[str], Any] = shutil.disk_usage
    fenced: set[str] = field(default_factory=set)
    """Containers that this node stopped because it was cut off; their rows are left as they were until it is not."""
    stopping: bool = False
    """The process was told to stop; what is cut off now is found by the next one."""
    usage_changed: Callable[[], None] = lambda: None
    """Told when containers came or went, so that the host's figures follow soon."""
    report_now: Callable[[], Awaitable[None]] = _at_once
    """Writes the whole inventory now; returns when it is written."""
    unseen: set[str] = field(default_factory=set)
    """Containers whose engine had news while an operation worked on them."""
    connected: Callable[[str], Awaitable[None]] = _nothing
    """Returns once a container just started has its interfaces; raises when it cannot have them."""
    ended: Callable[[str], Awaitable[None]] = _nothing
    """Told when a container's process ended."""
    check_interfaces: Callable[[Sequence[Container], set[str]], Awaitable[None]] = _no_check
    """Told by the sync: this host's rows, and what the engine runs."""
    settled: Callable[[str], None] = lambda uuid: None
    """Told when an attempt of an operation on the container is over."""

    @property
    def owner(self) -> str:
        """``<deployment id>/<host>``: an agent never touches what carries another mark."""
        return f"{self.deployment_id}/{self.host}"
