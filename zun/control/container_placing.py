"""From a container's row to the scheduler's question."""

from __future__ import annotations

from collections.abc import Collection

from zun.control.base import Control
from zun.domain.container import Container, Type
from zun.domain.resources import Amounts
from zun.scheduler.filters import Wanted
from zun.scheduler.scheduler import Selection, Tools, select
from zun.store import pinned_cpus


async def give_back(control: Control, uuid: str) -> None:
    """What ``place`` took; nothing held is success. A database that does not answer keeps no claim in Placement."""
    try:
        async with control.db.write() as connection:
            await pinned_cpus.unpin(connection, uuid)
    finally:
        await control.placement.release(uuid)


async def place(
    control: Tools,
    container: Container,
    host: str | None = None,
    *,
    leaves: str | None = None,
    avoids: Collection[str] = (),
) -> Selection:
    """Choose and claim a host; what is claimed of the one that it ``leaves``, or of one that it ``avoids``, is given
    back with that. Raises NoValidHost, or PlacementUnavailable when it cannot be told."""
    return await select(
        control,
        Wanted(
            consumer=container.uuid,
            project_id=container.project_id,
            user_id=container.user_id,
            amounts=Amounts(container.cpu, container.memory, container.disk),
            zone=container.availability_zone or control.conf.default_schedule_zone,
            runtime=container.runtime,
            host=host,
            cpu_policy=container.cpu_policy,
            hints=container.hints or {},
            capsule=container.container_type == Type.CAPSULE,
            leaves=leaves,
            avoids=frozenset(avoids),
        ),
    )
