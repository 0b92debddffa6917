"""Bringing members up: one made and started, all regular ones side by side (S2.14), and one started again."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from zun.compute.capsules import facts, spec
from zun.compute.capsules.holdings import engine_of, pull
from zun.compute.holdings import first_fault
from zun.compute.holdings.volumes import attach
from zun.compute.node import Node
from zun.compute.work import Work
from zun.domain.container import Container, Type
from zun.domain.errors import EngineError, EngineNotFound, EngineUnreachable, StartFailed
from zun.domain.observed import Observed
from zun.runtime.pods import MemberSpec
from zun.store import volume_mappings

LOG = logging.getLogger(__name__)

GRACE = 10
"""Seconds that running members are given to end by themselves."""


async def start_all(work: Work) -> dict[str, Observed]:
    """Facts of each regular member after its start; one that runs already is left alone, one that ended too: what
    follows is its policy's. Raises the first fault."""
    regular = [member for member in work.members if member.container_type == Type.MEMBER]
    async with work.journal.step("start"):
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {row.uuid: group.create_task(_start_one(work, row)) for row in regular}
        except ExceptionGroup as faults:
            raise first_fault(faults) from faults
    return {uuid: task.result() for uuid, task in tasks.items()}


async def _start_one(work: Work, row: Container) -> Observed:
    observed = None if work.is_first else await engine_of(work.node).inspect(row.uuid)
    if observed is not None and observed.attempt >= row.restarts and observed.state != "created":
        return observed
    return await make_and_start(work.node, spec_of(work, row))


def spec_of(work: Work, row: Container) -> MemberSpec:
    """From what the capsule's holdings have prepared."""
    prepared = work.prepared
    image = prepared.images[row.uuid].image_id
    return spec.member_spec(work.node, work.row, row, image, prepared.paths, prepared.cpuset)


async def make_and_start(node: Node, wanted: MemberSpec) -> Observed:
    """The member's facts once it was started. Raises StartFailed naming it, EngineNotFound without a sandbox."""
    pods = engine_of(node)
    await pods.create(wanted)
    try:
        await pods.start(wanted.uuid)
    except (EngineUnreachable, EngineNotFound):
        raise
    except EngineError as error:
        raise StartFailed(f"container {wanted.name}: {error.text}") from error
    observed = await pods.inspect(wanted.uuid)
    if observed is None:
        raise EngineNotFound(f"No such container: {wanted.name}")
    return observed


async def stop_adrift(node: Node, uuid: str) -> None:
    """End a member that its engine has lost hold of; what follows is its policy's."""
    LOG.warning("action=stop member=%s reason=the engine has lost hold of it", uuid)
    with contextlib.suppress(EngineNotFound):
        await engine_of(node).stop(uuid, GRACE)


async def start_again(node: Node, capsule: Container, row: Container) -> dict[str, Any]:
    """Columns of a member that was started again by its policy. A start that fails is an end like any other."""
    try:
        wanted = await _spec_again(node, capsule, row)
        try:
            observed = await make_and_start(node, wanted)
        except EngineNotFound:
            box = await engine_of(node).sandbox(capsule.uuid)
            if box is None or not box.ready:
                raise
            try:
                image = await pull(node, row, None, row.uuid)
                observed = await make_and_start(node, dataclasses.replace(wanted, image=image.image_id))
            finally:
                node.image_uses.free(row.uuid)
    except StartFailed as error:
        again = facts.again(row, exit_code=None, ran=0.0, now=node.clock.now())
        if again is None:
            raise
        return again | {"status_reason": f"{error.message} {again['status_reason']}"}
    return facts.values_of(observed, row) | {"restart_at": None}


async def _spec_again(node: Node, capsule: Container, row: Container) -> MemberSpec:
    """The image it was first made from, pulled again where the engine has lost it; its volumes are there again after a
    reboot of the machine, too."""
    async with node.db.read() as connection:
        mappings = {one.uuid: one for one in await volume_mappings.of_container(connection, capsule.uuid)}
    paths = {one["mapping"]: (await attach(node, mappings[one["mapping"]])).source for one in row.volume_mounts or ()}
    return spec.member_spec(node, capsule, row, row.engine_image or row.image, paths, node.floating_cpus)


def updated(work: Work, uuid: str, values: Mapping[str, Any]) -> Container:
    """The member's row with these columns, in the work too."""
    known = [dataclasses.replace(row, **values) if row.uuid == uuid else row for row in work.members]
    work.members = known
    return next(row for row in known if row.uuid == uuid)
