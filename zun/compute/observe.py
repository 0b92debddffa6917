"""From engine facts to the columns that show them. Pure; used by operations, watcher and sync alike."""

from __future__ import annotations

from typing import Any

from zun.domain.container import Container
from zun.domain.lifecycle import Status, read_engine
from zun.domain.observed import Attachment, Observed
from zun.domain.operation import Kind


def values_of(observed: Observed, row: Container) -> dict[str, Any]:
    """Columns that follow the engine: status, detail, ids, ports, and what the image filled in."""
    reading = read_engine(observed, row.status)
    values: dict[str, Any] = {
        "status": str(reading.status),
        "status_detail": reading.detail,
        "container_id": observed.engine_id,
        "started_at": observed.started_at,
        "ports": sorted(observed.ports),
    }
    if reading.reason:
        values["status_reason"] = reading.reason
    if observed.oom_killed and reading.status == Status.STOPPED:
        values["status_reason"] = "The container was ended because it ran out of memory."
    if not row.command and observed.command:
        values["command"] = list(observed.command)
    if not row.entrypoint and observed.entrypoint:
        values["entrypoint"] = list(observed.entrypoint)
    if not row.hostname and observed.hostname:
        values["hostname"] = observed.hostname
    return values


def changed(row: Container, values: dict[str, Any]) -> dict[str, Any]:
    """Only what differs from the row."""
    return {name: value for name, value in values.items() if _plain(getattr(row, name)) != _plain(value)}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def addresses_of(attachments: tuple[Attachment, ...] | list[Attachment]) -> dict[str, list[dict[str, Any]]]:
    """``addresses`` as the API shows them: network id -> list of items, in the order of the interfaces."""
    shown: dict[str, list[dict[str, Any]]] = {}
    for item in attachments:
        shown.setdefault(item.network_id, []).append(
            {
                "addr": item.address,
                "version": item.version,
                "port": item.port_id,
                "subnet_id": item.subnet_id,
                "preserve_on_delete": item.preserve_on_delete,
            }
        )
    return shown


def ends_by_itself(row: Container, status: str) -> str | None:
    """The operation that follows when a container with ``auto_remove`` has ended, else None (S5.6)."""
    return Kind.DELETE if row.auto_remove and status in (Status.STOPPED, Status.DEAD) else None
