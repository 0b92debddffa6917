"""A client whose input nobody takes: it is not read, and its leaving and the session's end are noticed all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from tests.support.wait import eventually
from tests.support.wsproxy import ProxyRig, opened, proxy_rig

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ProxyRig]:
    async with proxy_rig(tmp_path, {"websocket_proxy.ping_interval": 1}) as made:
        yield made


@asynccontextmanager
async def stuck(client: ClientConnection) -> AsyncIterator[None]:
    """It has sent until nothing more was taken, and goes on."""

    async def flood() -> None:
        while True:
            await client.send(bytes(60_000))

    flooding = asyncio.create_task(flood())
    seen, times = -1, 0

    def full() -> bool:
        nonlocal seen, times
        now = client.transport.get_write_buffer_size()
        seen, times = now, times + 1 if now and now == seen else 0
        return times >= 5

    try:
        await eventually(full, 60, "nothing more is taken")
        yield
    finally:
        flooding.cancel()
        await asyncio.gather(flooding, return_exceptions=True)


async def test_a_client_that_vanishes(rig: ProxyRig) -> None:
    read = asyncio.Event()

    async def script(connection: ServerConnection) -> None:
        await read.wait()
        async for _ in connection:  # so that it, too, sees the end
            pass

    rig.relay.script = script
    async with opened(await rig.exec_url()) as client:
        async with stuck(client):
            assert not rig.lines
        client.transport.abort()
        try:
            await eventually(lambda: rig.lines, 60, "the audit has a line")
        finally:
            read.set()
    assert rig.audit()[0]["result"] == "left"
    await eventually(lambda: not rig.relay.open, 20, "the relay is told")


async def test_a_client_that_only_waits_stays(rig: ProxyRig) -> None:
    read = asyncio.Event()

    async def script(connection: ServerConnection) -> None:
        await read.wait()
        async for message in connection:
            if message == b"last":
                await connection.send(b"seen")

    rig.relay.script = script
    async with opened(await rig.exec_url()) as client:
        async with stuck(client):
            with pytest.raises(AssertionError):
                await eventually(lambda: rig.lines, 4, "it is held back, and does not end")
            read.set()
        await client.send(b"last")
        async with asyncio.timeout(60):
            assert await client.recv() == b"seen"


async def test_a_command_that_ends(rig: ProxyRig) -> None:
    over = asyncio.Event()

    async def script(connection: ServerConnection) -> None:
        await over.wait()
        await connection.send('{"exit": 3}')

    rig.relay.script = script
    async with opened(await rig.exec_url()) as client, stuck(client):
        over.set()
        async with asyncio.timeout(60):  # the last of a session is kept for longer for one that reads nothing
            with pytest.raises(ConnectionClosed):
                await client.recv()
        assert (client.close_code, client.close_reason) == (1000, "The command has ended with exit code 3.")
    await eventually(lambda: rig.lines, 10, "the audit has a line")
    assert rig.audit()[0]["exit_code"] == "3"
