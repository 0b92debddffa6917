"""The runtimes that the contract is checked on; modules on other ports have a ``bench`` of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.runtimes import Bench, DockerBench, SimulatedBench


@pytest.fixture(params=[pytest.param("docker", marks=pytest.mark.engine), "simulated"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    made: Bench
    if request.param == "docker":
        made = DockerBench(request.getfixturevalue("busybox"), request.getfixturevalue("engine"))
    else:
        made = SimulatedBench("busybox:latest")
    try:
        await made.runtime.connect()
        yield made
    finally:
        await made.close()
