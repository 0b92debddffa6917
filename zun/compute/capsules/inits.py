"""Init containers: one after the other, each to its end before anything else of the capsule starts (S2.13)."""

from __future__ import annotations

from typing import Any

from zun.compute.capsules import facts, members
from zun.compute.capsules.holdings import engine_of
from zun.compute.work import Work
from zun.domain.container import Container, Type
from zun.domain.errors import EngineError, InitContainerFailed
from zun.domain.lifecycle import Status
from zun.domain.observed import Observed
from zun.store import containers

RELIST = 5.0
"""Seconds after which a running one is looked at though no event told of it."""
LAST_WORDS = 400
"""Characters of its log that the reason of a failure ends with."""


async def run_all(work: Work) -> None:
    """Raises InitContainerFailed naming the one that failed for good and its exit code, or the time they took."""
    clock = work.node.clock
    seconds = float(work.node.conf.compute.capsule_init_timeout)
    until = clock.monotonic() + seconds
    inits = [member for member in work.members if member.container_type == Type.INIT]
    for number, row in enumerate(inits, 1):
        async with work.journal.step(f"init_{number}"):
            await _run_one(work, row, until, f"did not end within the {seconds:g} seconds that init containers have")


async def _run_one(work: Work, row: Container, until: float, too_long: str) -> None:
    """Safe to run again: what the engine has of it is waited for, what has ended well is done."""
    node = work.node
    while True:
        observed = await _started(work, row)
        row = await _store(work, row, facts.values_of(observed, row) | _engine_image(work, row))
        async with work.aside():
            observed = await _end_of(work, row, observed, until, too_long)
        values = facts.values_of(observed, row) | {"restart_at": None}
        code = observed.exit_code
        if code == 0:
            await _store(work, row, values)
            return
        again = facts.again(row, exit_code=code, ran=facts.ran_for(observed), now=node.clock.now())
        if again is None:
            reason = f"ended with exit code {code}" + await _last_words(work, row)
            await _store(work, row, values | {"status": Status.ERROR, "status_reason": f"It {reason}"})
            tries = f" (after {row.restarts + 1} tries)" if row.restarts else ""
            raise InitContainerFailed(f"Init container {row.name} {reason}{tries}")
        row = await _store(work, row, facts.then(values, again))
        async with work.aside():
            await _sleep(work, row, float(again["back_off"]), until, too_long)


async def _started(work: Work, row: Container) -> Observed:
    """The present attempt, running or ended."""
    observed = await engine_of(work.node).inspect(row.uuid)
    if observed is not None and observed.attempt >= row.restarts and observed.state != "created":
        return observed
    return await members.make_and_start(work.node, members.spec_of(work, row))


async def _end_of(work: Work, row: Container, observed: Observed, until: float, too_long: str) -> Observed:
    """Its facts once it ended: told by events, found by looking now and then."""
    node, pods = work.node, engine_of(work.node)
    with node.news.expect(row.uuid) as expected:
        while not facts.has_ended(observed):
            left = until - node.clock.monotonic()
            if left <= 0:
                raise InitContainerFailed(f"Init container {row.name} {too_long}")
            if facts.is_adrift(observed):
                await members.stop_adrift(node, row.uuid)
            await expected.within(min(RELIST, left))
            found = await pods.inspect(row.uuid)
            if found is None:
                raise InitContainerFailed(f"Init container {row.name} was removed from {pods.name} while it ran")
            observed = found
    return observed


async def _sleep(work: Work, row: Container, seconds: float, until: float, too_long: str) -> None:
    if work.node.clock.monotonic() + seconds > until:
        raise InitContainerFailed(f"Init container {row.name} {too_long}")
    if seconds:
        await work.node.clock.sleep(seconds)


async def _store(work: Work, row: Container, values: dict[str, Any]) -> Container:
    node = work.node
    async with node.db.write() as connection:
        await containers.update(connection, row.uuid, {"host": (node.host,)}, values, node.clock.now())
    return members.updated(work, row.uuid, values)


def _engine_image(work: Work, row: Container) -> dict[str, Any]:
    return {"engine_image": work.prepared.images[row.uuid].image_id}


async def _last_words(work: Work, row: Container) -> str:
    """The end of its log: with the capsule it is gone."""
    try:
        text = await engine_of(work.node).logs(row.uuid, stdout=True, stderr=True, timestamps=False, tail=5, since=None)
    except EngineError:
        return ""
    said = " ".join(text.split())[-LAST_WORDS:]
    return f": {said}" if said else ""
