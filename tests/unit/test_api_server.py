"""Bounds of a connection, on a loop whose timers the test fires."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from tests.support.wait import eventually
from zun.api import server
from zun.api.server import BoundedHttp


class Wire(asyncio.Transport):
    """Notes what is written."""

    def __init__(self) -> None:
        super().__init__({})
        self.sent = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        """Nothing is read here."""

    def resume_reading(self) -> None:
        """Nothing is read here."""


async def _never(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.Event().wait()


def _connect() -> tuple[BoundedHttp, Wire]:
    config = uvicorn.Config(_never, log_config=None, lifespan="off")
    protocol, wire = BoundedHttp(config=config, server_state=ServerState(), app_state={}), Wire()
    protocol.connection_made(wire)
    return protocol, wire


async def _closed(wire: Wire) -> None:
    await eventually(lambda: wire.closed, 30, "the connection is closed")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.02)


async def test_a_connection_that_says_nothing_is_closed() -> None:
    _, wire = _connect()
    await _closed(wire)
    assert wire.sent == b""


async def test_a_slow_head_is_408() -> None:
    protocol, wire = _connect()
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: a\r\nX-")
    await _closed(wire)
    assert wire.sent.startswith(b"HTTP/1.1 408 ")
    assert b"container.request-timeout" in wire.sent


async def test_trickled_bytes_do_not_buy_time() -> None:
    protocol, wire = _connect()
    protocol.data_received(b"GET / HTTP/1.1\r\nX: ")
    async with asyncio.timeout(30):
        while not wire.closed:
            protocol.data_received(b"a")
            await asyncio.sleep(0.001)
    assert wire.sent.startswith(b"HTTP/1.1 408 ")


async def test_a_request_at_work_is_not_closed() -> None:
    protocol, wire = _connect()
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    await asyncio.sleep(0.06)
    assert not wire.closed
    for task in list(protocol.tasks):
        task.cancel()
    protocol.connection_lost(None)
    await asyncio.sleep(0)


async def test_a_large_head_in_many_pieces_is_431() -> None:
    protocol, wire = _connect()
    protocol.data_received(b"GET / HTTP/1.1\r\nX: ")
    for _ in range(70):
        if not wire.closed:
            protocol.data_received(b"a" * 1024)
    assert wire.closed
    assert wire.sent.startswith(b"HTTP/1.1 431 ")
