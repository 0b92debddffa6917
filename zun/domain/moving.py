"""Moves of containers between hosts: which can be moved, when a lost host's may be, and what its record says. Pure.

A move is an operation ``evacuate``. Its ``host`` says who has it: ``NOWHERE`` while a target is chosen, then the host
that is left where that is alive (a drain), then the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from zun.domain.container import Container, Type, VolumeMapping
from zun.domain.lifecycle import Status

NOWHERE = ""
"""``host`` of a move that waits for its target."""

LIVE = frozenset({Status.RUNNING, Status.PAUSED, Status.UNKNOWN, Status.RESTARTING})
"""Statuses of what is started again on the target."""
AT_REST = frozenset({Status.STOPPED, Status.CREATED})
"""Statuses of what a drain makes anew without starting it."""


TARGETS = 3
"""Hosts that a move is tried on before the container is ``Error``."""


@dataclass(frozen=True, slots=True)
class Move:
    """``params`` of the operation. ``run``: started on the target; ``status``: before the move."""

    source: str
    run: bool
    status: str
    drain: bool
    """The source is alive and takes its part down itself."""
    target: str | None = None
    let_go: bool = False
    """Were the volumes taken from a lost source?"""
    healing: bool = True
    """Tried as a healing is: ``[compute]/heal_attempts`` times on a host, whatever went wrong."""
    engine_id: str | None = None
    """Of the engine's container on a lost source, which is the container's again if that returns first."""
    failed: Sequence[str] = ()
    """Hosts that could not make it."""

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Move:
        """As recorded; what a later version may add is passed over."""
        return cls(**{name: params[name] for name in cls.__slots__ if name in params})

    def params(self) -> dict[str, Any]:
        """To be recorded."""
        return asdict(self)


def elsewhere(move: Move, host: str) -> Move:
    """As it goes on after ``host`` could not make the container: for another target."""
    return replace(move, target=None, failed=(*move.failed, host))


def tie(row: Container, mappings: Sequence[VolumeMapping]) -> str | None:
    """What keeps a container on its host whatever its status, as the end of "it …"; None when nothing does."""
    if row.container_type != Type.CONTAINER:
        return "is a capsule, which is not moved"
    if row.auto_remove:
        return "is removed when it is stopped (auto_remove)"
    if row.cpu_policy == "dedicated":
        return "has CPUs of its own (cpu_policy dedicated)"
    local = sorted({str(one.volume_id) for one in mappings if one.kind == "volume" and one.driver == "local"})
    if local:
        return f"has its data on this host (local volume {', '.join(local)})"
    return None


def obstacle(row: Container, mappings: Sequence[VolumeMapping]) -> str | None:
    """Why a container cannot be moved now, as the end of "it …"; None when it can."""
    if tied := tie(row, mappings):
        return tied
    if row.container_id is None or row.status not in LIVE | AT_REST:
        return f"is in status {row.status}"
    return None


def is_evacuated(row: Container, mappings: Sequence[VolumeMapping]) -> bool:
    """Is the container one that runs on when its host is lost?"""
    return row.auto_heal and row.status in LIVE and obstacle(row, mappings) is None


def stays(row: Container, mappings: Sequence[VolumeMapping]) -> bool:
    """Will nobody start the container elsewhere, whatever becomes of its status meanwhile?"""
    return not row.auto_heal or tie(row, mappings) is not None


def promise(conf: Any) -> int | None:
    """Seconds after its last heartbeat when a node that is cut off has stopped what others may start; None where it
    does not do so."""
    section = conf.compute
    if not (section.evacuate_after and section.fence):
        return None
    return int(conf.service_down_time + section.fence_seconds)


def is_surely_lost(service: Mapping[str, Any], now: datetime, after: float) -> bool:
    """Is a host silent for more than ``after`` seconds, and does nothing of it run any more? That is so by its own
    promise, or by the word of an administrator who declared it down. ``service``: its agent's record."""
    heard = service["last_seen_up"]
    if heard is None:
        return False
    silent = (now - heard).total_seconds()
    if silent <= after:
        return False
    return bool(service["forced_down"]) or (service["fenced_after"] is not None and silent > service["fenced_after"])
