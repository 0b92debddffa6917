"""The product, with a trap: it kills itself (SIGKILL) at one named point.  ZUN_KILL_AT=<kind>:<point>  zun arguments…

Points of an operation are its steps (``before:<step>``, ``after:<step>``), ``claimed`` (the node took the operation),
``before:end`` and ``after:end`` (the transaction that ends it); of the API: ``scheduled`` (allocation taken, nothing
written) and ``recorded`` (row and operation written, nobody told); of a resize ``before:engine`` and ``after:engine``
(kind ``update``). The trap goes off once: it leaves a mark beside. The first argument may be ``zun-api`` or
``zun-compute``.

With ZUN_KILL_ORDER=<file> it is another process that is killed, at the point and of the number that the file has:
``<kind>:<point> <pid>``. The file goes when that is done.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

KIND, _, POINT = os.environ.get("ZUN_KILL_AT", ":").partition(":")
MARK = Path(os.environ.get("ZUN_KILL_MARK", "/nonexistent"))
INTERRUPTED_SECONDS = 5
"""After which a request whose process died is taken for that, instead of 120."""
ORDER = Path(os.environ.get("ZUN_KILL_ORDER", "/nonexistent"))


def trap(kind: str, point: str) -> None:
    """Die here if this is the point asked for and the trap has not gone off before."""
    if (kind, point) == (KIND, POINT) and not MARK.exists():
        MARK.write_text(f"{kind}:{point}\n")
        os.kill(os.getpid(), signal.SIGKILL)
    if ORDER.exists():
        wanted, pid = ORDER.read_text().split()
        if wanted == f"{kind}:{point}":
            os.kill(int(pid), signal.SIGKILL)
            ORDER.unlink()


def arm() -> None:
    """Wrap the product's own functions; nothing of this is in the product."""
    from zun.compute import ending, worker
    from zun.compute.journal import Journal
    from zun.store import operations
    from zun.store.database import Database

    step, write, claim = Journal.step, ending.write, operations.claim
    kinds: dict[int, str] = {}

    async def trapped_claim(connection: Any, operation_id: int, **named: Any) -> Any:
        operation = await claim(connection, operation_id, **named)
        if operation is not None:
            kinds[operation_id] = operation.kind
        return operation

    @asynccontextmanager
    async def trapped_step(self: Journal, name: str) -> AsyncIterator[Callable[..., None]]:
        kind = kinds.get(self._operation_id, "")
        trap(kind, f"before:{name}")
        async with step(self, name) as progress:
            yield progress
        trap(kind, f"after:{name}")

    async def trapped_write(work: Any, outcome: Any) -> None:
        trap(work.operation.kind, "before:end")
        await write(work, outcome)
        trap(work.operation.kind, "after:end")

    carry_out = worker.Worker._carry_out

    async def trapped_carry_out(self: worker.Worker, work: Any) -> Any:
        trap(work.operation.kind, "claimed")
        return await carry_out(self, work)

    insert = operations.insert
    announced: list[str] = []

    async def trapped_insert(connection: Any, **named: Any) -> int:
        announced.append(str(named["kind"]))
        trap(str(named["kind"]), "scheduled")
        return await insert(connection, **named)

    database_write = Database.write

    @asynccontextmanager
    async def trapped_transaction(self: Database) -> AsyncIterator[Any]:
        async with database_write(self) as connection:
            yield connection
        while announced:
            trap(announced.pop(), "recorded")

    _arm_resize()
    operations.claim = trapped_claim
    operations.insert = trapped_insert
    Journal.step = trapped_step  # type: ignore[method-assign]
    ending.write = trapped_write
    worker.Worker._carry_out = trapped_carry_out  # type: ignore[method-assign]
    Database.write = trapped_transaction  # type: ignore[method-assign]


def _arm_resize() -> None:
    from zun.control import container_exclusive
    from zun.runtime.docker import DockerRuntime

    container_exclusive.LONGEST = timedelta(seconds=INTERRUPTED_SECONDS)
    update = DockerRuntime.update

    async def trapped_update(self: DockerRuntime, uuid: str, **limits: Any) -> None:
        trap("update", "before:engine")
        await update(self, uuid, **limits)
        trap("update", "after:engine")

    DockerRuntime.update = trapped_update  # type: ignore[method-assign]


if __name__ == "__main__":
    arm()
    if sys.argv[1] in ("zun-api", "zun-compute"):
        from zun.cli import services

        program, sys.argv = sys.argv[1], sys.argv[1:]
        {"zun-api": services.api, "zun-compute": services.compute}[program]()
    else:
        from zun.cli.main import main

        sys.argv[0] = "zun"
        main()
