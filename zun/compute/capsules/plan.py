"""What a look at a capsule means: a pure function from its rows and its engine's facts to what is written and done.

A member whose engine container is of an earlier attempt than its row says waits to be started again. How the ends of
members reflect on their capsule: docs/howto/capsules.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from zun.compute.capsules import facts
from zun.domain.container import Container, Type
from zun.domain.lifecycle import Status
from zun.domain.observed import Observed
from zun.runtime.pods import Sandbox

SANDBOX_GONE = "The sandbox of the capsule is gone"
ALL_ENDED = "All containers of the capsule have ended."


@dataclass(slots=True)
class Plan:
    """``capsule`` and ``members`` (by uuid) are columns to write, of those that change; ``due`` members are to be
    started now, the next one at ``next_at``; ``adrift`` ones are to be stopped, since the engine knows no more of them;
    ``heal``: the capsule is to be made anew."""

    capsule: dict[str, Any] = field(default_factory=dict)
    members: dict[str, dict[str, Any]] = field(default_factory=dict)
    due: list[str] = field(default_factory=list)
    adrift: list[str] = field(default_factory=list)
    next_at: datetime | None = None
    heal: bool = False


def decide(
    capsule: Container,
    members: Sequence[Container],
    sandbox: Sandbox | None,
    seen: Mapping[str, Observed | None],
    *,
    engine: str,
    now: datetime,
) -> Plan:
    """``seen`` has the facts of each regular member; None where the engine does not have it."""
    regular = [member for member in members if member.container_type == Type.MEMBER]
    if sandbox is None or not sandbox.ready:
        return _without_sandbox(capsule, regular, seen, engine=engine, there=sandbox is not None)
    plan = Plan()
    ends: list[tuple[Container, dict[str, Any]]] = []
    for row in regular:
        observed = seen.get(row.uuid)
        if observed is not None and facts.is_adrift(observed):
            plan.adrift.append(row.uuid)
        values = _member(row, observed, engine=engine, now=now)
        restart_at = values.get("restart_at", row.restart_at)
        if restart_at is not None:
            if restart_at <= now:
                plan.due.append(row.uuid)
            elif plan.next_at is None or restart_at < plan.next_at:
                plan.next_at = restart_at
        if differing := _changed(row, values):
            plan.members[row.uuid] = differing
        ends.append((row, values))
    plan.capsule = _changed(capsule, _status_of(ends))
    return plan


def _without_sandbox(
    capsule: Container, regular: Sequence[Container], seen: Mapping[str, Observed | None], *, engine: str, there: bool
) -> Plan:
    """Members that run on without it are told as they are, though nothing new can start beside them."""
    heal = (capsule.restart_policy or {}).get("Name") == "always"
    reason = f"{SANDBOX_GONE} from {engine}." if not there else f"{SANDBOX_GONE}: its process in {engine} has ended."
    plan = Plan(heal=heal)
    for row in regular:
        observed = seen.get(row.uuid)
        values = facts.lost(row, engine) if observed is None else facts.values_of(observed, row) | {"restart_at": None}
        if differing := _changed(row, values):
            plan.members[row.uuid] = differing
    if not heal:
        plan.capsule = _changed(capsule, {"status": Status.ERROR, "status_reason": reason})
    return plan


def _member(row: Container, observed: Observed | None, *, engine: str, now: datetime) -> dict[str, Any]:
    if observed is not None and observed.attempt < row.restarts:
        return {"restart_at": row.restart_at or now}  # decided before; its end is shown until it is started again
    if observed is None:
        if row.restart_at is not None:
            return {}
        values = facts.lost(row, engine)
        again = facts.again(row, exit_code=None, ran=0.0, now=now)
        return facts.then(values | {"status": Status.STOPPED}, again) if again is not None else values
    values = facts.values_of(observed, row) | {"restart_at": None}
    if observed.state == "created" and row.container_id is not None:
        return values | {"restart_at": now}  # a start that was cut off
    if facts.has_ended(observed):
        again = facts.again(row, exit_code=observed.exit_code, ran=facts.ran_for(observed), now=now)
        return facts.then(values, again) if again is not None else values
    return values


def _status_of(ends: Sequence[tuple[Container, Mapping[str, Any]]]) -> dict[str, Any]:
    """The capsule runs while one of its containers runs or is to run again. When all have ended for good it is
    ``Stopped``, or ``Error`` when one of them failed."""
    failed: str | None = None
    for row, values in ends:
        status = values.get("status", row.status)
        if values.get("restart_at", row.restart_at) is not None or status not in (Status.STOPPED, Status.ERROR):
            return {"status": Status.RUNNING, "status_reason": None}
        code = values.get("exit_code", row.exit_code)
        if failed is None and (status == Status.ERROR or code):
            told = values.get("status_reason", row.status_reason) if status == Status.ERROR else f"exit code {code}"
            failed = f"Container {row.name} ended: {told}"
    if failed is not None:
        return {"status": Status.ERROR, "status_reason": failed}
    return {"status": Status.STOPPED, "status_reason": ALL_ENDED}


def _changed(row: Container, values: Mapping[str, Any]) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value

    return {name: value for name, value in values.items() if plain(getattr(row, name)) != plain(value)}
