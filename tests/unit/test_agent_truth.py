"""Chance against the product: random verbs, faults, deaths and hands behind its back; after each run the truth holds:
no leak, no double, no lie."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from zun.domain.errors import EngineConflict, EngineError, EngineUnreachable

VERBS = ("start", "stop", "kill", "pause", "unpause", "reboot", "rebuild")
FAULTS = (EngineError("odd"), EngineUnreachable("away"), EngineConflict("busy"))
METHODS = (*VERBS[:6], "create", "remove", "inspect", "pull", "image", "list")


async def step(cloud: SimulatedCloud, chance: random.Random, uuids: list[str]) -> None:
    """One random thing."""
    roll = chance.random()
    if roll < 0.2 or not uuids:
        uuids.append(
            await cloud.create(run=chance.random() < 0.8, auto_heal=chance.random() < 0.3, name=f"c{len(uuids)}-x")
        )
    elif roll < 0.6:
        answer = await cloud.http.post(f"/v1/containers/{chance.choice(uuids)}/{chance.choice(VERBS)}")
        assert answer.status_code in (202, 404, 409), answer.text
    elif roll < 0.72:
        query = chance.choice([{"force": "true"}, {"stop": "true"}, {}])
        answer = await cloud.http.delete(f"/v1/containers/{chance.choice(uuids)}", params=query)
        assert answer.status_code in (204, 404, 409), answer.text
    elif roll < 0.82:
        cloud.runtime.fail_next(
            chance.choice(METHODS), chance.choice(FAULTS), times=chance.randint(1, 3), after=chance.random() < 0.3
        )
    elif roll < 0.92:
        await behind_its_back(cloud, chance)
    elif roll < 0.96:
        cloud.runtime.cut_events()
    else:
        await cloud.die()
        await cloud.live()
    if chance.random() < 0.5:
        await asyncio.sleep(chance.random() * 0.05)


async def behind_its_back(cloud: SimulatedCloud, chance: random.Random) -> None:
    """Somebody with access to the engine does something to one of the containers."""
    running = [uuid for uuid, sim in cloud.runtime._containers.items() if sim.state == "running"]
    if not running:
        return
    uuid = chance.choice(running)
    if chance.random() < 0.5:
        cloud.runtime.crash(uuid, chance.choice([0, 1, 137]))
    else:
        cloud.runtime.vanish(uuid)


@pytest.mark.parametrize("seed", range(8))
async def test_the_truth_holds_after_any_sequence(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    async with simulated_cloud(tmp_path, quota__containers=-1, quota__cpu=-1) as cloud:
        uuids: list[str] = []
        for _ in range(60):
            await step(cloud, chance, uuids)
        cloud.runtime.faults._planned.clear()
        await cloud.truth()
