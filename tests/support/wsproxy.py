"""The proxy of sessions in this process: its own port, the API's database, and a relay that the test steers."""

from __future__ import annotations

import json
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import REGISTRY
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

from tests.support.certificates import make_certificates
from tests.support.containers import Plane, make_plane
from zun.wsproxy.relay_link import RelayLink
from zun.wsproxy.server import Proxy

EXEC_ID = "0f" * 32
URL = "/v1/containers"
Script = Callable[[ServerConnection], Awaitable[None]]


async def echo(connection: ServerConnection) -> None:
    """As ``cat`` would: what comes goes back; at the end of input it ends with exit code 7."""
    async for message in connection:
        if message == '{"eof": true}':
            await connection.send('{"exit": 7}')
            return
        if isinstance(message, bytes):
            await connection.send(message)


@dataclass
class RelayDouble:
    """A relay whose session is ``script``; ``controls`` and ``paths`` are what came."""

    address: str = ""
    script: Script = echo
    controls: list[Any] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    open: list[ServerConnection] = field(default_factory=list)

    async def handle(self, connection: ServerConnection) -> None:
        assert connection.request
        self.paths.append(connection.request.path)
        self.open.append(connection)
        try:
            await self.script(connection)
        finally:
            self.open.remove(connection)

    def control(self, message: str) -> None:
        self.controls.append(json.loads(message))


@dataclass
class ProxyRig:
    """What a test holds."""

    plane: Plane
    relay: RelayDouble
    port: int
    lines: list[str]
    clients: list[ClientConnection] = field(default_factory=list)
    """Closed at the end: one that is left to the garbage collector fails whichever test runs then."""

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/"

    async def container(self, **body: Any) -> str:
        made = await self.plane.create(self.plane.client(), interactive=True, tty=True, **body)
        return str(made["uuid"])

    async def exec_url(self, uuid: str | None = None, exec_id: str = EXEC_ID) -> str:
        """The address of a new exec session."""
        self.plane.bus.answers["open_exec"] = exec_id
        asked = {"command": "sh", "interactive": True, "run": False}
        answer = await self.plane.client().post(f"{URL}/{uuid or await self.container()}/execute", json=asked)
        return str(answer.json()["proxy_url"])

    async def attach_url(self, uuid: str | None = None) -> str:
        answer = await self.plane.client().get(f"{URL}/{uuid or await self.container()}/attach")
        return str(answer.json())

    @property
    def counted(self) -> int:
        """Sessions that the proxy has now, as its metrics say. One is in the audit before it is over."""
        return int(REGISTRY.get_sample_value("zun_proxy_sessions") or 0)

    def audit(self) -> list[dict[str, str]]:
        """The audit's lines so far, by field; quotes are gone."""
        import shlex

        return [dict(word.split("=", 1) for word in shlex.split(line)) for line in self.lines]


class _Lines(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


@asynccontextmanager
async def audit_lines() -> AsyncIterator[list[str]]:
    """What the audit writes meanwhile."""
    log, lines = logging.getLogger("zun.wsproxy.audit"), list[str]()
    handler, level = _Lines(lines), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        log.setLevel(level)
        log.removeHandler(handler)


@asynccontextmanager
async def relay_double(folder: Path) -> AsyncIterator[tuple[RelayDouble, ssl.SSLContext]]:
    """The relay, and what a proxy needs to trust it."""
    made = make_certificates(folder, "relay")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(made.certificate, made.key)
    double = RelayDouble()
    async with serve(
        double.handle, "0.0.0.0", 0, ssl=server, compression=None, ping_interval=None, max_queue=1, close_timeout=1
    ) as serving:
        double.address = f"127.0.0.1:{serving.sockets[0].getsockname()[1]}"
        yield double, ssl.create_default_context(cafile=str(made.ca))


@asynccontextmanager
async def proxy_rig(folder: Path, options: dict[str, Any] | None = None, **more: Any) -> AsyncIterator[ProxyRig]:
    """A host that is up with a relay, the API, and the proxy on a free port; ``more`` goes to the proxy."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        listening.setblocking(False)
        port = listening.getsockname()[1]
        settings = {"websocket_proxy.wsproxy_port": port} | (options or {})
        async with make_plane(folder, settings) as plane, relay_double(folder / "tls") as (double, trust):
            await plane.add_host()
            await plane.set_service(relay=double.address)
            link = RelayLink(lambda: trust, 10)
            proxy = Proxy(plane.api.conf, plane.db, plane.clock, link.connect, **more)
            async with audit_lines() as lines, proxy.serving(listening):
                rig = ProxyRig(plane, double, port, lines)
                yield rig
                for client in rig.clients:
                    await client.close()


def opened(url: str, **more: Any) -> connect:
    """A client's connection, as the stock client makes it; use it with ``async with``."""
    settings: dict[str, Any] = {
        "subprotocols": ["binary", "base64"],
        "compression": None,
        "proxy": None,
        "open_timeout": 60,
    }
    return connect(url, **settings | more)


async def received(client: ClientConnection, size: int) -> bytes:
    """So many bytes."""
    found = b""
    while len(found) < size:
        message = await client.recv()
        found += message if isinstance(message, bytes) else message.encode()
    return found
