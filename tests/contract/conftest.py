"""The runtimes that the contract is checked on; modules on other ports have a ``bench`` of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.runtimes import Bench, DockerBench, SimulatedBench
from tests.support.walk import World
from tests.support.walk import world as made_world


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


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The product that the routes of the contract are walked on; one for all walks."""
    with made_world(tmp_path_factory.mktemp("walk") / "zun") as made:
        yield made
