"""The bus of one process and the bus of one machine; what RabbitMQ does is in tests/services."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.bus_suite import *  # noqa: F403 - the tests of every bus
from tests.contract.bus_suite import HOST, Node, until
from zun.bus import frames
from zun.bus.base import Bus
from zun.bus.local import LocalBus
from zun.bus.sockets import SocketBus
from zun.domain.errors import Conflict, EngineConflict, HostUnreachable, InvalidValue, ZunError


@pytest.fixture(params=["local", "sockets"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path, node: Node) -> AsyncIterator[Bus]:
    """The caller's bus; ``node`` serves on it, or on another one in the same folder."""
    agent: Bus = LocalBus() if request.param == "local" else SocketBus(tmp_path / "bus")
    caller: Bus = agent if request.param == "local" else SocketBus(tmp_path / "bus")
    await node.serve(agent)
    yield caller
    await caller.close()
    await agent.close()


async def test_second_agent_of_a_host_is_refused(tmp_path: Path) -> None:
    first, second = SocketBus(tmp_path), SocketBus(tmp_path)
    node = Node()
    await node.serve(first)
    with pytest.raises(Conflict, match=HOST):
        await Node().serve(second)
    assert await second.call(HOST, "echo", {"still": "there"}, 60) == {"still": "there"}
    await first.close()
    with pytest.raises(HostUnreachable):
        await second.call(HOST, "echo", {}, 60)
    await node.serve(second)  # free again
    assert await second.call(HOST, "echo", {}, 60) == {}
    await second.close()
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".sock")]


async def test_stale_socket_is_replaced_and_the_new_one_is_private(tmp_path: Path) -> None:
    code = (
        "import asyncio, os\nfrom zun.bus.sockets import SocketBus\n"
        f"async def main():\n    await SocketBus({str(tmp_path)!r}).serve({HOST!r}, lambda: None, {{}})\n"
        "    os._exit(9)\n"
        "asyncio.run(main())"
    )
    dead = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    async with asyncio.timeout(60):
        assert await dead.wait() == 9
    path = tmp_path / f"{HOST}.sock"
    assert stat.S_ISSOCK(os.stat(path).st_mode)
    bus = SocketBus(tmp_path)
    with pytest.raises(HostUnreachable):
        await bus.call(HOST, "echo", {}, 60)
    await Node().serve(bus)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert await bus.call(HOST, "echo", {}, 60) == {}
    await bus.close()


async def test_an_agent_that_goes_away_fails_the_calls_it_had(tmp_path: Path) -> None:
    agent, caller, node = SocketBus(tmp_path), SocketBus(tmp_path), Node()
    await node.serve(agent)
    call = asyncio.create_task(caller.call(HOST, "hang", {}, 30))
    await until(node.started)
    await agent.close()
    with pytest.raises(HostUnreachable, match="went away"):
        await call
    await node.serve(agent)
    assert await caller.call(HOST, "echo", {"again": 1}, 60) == {"again": 1}
    await caller.close()
    await agent.close()


async def test_frames_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME", 100_000)
    agent, caller, node = SocketBus(tmp_path), SocketBus(tmp_path), Node()
    await node.serve(agent)
    assert len(await caller.call(HOST, "big", {"size": 90_000}, 60)) == 90_000
    with pytest.raises(ZunError, match="larger than"):
        await caller.call(HOST, "big", {"size": 100_000}, 60)
    with pytest.raises(InvalidValue, match="cannot be sent"):
        await caller.call(HOST, "echo", {"text": "x" * 100_000}, 60)
    assert await caller.call(HOST, "echo", {}, 60) == {}
    await caller.close()
    await agent.close()


@pytest.mark.parametrize(
    "sent", [b"no json\n", b"[1]\n", b"{}\n", b"x" * 300_000], ids=["text", "list", "empty", "large"]
)
async def test_nonsense_ends_only_its_own_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME", 100_000)
    bus = SocketBus(tmp_path)
    await Node().serve(bus)
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / f"{HOST}.sock"))
    writer.write(sent)
    async with asyncio.timeout(60):
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            assert sent.startswith(b"xxx")
    writer.close()
    assert await bus.call(HOST, "echo", {"still": "there"}, 60) == {"still": "there"}
    await bus.close()


async def test_unknown_class_comes_as_the_nearest_known(tmp_path: Path) -> None:
    from zun.bus import remote_errors

    crossed = remote_errors.encode(Node.Odd("odd"))
    crossed["classes"][0] = "OnlyOnTheNode"
    assert type(remote_errors.decode(crossed)) is EngineConflict
    assert type(remote_errors.decode({"classes": ["Nope"], "message": "m"})) is ZunError
    assert remote_errors.decode({}).message == ""


async def test_names_that_are_no_hosts(tmp_path: Path) -> None:
    bus = SocketBus(tmp_path)
    for host in ("", "a/b", "..", "x" * 200):
        with pytest.raises(InvalidValue):
            await bus.serve(host, lambda: None, {})
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".sock")]
    await bus.close()
