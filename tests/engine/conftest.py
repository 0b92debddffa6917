"""Fixtures of the tests that look at Docker itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.engine import Engine
from tests.support.runtimes import DockerBench


@pytest.fixture
async def docker(busybox: str, engine: Engine) -> AsyncIterator[DockerBench]:
    """The Docker runtime; afterwards nothing of the test is left in the engine."""
    bench = DockerBench(busybox, engine)
    try:
        yield bench
    finally:
        await bench.close()
