"""Fixtures of the tests that look at Docker itself."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.containerd import Containerd
from tests.support.engine import Engine
from tests.support.namespaces import Namespace, run
from tests.support.pods import CriBench
from tests.support.runtimes import DockerBench


@pytest.fixture
async def docker(busybox: str, engine: Engine) -> AsyncIterator[DockerBench]:
    """The Docker runtime; afterwards nothing of the test is left in the engine."""
    bench = DockerBench(busybox, engine)
    try:
        yield bench
    finally:
        await bench.close()


@pytest.fixture
async def cri(containerd: Containerd) -> AsyncIterator[CriBench]:
    """Capsules on a containerd of our own; afterwards nothing of the test is left of it on the machine."""
    bench = CriBench(containerd)
    try:
        await bench.open()
        yield bench
    finally:
        await bench.close()


@pytest.fixture
def bridge() -> Iterator[str]:
    """The name of one that the test makes."""
    name = f"brt{uuid.uuid4().hex[:8]}"
    passes = ("-i", name, "-o", name, "-j", "ACCEPT")
    for program in ("iptables", "ip6tables"):  # where Docker made the host a router, bridged packets pass its rules
        run(program, "-w", "20", "-I", "FORWARD", *passes)
    yield name
    for program in ("iptables", "ip6tables"):
        run(program, "-w", "20", "-D", "FORWARD", *passes)
    run("ip", "link", "del", name, check=False)


@pytest.fixture
def namespaces() -> Iterator[list[Namespace]]:
    """Two."""
    found = [Namespace(), Namespace()]
    yield found
    for namespace in found:
        namespace.close()
