"""What every bus has to do: ring without a wait, answer within the deadline, and carry errors as they are.

Imported whole by the test modules of each bus, which define the fixture ``bus``: one on which ``node`` can be asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from zun.bus.base import Bus
from zun.domain.errors import (
    EngineConflict,
    HostUnreachable,
    InvalidStateException,
    PolicyNotAuthorized,
    ResourceNotFound,
    ZunError,
)

HOST = "node-1"


async def until(event: asyncio.Event) -> None:
    async with asyncio.timeout(60):
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


async def test_ring_reaches_the_node(bus: Bus, node: Node) -> None:
    await bus.ring(HOST)
    await until(node.rung)


async def test_ring_of_a_host_nobody_serves_returns_at_once(bus: Bus) -> None:
    start = time.perf_counter()
    for host in ("nobody", "../escape", "x" * 300):
        await bus.ring(host)
    assert time.perf_counter() - start < 5


async def test_call_answers(bus: Bus) -> None:
    params = {"text": "ä\n\0", "list": [1, 2.5, None, True], "nested": {"a": {}}}
    assert await bus.call(HOST, "echo", params, 60) == params


async def test_calls_run_side_by_side(bus: Bus, node: Node) -> None:
    hanging = asyncio.create_task(bus.call(HOST, "hang", {}, 30))
    await until(node.started)
    answers = await asyncio.gather(*(bus.call(HOST, "echo", {"n": n}, 60) for n in range(200)))
    assert answers == [{"n": n} for n in range(200)]
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    await until(node.cancelled)


async def test_deadline_is_unreachable_and_ends_the_handler(bus: Bus, node: Node) -> None:
    # Long enough to get there on a busy machine: what does not is dropped on its way, and no handler begins.
    with pytest.raises(HostUnreachable, match=r"node-1 did not answer hang within 2 s"):
        await bus.call(HOST, "hang", {}, 2)
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
        await bus.call(HOST, "nonsense", {}, 60)


async def test_errors_keep_class_and_message(bus: Bus) -> None:
    with pytest.raises(InvalidStateException) as state:
        await bus.call(HOST, "fail", {"kind": "state"}, 60)
    assert state.value.message == str(state.value) == "Cannot start container u in Error state"
    with pytest.raises(PolicyNotAuthorized, match=r"^Policy doesn't allow container:get to be performed\.$"):
        await bus.call(HOST, "fail", {"kind": "policy"}, 60)
    with pytest.raises(EngineConflict) as engine:
        await bus.call(HOST, "fail", {"kind": "engine"}, 60)
    assert (engine.value.text, engine.value.message) == ("paused already", "Docker internal error: paused already.")


@pytest.mark.parametrize("kind", ["internal", "timeout"])
async def test_internals_never_cross(bus: Bus, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ZunError) as raised:
        await bus.call(HOST, "fail", {"kind": kind}, 60)
    assert type(raised.value) is ZunError
    assert "secret" not in str(raised.value)
    assert "internal-error" in caplog.text
