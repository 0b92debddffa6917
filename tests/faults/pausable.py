"""zun-api or zun-compute that a test can hold at a named point: ``python -m tests.faults.pausable <program> …``

A file ``<point>`` in ZUN_HOLD_FOLDER holds whoever comes there; ``<point>.met`` tells that somebody did; once the first
is removed all go on. Points: before a create is placed (``api:place``) or recorded (``api:record``), before a delete
(``api:delete``); of an operation on the node ``<kind>:claim``, ``<kind>:before:<step>`` and ``<kind>:before:end``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("ZUN_HOLD_FOLDER", "/nonexistent"))
DATABASE_SECONDS = 3.0
"""For which a database that hangs is waited for, instead of 30."""
STOP_SECONDS = 1
"""Grace of the stop before a delete, instead of 10: a process that has just begun may not hear TERM yet."""
STORAGE_SECONDS = 8.0
"""For which Cinder may ask its storage, instead of 120."""
PLUGGING_SECONDS = 12.0
"""What Kuryr may add to a call of the engine, instead of 120."""


async def pass_by(point: str) -> None:
    """Wait here while a test wants it."""
    held = FOLDER / point
    if held.exists():
        (FOLDER / f"{point}.met").touch()
    while held.exists():  # noqa: ASYNC110 - another process removes it
        await asyncio.sleep(0.02)


def arm() -> None:
    """Wrap the product's own functions; nothing of this is in the product."""
    from zun import parts
    from zun.control import containers_delete
    from zun.openstack import auth
    from zun.store import steady
    from zun.volume import cinder_api

    cinder_api.DRIVER_SECONDS = STORAGE_SECONDS
    steady.ANSWER_WITHIN = DATABASE_SECONDS
    containers_delete.STOP_SECONDS = STOP_SECONDS
    parts._PLUGGING = PLUGGING_SECONDS
    auth._NEW = 0.0  # a token that a service refuses is renewed, however young
    _arm_api()
    _arm_node()


def _arm_api() -> None:
    from zun.control import containers_create, containers_delete

    for module, name, point in (
        (containers_create, "place", "api:place"),
        (containers_create, "_record_placed", "api:record"),
        (containers_delete, "delete", "api:delete"),
    ):
        setattr(module, name, _held(getattr(module, name), point))


def _held(function: Callable[..., Any], point: str) -> Callable[..., Any]:
    async def held(*arguments: Any, **named: Any) -> Any:
        await pass_by(point)
        return await function(*arguments, **named)

    return held


def _arm_node() -> None:
    from zun.compute import ending
    from zun.compute.journal import Journal
    from zun.compute.worker import Worker
    from zun.store import operations

    work, claim, step, write = Worker._work, operations.claim, Journal.step, ending.write
    kinds: dict[int, str] = {}

    async def held_work(self: Worker, operation: Any) -> None:
        await pass_by(f"{operation.kind}:claim")
        await work(self, operation)

    async def noted_claim(connection: Any, operation_id: int, **named: Any) -> Any:
        operation = await claim(connection, operation_id, **named)
        if operation is not None:
            kinds[operation_id] = operation.kind
        return operation

    @asynccontextmanager
    async def held_step(self: Journal, name: str) -> AsyncIterator[Callable[..., None]]:
        await pass_by(f"{kinds.get(self._operation_id, '')}:before:{name}")
        async with step(self, name) as progress:
            yield progress

    async def held_write(work: Any, outcome: Any) -> None:
        await pass_by(f"{work.operation.kind}:before:end")
        await write(work, outcome)

    Worker._work = held_work  # type: ignore[method-assign]
    operations.claim = noted_claim
    Journal.step = held_step  # type: ignore[method-assign]
    ending.write = held_write


if __name__ == "__main__":
    program, sys.argv = sys.argv[1], sys.argv[1:]
    arm()
    from zun.cli import services

    {"zun-api": services.api, "zun-compute": services.compute}[program]()
