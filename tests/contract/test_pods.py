"""The pods port's contract, on every engine for capsules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.pods_suite import *  # noqa: F403 - the tests of every engine
from tests.support.pods import CriBench, DockerPodsBench, PodsBench, SimulatedPodsBench

ENGINES = [pytest.param(name, marks=pytest.mark.engine) for name in ("cri", "docker")]


@pytest.fixture(params=[*ENGINES, "simulated"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PodsBench]:
    made: PodsBench
    if request.param == "cri":
        made = CriBench(request.getfixturevalue("containerd"))
    elif request.param == "docker":
        made = DockerPodsBench(request.getfixturevalue("engine"), tmp_path)
    else:
        made = SimulatedPodsBench()
    try:
        await made.open()
        yield made
    finally:
        await made.close()
