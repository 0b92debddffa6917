"""One request at a time may place or resize a container: both talk to outside systems between two transactions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from zun.control.base import Control
from zun.control.container_record import Asked
from zun.domain.container import Container
from zun.domain.errors import Conflict
from zun.store import leases

LONGEST = timedelta(seconds=120)
"""After this another request may try, should the first one's process have died."""
PREFIX = "place:"
"""Of the lease's name; the container's uuid follows."""


@dataclass(slots=True)
class Turn:
    """``unsure``: what the request began outside may be done or not; it is set right soon
    (``containers_interrupted``)."""

    unsure: bool = False


def changing(container: Container) -> Conflict:
    """For a row that never stood still."""
    return Conflict(f"Container {container.uuid} is being changed by other requests; try again.")


@asynccontextmanager
async def exclusive(control: Control, asked: Asked, container: Container) -> AsyncIterator[Turn]:
    """Hold the container for the block. Raises Conflict while another request does."""
    name, owner, turn = f"{PREFIX}{container.uuid}", asked.request_id[:64], Turn()
    mine = await control.db.run(
        lambda connection: leases.acquire(connection, name, owner, control.clock.now(), LONGEST)
    )
    if not mine:
        raise changing(container)
    try:
        yield turn
    finally:
        async with control.db.write() as connection:
            if turn.unsure:
                await leases.end(connection, name, owner, control.clock.now())
            else:
                await leases.release(connection, name, owner)
