"""The proxy between a client and a relay that the test steers: bytes, sub-protocols, endings, limits, back-pressure."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from tests.support.wait import eventually
from tests.support.wsproxy import EXEC_ID, ProxyRig, opened, proxy_rig, received
from zun.wsproxy.framing import CONSOLE

pytestmark = pytest.mark.timeout(120)
EVERY_BYTE = bytes(range(256))


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ProxyRig]:
    async with proxy_rig(tmp_path) as made:
        yield made


async def closed(client: Any) -> tuple[int | None, str | None]:
    """Code and reason, once it is closed; what comes before is dropped."""
    async with asyncio.timeout(60):
        try:
            while True:
                await client.recv()
        except ConnectionClosed:
            return client.close_code, client.close_reason


async def test_bytes_both_ways_and_the_end(rig: ProxyRig) -> None:
    async with opened(await rig.exec_url()) as client:
        assert client.subprotocol == "binary"
        await client.send(EVERY_BYTE)
        assert await received(client, 256) == EVERY_BYTE
        await client.send("text é")
        assert await received(client, 7) == "text é".encode()
        await client.send(b"")
        assert await closed(client) == (1000, "The command has ended with exit code 7.")
    await eventually(lambda: rig.lines, 30, "the audit has a line")
    (line,) = rig.audit()
    uuid = line["container"]
    assert line == line | {
        "action": "session", "result": "ended", "user": "user1", "project": "proj1", "kind": "exec",
        "exec_id": EXEC_ID, "capsule": "-", "from": "127.0.0.1", "bytes_in": "263", "bytes_out": "263",
        "exit_code": "7", "code": "1000", "host": "node1",
    }  # fmt: skip
    assert rig.relay.paths == [f"/v1/sessions/{line['session']}"]
    assert line["request_id"].startswith("req-")
    assert len(uuid) == 36


async def test_by_name_with_any_path_without_subprotocol(rig: ProxyRig) -> None:
    uuid = await rig.container(name="web")
    url = (await rig.exec_url(uuid)).replace(uuid, "web").replace("/?", "/any/path?")
    async with opened(url, subprotocols=None, origin=f"http://127.0.0.1:{rig.port}") as client:
        assert client.subprotocol is None
        await client.send(b"x")
        assert await client.recv() == b"x"


async def test_attach_side_by_side(rig: ProxyRig) -> None:
    uuid = await rig.container()
    first, second = await rig.attach_url(uuid), await rig.attach_url(uuid)
    async with opened(first) as one, opened(second) as other:
        for client in (one, other):
            await client.send(b"x")
            assert await client.recv() == b"x"
        await one.send(b"")
        assert await closed(one) == (1000, "Target closed")
        await other.send(b"y")
        assert await other.recv() == b"y"


async def test_base64_alone(rig: ProxyRig) -> None:
    async with opened(await rig.exec_url(), subprotocols=["base64"]) as client:
        await client.send("bHMN")
        assert await client.recv() == "bHMN"
        await client.send("no base64!")
        assert (await closed(client))[0] == 1007


async def test_the_console_protocol(rig: ProxyRig) -> None:
    async def script(connection: ServerConnection) -> None:
        async for message in connection:
            if isinstance(message, str):
                rig.relay.control(message)
            if rig.relay.controls[-1:] == [{"eof": True}]:
                await connection.send('{"exit": 3}')
                return

    rig.relay.script = script
    async with opened(await rig.exec_url(), subprotocols=[CONSOLE]) as client:
        assert client.subprotocol == CONSOLE
        assert await client.recv() == '{"open":{"tty":true}}'
        await client.send('{"resize": {"height": 24, "width": 80}}')
        await client.send('{"eof": true}')
        assert await client.recv() == '{"exit":3}'
        assert (await closed(client))[0] == 1000
    assert rig.relay.controls == [{"resize": {"height": 24, "width": 80}}, {"eof": True}]


async def test_characters_are_whole_and_nothing_is_held_for_long(rig: ProxyRig) -> None:
    async def script(connection: ServerConnection) -> None:
        for byte in "a\N{CAT FACE}é".encode():
            await connection.send(bytes([byte]))
        await connection.recv()
        await connection.send(b"\xe2\x82")  # and no more of it
        await connection.recv()

    rig.relay.script = script
    async with opened(await rig.exec_url()) as client:
        text = ""
        while len(text) < 3:
            text += (await client.recv()).decode()
        assert text == "a\N{CAT FACE}é"
        await client.send(b"go on")
        async with asyncio.timeout(60):
            assert await client.recv() == b"\xe2\x82"


async def test_data_passes_unchanged_with_a_slow_reader(rig: ProxyRig) -> None:
    data = os.urandom(4 * 1024 * 1024)
    async with opened(await rig.exec_url(), max_queue=1) as client:

        async def paste() -> None:
            for at in range(0, len(data), 60_000):
                await client.send(data[at : at + 60_000])

        pasting = asyncio.create_task(paste())
        await asyncio.sleep(0)
        assert await received(client, len(data)) == data
        await pasting


async def test_an_output_that_nobody_reads_stops_at_its_source(rig: ProxyRig) -> None:
    sent = 0

    async def script(connection: ServerConnection) -> None:
        nonlocal sent
        while True:
            await connection.send(bytes(32 * 1024))
            sent += 32 * 1024

    rig.relay.script = script
    async with opened(await rig.exec_url(), max_queue=1) as client:
        await client.recv()
        before = -1

        async def stands() -> bool:
            nonlocal before
            before, was = sent, before
            await asyncio.sleep(0.3)
            return sent == before == was

        await eventually(stands, 60, "the source stands still")
        assert sent < 32 * 1024 * 1024, "only the kernel's buffers of both connections are filled"
        client.transport.abort()
    await eventually(lambda: not rig.relay.open, 60, "the relay is told")


async def test_a_page_that_has_more_than_it_can_show_pauses_the_output(rig: ProxyRig) -> None:
    sent = seen = 0

    async def script(connection: ServerConnection) -> None:
        nonlocal sent
        while True:
            await connection.send(bytes(32 * 1024))
            sent += 32 * 1024

    rig.relay.script = script
    async with opened(await rig.exec_url(), subprotocols=[CONSOLE]) as client:
        assert await client.recv() == '{"open":{"tty":true}}'
        await client.send('{"pause": true}')

        async def stands() -> bool:
            nonlocal seen
            before = sent
            try:
                async with asyncio.timeout(0.5):
                    seen += len(await client.recv())
            except TimeoutError:
                return sent == before
            return False

        await eventually(stands, 60, "nothing comes any more, and the source stands still")
        assert seen < sent < 64 * 1024 * 1024
        await client.send('{"pause": false}')
        async with asyncio.timeout(60):
            await received(client, sent - seen + 1)  # what was held back, and what was made since
        client.transport.abort()
    await eventually(lambda: not rig.relay.open, 60, "the relay is told")


async def test_a_message_larger_than_a_piece_is_refused_and_its_fragments_are_not(rig: ProxyRig) -> None:
    data = os.urandom(200_000)
    async with opened(await rig.exec_url()) as client:
        await client.send(data[at : at + 50_000] for at in range(0, len(data), 50_000))
        assert await received(client, len(data)) == data
        await client.send(bytes(70_000))
        assert (await closed(client))[0] == 1009


async def test_the_relays_reasons_reach_the_client(rig: ProxyRig) -> None:
    for code, reason in ((1011, "The engine broke off the session."), (1008, "No such session.")):

        async def script(connection: ServerConnection, code: int = code, reason: str = reason) -> None:
            await connection.close(code, reason)

        rig.relay.script = script
        async with opened(await rig.exec_url()) as client:
            assert await closed(client) == (code, reason)
    await eventually(lambda: len(rig.lines) == 2, 30, "both are in the audit")
    assert [line["result"] for line in rig.audit()] == ["lost", "refused"]


async def test_a_client_that_vanishes_ends_the_session_at_the_node(rig: ProxyRig) -> None:
    async with opened(await rig.exec_url()) as client:
        await client.send(b"x")
        await client.recv()
        assert len(rig.relay.open) == 1
        client.transport.abort()
    await eventually(lambda: not rig.relay.open, 60, "the relay is told")
    await eventually(lambda: rig.lines, 30, "the audit has a line")
    assert rig.audit()[0]["result"] == "left"


@pytest.mark.parametrize(
    ("option", "reason"),
    [("idle_timeout", "Nothing was sent for 1 seconds."), ("session_timeout", "A session lasts 1 seconds at most.")],
)
async def test_time_limits(tmp_path: Path, option: str, reason: str) -> None:
    async with proxy_rig(tmp_path, {f"websocket_proxy.{option}": 1}) as rig:
        async with opened(await rig.exec_url()) as client:
            await client.send(b"x")
            assert await closed(client) == (1008, reason)
        await eventually(lambda: rig.lines, 30, "the audit has a line")
        assert (rig.audit()[0]["result"], rig.audit()[0]["reason"]) == ("limit", reason)


@pytest.mark.parametrize("blocked", [False, True], ids=["idle", "not read"])
async def test_who_answers_no_ping_is_gone_unless_it_is_held_back(tmp_path: Path, blocked: bool) -> None:
    options = {"websocket_proxy.ping_interval": 1, "websocket_proxy.ping_timeout": 1}
    async with proxy_rig(tmp_path, options) as rig:

        async def script(connection: ServerConnection) -> None:
            while blocked:
                await connection.send(bytes(32 * 1024))
            await connection.wait_closed()

        rig.relay.script = script
        async with opened(await rig.exec_url(), max_queue=1, close_timeout=1) as client:
            await asyncio.sleep(0.1)
            client.transport.pause_reading()
            if blocked:
                with pytest.raises(AssertionError):
                    await eventually(lambda: rig.lines, 5, "it is held back, and does not end")
            else:
                await eventually(lambda: rig.lines, 60, "it is given up")
                assert rig.audit()[0]["reason"] == "The client does not answer."
            client.transport.abort()


async def test_a_plain_get_is_405_and_a_stop_is_told(tmp_path: Path) -> None:
    async with proxy_rig(tmp_path) as rig:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            page = await http.get(f"http://127.0.0.1:{rig.port}/console?token=a&uuid=b")
            assert (page.status_code, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
            assert f"ws://127.0.0.1:{rig.port}" in page.headers["Content-Security-Policy"]
            for method in ("GET", "POST", "HEAD"):
                answer = await http.request(method, f"http://127.0.0.1:{rig.port}/?token=a&uuid=b")
                assert answer.status_code == 405, method
        client = await opened(await rig.exec_url())
        await client.send(b"x")
        await client.recv()
        lines = rig.lines
    assert (await closed(client))[0] == 1001
    assert "result=stopped" in lines[0]


async def test_nothing_is_left_of_many_sessions(rig: ProxyRig) -> None:
    uuid = await rig.container()

    async def one() -> None:
        async with opened(await rig.attach_url(uuid)) as client:
            await client.send(b"x")
            assert await client.recv() == b"x"

    await asyncio.gather(*(one() for _ in range(10)))  # connections of the database's pool are made
    await eventually(lambda: not rig.relay.open and len(rig.lines) == 10, 60, "the first are over")
    tasks, files = len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await asyncio.gather(*(one() for _ in range(10)))
    await eventually(lambda: not rig.relay.open and len(rig.lines) == 60, 60, "all are over")
    await eventually(lambda: len(asyncio.all_tasks()) <= tasks, 30, "no task is left")
    await eventually(lambda: len(os.listdir("/proc/self/fd")) <= files, 30, "no file is left")
