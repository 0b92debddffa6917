"""Connections to engines: nothing read ahead, half-close, upgrades, and SPDY's frames, against servers of the test."""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.wait import eventually
from zun.runtime.cri.spdy import Spdy
from zun.runtime.upgrade import Refused, upgrade
from zun.runtime.wire import Wire, WireClosed

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def wired(folder: Path, serve: Serve) -> AsyncIterator[Wire]:
    """A wire to ``serve``, which has to come to its end."""
    done = asyncio.get_running_loop().create_future()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)
        finally:
            writer.transport.abort()

    server = await asyncio.start_unix_server(once, folder / "socket")
    wire = await Wire.unix(str(folder / "socket"))
    try:
        yield wire
    finally:
        await wire.close()
        await wire.close()
        server.close()
        async with asyncio.timeout(20):
            await done


async def test_sender_waits_for_the_reader(tmp_path: Path) -> None:
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.transport.set_write_buffer_limits(high=65536)
        for _ in range(256):
            writer.write(bytes(65536))
            await writer.drain()
            sent += 65536
        writer.write_eof()
        await reader.read()

    async with wired(tmp_path, serve) as wire:
        await eventually(lambda: sent, 60, "something is sent")
        last = -1
        while last != sent:
            last = sent
            await asyncio.sleep(0.2)
        assert sent < 2 << 20
        size = 0
        while piece := await wire.read():
            assert len(piece) <= 65536
            size += len(piece)
        assert size == 256 * 65536


async def test_end_of_input_leaves_the_answer(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read())[::-1])
        await writer.drain()
        writer.write_eof()
        await reader.read()

    async with wired(tmp_path, serve) as wire:
        await wire.write(b"abc")
        assert wire.end_input()
        assert await wire.exactly(3) == b"cba"
        assert await wire.read() == b""
        with pytest.raises(WireClosed):
            await wire.exactly(1)


async def test_tcp_sends_each_key_at_once() -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    wire = await Wire.tcp("127.0.0.1", server.sockets[0].getsockname()[1])
    link = wire._writable().get_extra_info("socket")
    assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    await wire.close()
    server.close()


@pytest.mark.parametrize("cut", [1, 7, 1000])
async def test_upgraded_stream_begins_right_after_the_head(tmp_path: Path, cut: int) -> None:
    answer = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\n\r\n\r\nfirst bytes"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        assert asked.startswith(b"POST /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n")
        for at in range(0, len(answer), cut):
            writer.write(answer[at : at + cut])
            await writer.drain()
            await asyncio.sleep(0)
        writer.write_eof()
        await reader.read()

    async with wired(tmp_path, serve) as wire:
        await upgrade(wire, "/x", host="h", protocol="tcp")
        assert await wire.exactly(13) == b"\r\nfirst bytes"


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (b'HTTP/1.1 409 Conflict\r\nContent-Length: 22\r\n\r\n{"message":"is paused"}', 409, '{"message":"is paused"'),
        (b'HTTP/1.1 404 Not Found\r\ncontent-length: 23\r\n\r\n{"message":"is paused"}', 404, "is paused"),
        (b"HTTP/1.0 500 Oops\r\n\r\n", 500, ""),
    ],
)
async def test_refusal_has_the_engines_words(tmp_path: Path, answer: bytes, status: int, text: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        await reader.read()

    async with wired(tmp_path, serve) as wire:
        with pytest.raises(Refused) as caught:
            await upgrade(wire, "/x", host="h", protocol="tcp")
    assert (caught.value.status, caught.value.text) == (status, text)


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-x\r\n\r\n", b"x" * 100_000])
async def test_what_is_no_http_is_no_answer(tmp_path: Path, answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.write_eof()
        await reader.read()

    async with wired(tmp_path, serve) as wire:
        with pytest.raises(WireClosed):
            await upgrade(wire, "/x", host="h", protocol="tcp")


async def test_spdy_opens_streams_and_takes_pieces_apart(tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        headers = zlib.decompressobj()
        for number, kind in ((1, b"error"), (3, b"stdin")):
            head = await reader.readexactly(8)
            assert head[:5] == b"\x80\x03\x00\x01\x00"
            body = await reader.readexactly(int.from_bytes(head[5:], "big"))
            assert body[:4] == number.to_bytes(4, "big")
            block = headers.decompress(body[10:])
            assert block == b"\0\0\0\1" + b"\0\0\0\x0astreamtype" + len(kind).to_bytes(4, "big") + kind
        for size in (4096, 904):
            head = await reader.readexactly(8)
            assert head == b"\0\0\0\3" + bytes([size == 904]) + size.to_bytes(3, "big")
            heard.append(await reader.readexactly(size))
        writer.write(b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x02")  # a ping
        assert await reader.readexactly(12) == b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x02"
        writer.write(b"\x80\x03\x00\x02\x00\x00\x00\x04\x00\x00\x00\x03")  # a reply is passed over
        writer.write(b"\0\0\0\5\0" + (100_000).to_bytes(3, "big") + bytes(100_000))
        writer.write(b"\0\0\0\5\1\0\0\0")
        writer.write(b"\x80\x03\x00\x03\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\x05")  # a reset
        writer.write(b"\x80\x03\x00\x07\x00\x00\x00\x08" + bytes(8))  # good-bye
        await writer.drain()
        await reader.read()

    async with wired(tmp_path, serve) as wire:
        spdy = Spdy(wire)
        assert [await spdy.open(streamtype=kind) for kind in ("error", "stdin")] == [1, 3]
        await spdy.send(3, b"y" * 5000, last=True)
        found = [piece async for piece in spdy.received()]
        assert b"".join(piece.data for piece in found if piece.stream == 5) == bytes(100_000)
        assert [(piece.stream, piece.data) for piece in found if piece.last] == [(5, b""), (1, b"")]
    assert b"".join(heard) == b"y" * 5000
