"""A network that does not change, for a browser: it gives up what it loads whenever an address comes or goes on its
machine, and other tests' containers come and go all the time. So it runs in a namespace of its own, and reaches the
machine's ports through a SOCKS proxy whose socket lies in there."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.namespaces import Namespace
from zun.plumbing import netns

_PORT = 1080
_CONNECT = b"\x05\x01\x00"
_NAME, _IPV4 = 3, 1
_PIECE = 64 * 1024


@asynccontextmanager
async def still_network(program: str, folder: Path) -> AsyncIterator[tuple[Path, list[str]]]:
    """A program to start in the place of the browser's, and the flags that it needs."""
    namespace = Namespace()
    try:
        namespace.ip("link", "set", "lo", "up")
        server = await asyncio.start_server(_serve, sock=await asyncio.to_thread(_listening_in, namespace))
        async with server:
            script = folder / "browser"
            script.write_text(f'#!/bin/sh\nexec {" ".join(namespace.inside)} {program} "$@"\n')
            script.chmod(stat.S_IRWXU)
            yield script, [f"--proxy-server=socks5://127.0.0.1:{_PORT}", "--proxy-bypass-list=<-loopback>"]
    finally:
        namespace.close()


def _listening_in(namespace: Namespace) -> socket.socket:
    with netns.inside(namespace.fd):
        return socket.create_server(("127.0.0.1", _PORT))


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection of the browser's, to a port of the machine."""
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):  # either side left
        try:
            host, port = await _greeted(reader, writer)
            try:
                far_reader, far_writer = await asyncio.open_connection(host, port)
            except OSError:
                writer.write(b"\x05\x05\x00\x01" + bytes(6))  # connection refused
                return
            try:
                writer.write(b"\x05\x00\x00\x01" + bytes(6))
                await asyncio.gather(_pass(reader, far_writer), _pass(far_reader, writer))
            finally:
                far_writer.close()
        finally:
            writer.close()


async def _greeted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
    """Where it wants to go (RFC 1928)."""
    _, methods = await reader.readexactly(2)
    await reader.readexactly(methods)
    writer.write(b"\x05\x00")
    asked = await reader.readexactly(4)
    assert asked[:3] == _CONNECT, asked
    assert asked[3] in (_NAME, _IPV4), asked
    if asked[3] == _NAME:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
    else:
        host = socket.inet_ntoa(await reader.readexactly(4))
    return host, struct.unpack("!H", await reader.readexactly(2))[0]


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
    finally:
        if writer.can_write_eof() and not writer.is_closing():
            writer.write_eof()
