"""The relay of a node, on every engine: what passes it, and how sessions end there (S4.8)."""

from __future__ import annotations

import asyncio
import functools
import gc
import hashlib
import socket
import tracemalloc
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from tests.support.engine import Engine
from tests.support.pods import CriBench, DockerPodsBench, SimulatedPodsBench
from tests.support.relay import HOST, Proxy, RelayBench, relay_bench
from tests.support.runtimes import DockerBench, SimulatedBench
from tests.support.sessions import SessionsBench, long_sleep, noise, processes
from tests.support.wait import eventually
from zun.domain.session import Session
from zun.store import sessions

MIB = 1 << 20


@pytest.fixture(params=["docker", "cri", "simulated"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionsBench]:
    made: DockerBench | CriBench | SimulatedBench
    if request.param == "docker":
        made = DockerBench(request.getfixturevalue("busybox"), request.getfixturevalue("engine"))
    elif request.param == "cri":
        made = CriBench(request.getfixturevalue("containerd"))
        await made.open()
    else:
        made = SimulatedBench("busybox:latest")
    try:
        yield SessionsBench(made, real=request.param != "simulated")
    finally:
        await made.close()


@pytest.fixture
async def node(bench: SessionsBench, tmp_path: Path) -> AsyncIterator[RelayBench]:
    async with relay_bench(bench, tmp_path / "state") as made:
        yield made
        await eventually(lambda: made.relay.open_sessions == 0, 20, "no session is left open")


async def test_bytes_pass_unchanged_with_a_slow_reader_in_bounded_memory(node: RelayBench) -> None:
    """Both ways at once, 64 MiB of noise after each byte there is."""
    uuid = await node.bench.running()
    await _there_and_back(node, uuid, 8)  # what the first session loads stays loaded, and is no session's memory
    # What is allocated, not what the process got of the kernel, which its other tests decide as much.
    tracemalloc.start()
    try:
        await _there_and_back(node, uuid, 64)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 4 * MIB  # of both ends of all connections, which are in this process


@functools.cache
def _noise() -> list[bytes]:
    return [noise(MIB, seed) for seed in range(4)]


async def _there_and_back(node: RelayBench, uuid: str, mebibytes: int) -> None:
    blocks = [bytes(range(256)), *_noise()]
    sent, found, size = hashlib.sha256(), hashlib.sha256(), 0
    async with node.proxy(await node.exec_row(uuid, "cat")) as proxy:

        async def give() -> None:
            for number in range(mebibytes + 1):
                block = blocks[0] if not number else blocks[number % 4 + 1]
                sent.update(block)
                for at in range(0, len(block), 65536):
                    await proxy.send(block[at : at + 65536])
            await proxy.eof()

        giving = asyncio.create_task(give())
        async with asyncio.timeout(240):
            async for piece in proxy.pieces():
                assert len(piece) <= 65536
                found.update(piece)
                if size // (4 * MIB) != (size + len(piece)) // (4 * MIB):
                    await asyncio.sleep(0.05)  # the sender runs into the slow reader
                size += len(piece)
        await giving
    assert (size, found.hexdigest()) == (mebibytes * MIB + 256, sent.hexdigest())
    assert (proxy.exit, proxy.closed[0]) == (0, 1000)


async def test_terminal_with_the_size_that_was_wanted_before(node: RelayBench) -> None:
    uuid = await node.bench.running()
    row = await node.exec_row(uuid, "sh", tty=True)
    await node.node.execs.resize(uuid, row.exec_id or "", height=43, width=132)
    async with node.proxy(row) as proxy:
        await proxy.until(b"# ")

        async def sized() -> bool:
            await proxy.send(b"stty size\n")
            return b"43 132" in await proxy.until(b"# ")

        await eventually(sized, 20, "the terminal has the size")
        await proxy.resize(25, 80)
        await eventually(lambda: _says(proxy, b"25 80"), 20, "the terminal has the new size")
        await node.node.execs.resize(uuid, row.exec_id or "", height=30, width=90)
        await eventually(lambda: _says(proxy, b"30 90"), 20, "the terminal has the newest size")
        await proxy.send(b"exit 7\n")
        await proxy.rest()
    assert (proxy.exit, proxy.closed[0]) == (7, 1000)
    assert "exit code 7" in (proxy.closed[1] or "")


async def test_attach_ends_without_an_exit_code(node: RelayBench) -> None:
    uuid = await node.bench.running("cat", stdin=True)
    async with node.proxy(await node.attach_row(uuid)) as proxy:
        await proxy.send(b"hello\n")
        await proxy.until(b"hello\n")
        await node.bench.port.stop(uuid, 0)
        await proxy.rest()
    assert (proxy.exit, proxy.closed) == (None, (1000, "Target closed"))


async def test_attach_without_a_terminal_shows_all_until_the_container_ends(node: RelayBench) -> None:
    """The container's program ends by itself, with much unread."""
    size = MIB + 7 if node.bench.real else 7
    command = ["sh", "-c", f"read go; head -c {size} /dev/zero; exit 3"] if node.bench.real else ["cat"]
    uuid = await node.bench.running(*command, stdin=True)
    async with node.proxy(await node.attach_row(uuid)) as proxy:
        await proxy.send(b"go 4567" if not node.bench.real else b"go\n")
        if not node.bench.real:
            await proxy.until(b"go 456")
            await node.bench.port.stop(uuid, 0)
        shown = await proxy.rest()
    assert len(shown) == (size if node.bench.real else 1)
    assert (proxy.exit, proxy.closed) == (None, (1000, "Target closed"))


async def test_leaving_an_attached_container_lets_it_run(node: RelayBench) -> None:
    uuid = await node.bench.running("cat", stdin=True)
    row = await node.attach_row(uuid)
    async with node.proxy(row) as proxy:
        await proxy.send(b"hello\n")
        await proxy.until(b"hello\n")
        proxy.vanish()
    await _ended(node, row.uuid)
    found = await node.bench.port.inspect(uuid)
    assert found is not None
    assert found.state == "running"


async def test_command_of_a_vanished_proxy_is_ended(node: RelayBench) -> None:
    uuid = await node.bench.running()
    program = long_sleep()
    row = await node.exec_row(uuid, "sh", "-c", f"{' '.join(program)}{'; true' if node.bench.real else ''}")
    async with node.proxy(row) as proxy:
        if node.bench.real:
            await eventually(lambda: processes(program), 20, "the command runs")
        proxy.vanish()
    await _ended(node, row.uuid)
    await eventually(lambda: not processes(program), 20, "the command is gone")


async def test_command_that_reads_nothing_is_ended_too(node: RelayBench) -> None:
    """Its input waits, so nothing is read from the connection, its end neither."""
    uuid = await node.bench.running()
    program = long_sleep()
    row = await node.exec_row(uuid, *program)
    async with node.proxy(row) as proxy:
        stuck = asyncio.create_task(_flood(proxy))
        await eventually(lambda: _calm(proxy), 30, "nothing more is taken")
        stuck.cancel()
        await asyncio.gather(stuck, return_exceptions=True)
        proxy.vanish()
    await _ended(node, row.uuid)
    await eventually(lambda: not processes(program), 20, "the command is gone")


async def test_end_of_a_command_is_told_while_its_input_waits(node: RelayBench) -> None:
    """The proxy's answer to the close stands behind that input."""
    uuid = await node.bench.running()
    async with node.proxy(await node.exec_row(uuid, "sleep", "86415")) as proxy:
        stuck = asyncio.create_task(_flood(proxy))
        await eventually(lambda: _calm(proxy), 30, "nothing more is taken")
        await node.bench.port.stop(uuid, 0)
        await proxy.rest()
        stuck.cancel()
        await asyncio.gather(stuck, return_exceptions=True)
    assert proxy.exit != "not told"
    assert proxy.closed[0] == 1000


async def test_option_lets_commands_go_on(bench: SessionsBench, tmp_path: Path) -> None:
    if not bench.real:
        pytest.skip("a simulated command ends with its session")
    async with relay_bench(bench, tmp_path / "state", end_command=False) as node:
        uuid = await bench.running()
        program = long_sleep()
        row = await node.exec_row(uuid, *program)
        async with node.proxy(row) as proxy:
            await eventually(lambda: processes(program), 20, "the command runs")
            proxy.vanish()
        await _ended(node, row.uuid)
        assert processes(program)


async def test_agent_that_stops_says_so_and_ends_commands(bench: SessionsBench, tmp_path: Path) -> None:
    uuid = await bench.running()
    program = long_sleep()
    async with relay_bench(bench, tmp_path / "state") as node:
        row = await node.exec_row(uuid, *program)
        stack = asyncio.create_task(_stay(node, row))
        await eventually(lambda: node.relay.open_sessions, 20, "the session is open")
        if bench.real:
            await eventually(lambda: processes(program), 20, "the command runs")
    code, reason = await stack
    assert code == 1001
    assert "shutting down" in (reason or "")
    await eventually(lambda: not processes(program), 20, "the command is gone")


async def test_agent_that_was_killed_ends_commands_when_it_returns(bench: SessionsBench, tmp_path: Path) -> None:
    uuid = await bench.running()
    program = long_sleep()
    async with relay_bench(bench, tmp_path / "state") as node:
        row = await node.exec_row(uuid, *program)
        now = node.clock.now()
        async with node.db.write() as connection:
            assert await sessions.connect_once(connection, row.uuid, HOST, now, timedelta(seconds=60))
        exec_id = row.exec_id or ""
        async with bench.port.exec_session(uuid, exec_id, program, tty=False, stdin=True):
            if bench.real:
                await eventually(lambda: processes(program), 20, "the command runs")
    assert bool(processes(program)) is bench.real  # it was let go of, as the kernel does for one that dies
    async with relay_bench(bench, tmp_path / "state") as node:
        await _ended(node, row.uuid)
        await eventually(lambda: not processes(program), 20, "the command is gone")


async def test_many_sessions_in_a_row_leave_nothing(node: RelayBench) -> None:
    """2,000 on Docker are in tests/bench/sessions.py."""
    uuid = await node.bench.running()
    process, times = psutil.Process(), 40 if node.bench.real else 500
    program = ["sh", "-c", "cat; :", *long_sleep()] if node.bench.real else ["cat"]

    async def once() -> None:
        async with node.proxy(await node.exec_row(uuid, *program)) as proxy:
            await proxy.send(b"one")
            await proxy.eof()
            assert await proxy.rest() == b"one"

    def held() -> tuple[int, int, int]:
        return len(asyncio.all_tasks()), process.num_fds(), len(process.children(recursive=True))

    for _ in range(times // 10):  # what the first ones load stays loaded
        await once()
    before, objects = held(), _objects()
    for _ in range(times):
        await once()
    await eventually(
        lambda: all(now <= then for now, then in zip(held(), before, strict=True)),
        20,
        f"no more tasks, files and processes than {before}",
    )
    # URLs that a library caches, up to some number, are a few a session; one that is held would be dozens.
    assert _objects() - objects < 10 * times
    if node.bench.real:
        assert not processes(program)


async def test_keys_are_sent_at_once(node: RelayBench) -> None:
    uuid = await node.bench.running()
    async with node.proxy(await node.exec_row(uuid, "cat")) as proxy:
        await proxy.send(b"x")
        await proxy.until(b"x")
        server = node.relay._server
        assert server is not None
        for connection in server.connections:
            link = connection.transport.get_extra_info("socket")
            assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await proxy.eof()
        await proxy.rest()


async def test_what_is_no_program_says_so(node: RelayBench) -> None:
    uuid = await node.bench.running()
    async with node.proxy(await node.exec_row(uuid, "no-such-program", stdin=False)) as proxy:
        shown = await proxy.rest()
    assert b"no-such-program" in shown
    assert proxy.exit in (126, 127)


async def test_container_that_has_ended_meanwhile_is_refused(node: RelayBench) -> None:
    uuid = await node.bench.running()
    row = await node.exec_row(uuid, "cat")
    await node.bench.port.stop(uuid, 0)
    async with node.proxy(row) as proxy:
        await proxy.rest()
    assert proxy.closed[0] == 1008
    unknown = await node.attach_row(str(uuid4()))
    async with node.proxy(unknown) as proxy:
        await proxy.rest()
    assert proxy.closed[0] == 1008


async def test_engine_that_breaks_off_is_told(engine: Engine, tmp_path: Path) -> None:
    for made in (DockerPodsBench(engine, tmp_path), SimulatedPodsBench()):
        await made.open()
        bench = SessionsBench(made, real=False)
        try:
            async with relay_bench(bench, tmp_path / made.pods.name) as node:
                uuid = await bench.running()
                async with node.proxy(await node.exec_row(uuid, "cat")) as proxy:
                    await proxy.send(b"one")
                    await proxy.until(b"one")
                    if isinstance(made, DockerPodsBench):
                        made.proxy.mode = "refuse"
                        made.proxy.cut(r"/exec/\w+/start")
                    else:
                        made.pods.sessions.break_off()
                    await proxy.rest()
                assert proxy.closed[0] == 1011
                assert proxy.closed[1]
                if isinstance(made, DockerPodsBench):
                    made.proxy.mode = "pass"
        finally:
            await made.close()


def _objects() -> int:
    """Of this process, without what nobody refers to any more."""
    gc.collect()
    return len(gc.get_objects())


async def _says(proxy: Proxy, size: bytes) -> bool:
    await proxy.send(b"stty size\n")
    return size in await proxy.until(b"# ")


async def _ended(node: RelayBench, uuid: str) -> None:
    async def ended() -> bool:
        return (await node.stored(uuid)).ended_at is not None

    await eventually(ended, 30, "the session's end is written")


async def _flood(proxy: Proxy) -> None:
    while True:
        await proxy.send(bytes(65536))


async def _calm(proxy: Proxy) -> bool:
    """Is the proxy's own connection full?"""
    transport = proxy.connection.transport
    before = transport.get_write_buffer_size()
    await asyncio.sleep(1.0)
    return bool(before) and transport.get_write_buffer_size() == before


async def _stay(node: RelayBench, row: Session) -> tuple[int | None, str | None]:
    async with node.proxy(row) as proxy:
        await proxy.rest()
    return proxy.closed
