"""From an engine's facts of one member to the columns that show them, and when it is to be started again. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from zun.compute import observe
from zun.domain import restarts
from zun.domain.container import Container
from zun.domain.lifecycle import Status
from zun.domain.observed import Observed

ENDED = frozenset({"exited", "dead"})


def values_of(observed: Observed, row: Container) -> dict[str, Any]:
    """Columns that follow the engine. An exit code is shown of one that ended, and kept while it runs again."""
    values = observe.values_of(observed, row) | {"ports": ports_of(row)}
    values.setdefault("status_reason", None)
    if observed.state in ENDED:
        values["exit_code"] = observed.exit_code
    return values


def ports_of(row: Container) -> list[int]:
    """Numbers of the ports that the template names."""
    return sorted({int(port.partition("/")[0]) for port in row.exposed_ports or ()})


def has_ended(observed: Observed) -> bool:
    """Did its process end? What could not be started has ended, too."""
    return observed.state in ENDED


def is_adrift(observed: Observed) -> bool:
    """Could its engine, killed and back again, not take hold of it? It says so for ever: nothing can be done with such
    a one but to stop it, and its end is as good as any."""
    return observed.state == "unknown"


def ran_for(observed: Observed) -> float:
    """Seconds."""
    if observed.started_at is None or observed.finished_at is None:
        return 0.0
    return (observed.finished_at - observed.started_at).total_seconds()


def again(row: Container, *, exit_code: int | None, ran: float, now: datetime) -> dict[str, Any] | None:
    """Columns of one that is to be started again, and when; None when its policy says no (S2.14)."""
    wait = restarts.after_end(
        row.restart_policy, exit_code=exit_code, restarts=row.restarts, back_off=row.back_off, ran=ran
    )
    if wait is None:
        return None
    at = now + timedelta(seconds=wait)
    return {
        "restarts": row.restarts + 1,
        "back_off": wait,
        "restart_at": at,
        "status_reason": f"Start {row.restarts + 1} by its restart policy at {at:%Y-%m-%d %H:%M:%S} UTC"
        f" (waits {wait} seconds).",
    }


def then(values: dict[str, Any], again: dict[str, Any]) -> dict[str, Any]:
    """Columns of one that ended and is to be started again: why it ended is told, too."""
    told = " ".join(filter(None, (values.get("status_reason"), again["status_reason"])))
    return values | again | {"status_reason": told}


def lost(row: Container, engine: str) -> dict[str, Any]:
    """Columns of one that the engine, answering, does not have."""
    return {
        "status": Status.ERROR,
        "status_detail": None,
        "status_reason": f"No such container: {row.container_id or row.uuid} in {engine}",
        "restart_at": None,
    }
