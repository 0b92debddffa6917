"""Sessions and relay on uvloop, the product's own loop: it reads more at once than asyncio's, and its transports are
others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path

import pytest
import uvloop

from tests.support.containerd import Containerd
from tests.support.engine import Engine
from tests.support.pods import CriBench
from tests.support.relay import relay_bench
from tests.support.runtimes import DockerBench
from tests.support.sessions import SessionsBench, digest, long_sleep, noise, processes
from tests.support.wait import eventually

SIZE = 8 << 20


def run(work: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


async def through_the_relay(bench: SessionsBench, folder: Path) -> None:
    """Noise both ways with a half-close, a terminal, and a client that vanishes while its program reads nothing."""
    uuid, sent = await bench.running(), noise(SIZE)
    async with relay_bench(bench, folder) as node:
        async with node.proxy(await node.exec_row(uuid, "cat")) as proxy:

            async def give() -> None:
                for at in range(0, SIZE, 65536):
                    await proxy.send(sent[at : at + 65536])
                await proxy.eof()

            giving = asyncio.create_task(give())
            assert digest(await proxy.rest()) == digest(sent)
            await giving
        assert (proxy.exit, proxy.closed[0]) == (0, 1000)
        async with node.proxy(await node.exec_row(uuid, "sh", tty=True)) as proxy:
            await proxy.until(b"# ")
            await proxy.resize(43, 132)
            await proxy.send(b"stty size; exit 3\n")
            assert b"43 132" in await proxy.rest()
        assert proxy.exit == 3
        program = long_sleep()
        row = await node.exec_row(uuid, *program)
        async with node.proxy(row) as proxy:
            await eventually(lambda: processes(program), 60, "the command runs")
            stuck = asyncio.create_task(_flood(proxy.connection))
            await asyncio.wait({stuck}, timeout=2)
            stuck.cancel()
            await asyncio.gather(stuck, return_exceptions=True)
            proxy.vanish()
        await eventually(lambda: not processes(program), 60, "the command is gone")
        await eventually(lambda: node.relay.open_sessions == 0, 60, "no session is left open")


async def _flood(connection: object) -> None:
    while True:
        await connection.send(bytes(65536))  # type: ignore[attr-defined]


def test_docker(busybox: str, engine: Engine, tmp_path: Path) -> None:
    async def work() -> None:
        made = DockerBench(busybox, engine)
        try:
            await made.runtime.connect()
            await through_the_relay(SessionsBench(made, real=True), tmp_path)
        finally:
            await made.close()

    run(work())


@pytest.mark.timeout(200)
def test_containerd(containerd: Containerd, tmp_path: Path) -> None:
    async def work() -> None:
        made = CriBench(containerd)
        try:
            await made.open()
            await through_the_relay(SessionsBench(made, real=True), tmp_path)
        finally:
            await made.close()

    run(work())
