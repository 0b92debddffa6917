"""What every bus has to do: ring without a wait, answer within the deadline, and carry errors as they are."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from zun.bus import frames
from zun.bus.base import Bus
from zun.bus.local import LocalBus
from zun.bus.sockets import SocketBus
from zun.domain.errors import (
    Conflict,
    EngineConflict,
    HostUnreachable,
    InvalidStateException,
    InvalidValue,
    PolicyNotAuthorized,
    ResourceNotFound,
    ZunError,
)

HOST = "node-1"


async def until(event: asyncio.Event) -> None:
    async with asyncio.timeout(5):
        await event.wait()


class Node:
    """An agent with one of each kind of method."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()
        self.rings = 0
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    def doorbell(self) -> None:
        self.rings += 1
        self.rung.set()

    async def echo(self, params: Mapping[str, Any]) -> Any:
        return params

    async def fail(self, params: Mapping[str, Any]) -> Any:
        raise {
            "state": InvalidStateException("start", "u", "Error"),
            "engine": EngineConflict("paused already"),
            "policy": PolicyNotAuthorized("container:get"),
            "unknown": self.Odd("odd but meant for people"),
            "internal": RuntimeError("secret at /etc/passwd"),
            "timeout": TimeoutError("an inner one"),
        }[params["kind"]]

    class Odd(EngineConflict):
        """A class that only the node has."""

    async def hang(self, params: Mapping[str, Any]) -> Any:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def big(self, params: Mapping[str, Any]) -> Any:
        return "x" * params["size"]

    async def serve(self, bus: Bus, host: str = HOST) -> None:
        names = ("echo", "fail", "hang", "big")
        await bus.serve(host, self.doorbell, {name: getattr(self, name) for name in names})


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture(params=["local", "sockets"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path, node: Node) -> AsyncIterator[Bus]:
    """The caller's bus; ``node`` serves on it, or on another one in the same folder."""
    agent: Bus = LocalBus() if request.param == "local" else SocketBus(tmp_path / "bus")
    caller: Bus = agent if request.param == "local" else SocketBus(tmp_path / "bus")
    await node.serve(agent)
    yield caller
    await caller.close()
    await agent.close()


async def test_ring_reaches_the_node(bus: Bus, node: Node) -> None:
    await bus.ring(HOST)
    await until(node.rung)


async def test_ring_of_a_host_nobody_serves_returns_at_once(bus: Bus) -> None:
    start = time.perf_counter()
    for host in ("nobody", "../escape", "x" * 300):
        await bus.ring(host)
    assert time.perf_counter() - start < 0.5


async def test_call_answers(bus: Bus) -> None:
    params = {"text": "ä\n\0", "list": [1, 2.5, None, True], "nested": {"a": {}}}
    assert await bus.call(HOST, "echo", params, 5) == params


async def test_calls_run_side_by_side(bus: Bus, node: Node) -> None:
    hanging = asyncio.create_task(bus.call(HOST, "hang", {}, 30))
    await until(node.started)
    answers = await asyncio.gather(*(bus.call(HOST, "echo", {"n": n}, 5) for n in range(200)))
    assert answers == [{"n": n} for n in range(200)]
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    await until(node.cancelled)


async def test_deadline_is_unreachable_and_ends_the_handler(bus: Bus, node: Node) -> None:
    with pytest.raises(HostUnreachable, match=r"node-1 did not answer hang within 0\.05 s"):
        await bus.call(HOST, "hang", {}, 0.05)
    await until(node.cancelled)


async def test_cancelled_caller_ends_the_handler(bus: Bus, node: Node) -> None:
    call = asyncio.create_task(bus.call(HOST, "hang", {}, 30))
    await until(node.started)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(node.cancelled)


async def test_nobody_serves(bus: Bus) -> None:
    with pytest.raises(HostUnreachable, match="nobody"):
        await bus.call("nobody", "echo", {}, 5)


async def test_unknown_method(bus: Bus) -> None:
    with pytest.raises(ResourceNotFound, match="nonsense"):
        await bus.call(HOST, "nonsense", {}, 5)


async def test_errors_keep_class_and_message(bus: Bus) -> None:
    with pytest.raises(InvalidStateException) as state:
        await bus.call(HOST, "fail", {"kind": "state"}, 5)
    assert state.value.message == str(state.value) == "Cannot start container u in Error state"
    with pytest.raises(PolicyNotAuthorized, match=r"^Policy doesn't allow container:get to be performed\.$"):
        await bus.call(HOST, "fail", {"kind": "policy"}, 5)
    with pytest.raises(EngineConflict) as engine:
        await bus.call(HOST, "fail", {"kind": "engine"}, 5)
    assert (engine.value.text, engine.value.message) == ("paused already", "Docker internal error: paused already.")


@pytest.mark.parametrize("kind", ["internal", "timeout"])
async def test_internals_never_cross(bus: Bus, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ZunError) as raised:
        await bus.call(HOST, "fail", {"kind": kind}, 5)
    assert type(raised.value) is ZunError
    assert "secret" not in str(raised.value)
    assert "internal-error" in caplog.text


async def test_second_agent_of_a_host_is_refused(tmp_path: Path) -> None:
    first, second = SocketBus(tmp_path), SocketBus(tmp_path)
    node = Node()
    await node.serve(first)
    with pytest.raises(Conflict, match=HOST):
        await Node().serve(second)
    assert await second.call(HOST, "echo", {"still": "there"}, 5) == {"still": "there"}
    await first.close()
    with pytest.raises(HostUnreachable):
        await second.call(HOST, "echo", {}, 5)
    await node.serve(second)  # free again
    assert await second.call(HOST, "echo", {}, 5) == {}
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
        await bus.call(HOST, "echo", {}, 5)
    await Node().serve(bus)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert await bus.call(HOST, "echo", {}, 5) == {}
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
    assert await caller.call(HOST, "echo", {"again": 1}, 5) == {"again": 1}
    await caller.close()
    await agent.close()


async def test_frames_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME", 100_000)
    agent, caller, node = SocketBus(tmp_path), SocketBus(tmp_path), Node()
    await node.serve(agent)
    assert len(await caller.call(HOST, "big", {"size": 90_000}, 5)) == 90_000
    with pytest.raises(ZunError, match="larger than"):
        await caller.call(HOST, "big", {"size": 100_000}, 5)
    with pytest.raises(InvalidValue, match="cannot be sent"):
        await caller.call(HOST, "echo", {"text": "x" * 100_000}, 5)
    assert await caller.call(HOST, "echo", {}, 5) == {}
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
    async with asyncio.timeout(5):
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            assert sent.startswith(b"xxx")
    writer.close()
    assert await bus.call(HOST, "echo", {"still": "there"}, 5) == {"still": "there"}
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
