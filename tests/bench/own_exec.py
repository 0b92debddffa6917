"""One exec in a terminal over the engine's own socket: the floor of sessions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import httpx

from tests.support.engine import SOCKET


class OwnExec:
    """In a container of the product, made and read without it."""

    def __init__(self, uuid: str, command: Sequence[str]) -> None:
        self._container, self._command = f"zun-{uuid}", list(command)

    async def __aenter__(self) -> OwnExec:
        body = {"Cmd": self._command, "Tty": True, **{f"Attach{name}": True for name in ("Stdin", "Stdout", "Stderr")}}
        transport = httpx.AsyncHTTPTransport(uds=SOCKET)
        async with httpx.AsyncClient(transport=transport, base_url="http://docker") as http:
            made = await http.post(f"/containers/{self._container}/exec", json=body)
            assert made.status_code == 201, made.text
        start = json.dumps({"Detach": False, "Tty": True}).encode()
        self._reader, self._writer = await asyncio.open_unix_connection(SOCKET, limit=1024 * 1024)
        head = f"POST /exec/{made.json()['Id']}/start HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n"
        upgrade = f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(start)}\r\n\r\n"
        self._writer.write((head + upgrade).encode() + start)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        assert b" 101 " in answer.splitlines()[0], answer
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def key(self) -> None:
        self._writer.write(b"k")
        assert await self._reader.readexactly(1) == b"k"

    async def until(self, text: bytes) -> None:
        await self._reader.readuntil(text)

    async def read_all(self) -> int:
        """Bytes up to the end."""
        count = 0
        while piece := await self._reader.read(256 * 1024):
            count += len(piece)
        return count
