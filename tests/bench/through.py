"""One session of the product, as a browser or a terminal has it, and what a bench needs around it."""

from __future__ import annotations

import asyncio

import httpx
import psutil
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedOK
from websockets.typing import Subprotocol

from tests.support.product import Product

PROMPT = b"ready"
WAITING = ["sh", "-c", f"stty raw -echo; printf {PROMPT.decode()}; exec cat"]


class Through:
    """Opened; ``opened`` makes it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def key(self) -> None:
        await self._socket.send(b"k")
        assert await self._socket.recv() == b"k"

    async def until_ready(self) -> None:
        seen = b""
        while PROMPT not in seen:
            piece = await self._socket.recv()
            seen += piece if isinstance(piece, bytes) else piece.encode()

    async def read_all(self) -> int:
        """Bytes up to the session's end."""
        count = 0
        try:
            while True:
                count += len(await self._socket.recv())
        except ConnectionClosedOK:
            return count

    async def close(self) -> None:
        await self._socket.close()


async def container(client: httpx.AsyncClient, image: str) -> str:
    """The uuid of one that runs."""
    body = {"image": image, "command": ["sleep", "6000"], "cpu": 1, "memory": 512, "image_pull_policy": "ifnotpresent"}
    answer = await client.post("/v1/containers", params={"run": "true"}, json=body)
    assert answer.status_code == 202, answer.text
    uuid = str(answer.json()["uuid"])
    while (shown := (await client.get(f"/v1/containers/{uuid}")).json())["status"] != "Running":
        assert shown["status"] != "Error", shown["status_reason"]
        await asyncio.sleep(0.05)
    return uuid


async def opened(client: httpx.AsyncClient, uuid: str, command: list[str]) -> Through:
    """A session with ``command`` in a terminal."""
    words = " ".join(f"'{word}'" for word in command)
    asked = {"command": words, "run": False, "interactive": True}
    # A session may be as long as the API keeps a connection: it would end one in the moment in which it is used again.
    once = {"Connection": "close"}
    answer = await client.post(f"/v1/containers/{uuid}/execute", json=asked, headers=once)
    assert answer.status_code == 200, answer.text
    binary = [Subprotocol("binary")]
    return Through(
        await connect(answer.json()["proxy_url"], subprotocols=binary, compression=None, max_size=None, open_timeout=60)
    )


def memory(product: Product) -> int:
    """Resident bytes of all processes of the product."""
    first = psutil.Process(product.pid)
    return sum(process.memory_info().rss for process in (first, *first.children(recursive=True)))
