"""``?fault=true``: the member ``fault`` beside those of the contract, null unless the status is ``Error``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from zun.api import paging
from zun.api.call import Call
from zun.api.schemas import TEXT, TEXT_OR_NULL, obj
from zun.api.views import row_time
from zun.domain.container import Container, Type
from zun.domain.fault import Row, fault_of
from zun.domain.lifecycle import Status
from zun.store import container_faults

PARAMETER = "fault"
MEMBER = "fault"
SCHEMA: dict[str, Any] = {
    "anyOf": [
        obj({"code": TEXT, "message": TEXT, "step": TEXT_OR_NULL, "when": TEXT_OR_NULL, "next": TEXT}),
        {"type": "null"},
    ]
}


def wanted(call: Call) -> bool:
    """Raises InvalidValue for what is no boolean."""
    return paging.free_boolean(call, PARAMETER)


async def add(call: Call, shown: Sequence[dict[str, Any]], rows: Sequence[Row | None]) -> None:
    """Give each answer its ``fault``; ``rows`` beside them, None for what is not in ``Error``."""
    uuids = [row.uuid for row in rows if row is not None]
    failures, unfinished = {}, {}
    if uuids:
        async with call.control.db.read() as connection:
            failures = dict(await container_faults.failures(connection, uuids))
            unfinished = dict(await container_faults.unfinished(connection, uuids))
    for one, row in zip(shown, rows, strict=True):
        one[MEMBER] = None
        if row is not None:
            fault = fault_of(row, failures.get(row.uuid), unfinished.get(row.uuid, ()))
            when = row_time(fault.when) if isinstance(fault.when, datetime) else fault.when
            message = fault.message if "status_reason" in one else ""  # hidden by a rule, it is hidden here too
            one[MEMBER] = {"code": fault.code, "message": message, "step": fault.step, "when": when,
                           "next": fault.next}  # fmt: skip


def of_container(row: Container) -> Row | None:
    """None unless it is in ``Error``."""
    if row.status != Status.ERROR:
        return None
    changed = row_time(row.updated_at or row.created_at)
    made = row.container_id is not None
    return Row(row.uuid, row.container_type, row.status_reason, changed, made, row.auto_heal, row.restart_at)


def of_listed(row: Mapping[str, Any]) -> Row | None:
    """The same of a row of a list of containers."""
    if row["status"] != Status.ERROR:
        return None
    changed = str(row["updated_at"] or row["created_at"])
    made = row["container_id"] is not None
    return Row(row["uuid"], Type.CONTAINER, row["status_reason"], changed, made, bool(row["auto_heal"]))


def host_down(shown: dict[str, Any]) -> None:
    """Of one whose host is down: nothing happens before that is back."""
    if shown.get(MEMBER):
        shown[MEMBER]["next"] = "Nothing until its host is back, except that you can delete it."
