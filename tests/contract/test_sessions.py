"""The contract of interactive sessions, on every engine for containers and for capsules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.sessions_suite import *  # noqa: F403 - the tests of every engine
from tests.support.pods import CriBench, DockerPodsBench, PodsBench, SimulatedPodsBench
from tests.support.runtimes import Bench, DockerBench, SimulatedBench
from tests.support.sessions import SessionsBench

ENGINES = [pytest.param(name, marks=pytest.mark.engine) for name in ("docker", "docker-member", "cri")]


@pytest.fixture(params=[*ENGINES, "simulated", "simulated-member"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionsBench]:
    kind: str = request.param
    made: Bench | PodsBench
    if kind == "docker":
        made = DockerBench(request.getfixturevalue("busybox"), request.getfixturevalue("engine"))
    elif kind == "docker-member":
        made = DockerPodsBench(request.getfixturevalue("engine"), tmp_path)
    elif kind == "cri":
        made = CriBench(request.getfixturevalue("containerd"))
    elif kind == "simulated":
        made = SimulatedBench("busybox:latest")
    else:
        made = SimulatedPodsBench()
    try:
        if isinstance(made, PodsBench):
            await made.open()
        else:
            await made.runtime.connect()
        yield SessionsBench(made, real=not kind.startswith("simulated"))
    finally:
        await made.close()
