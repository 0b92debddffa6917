"""A relay of a node in this process, on any engine, with the proxy's end in the test's hand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.api import configure, create_tables
from tests.support.sessions import SessionsBench
from zun.compute.node import Node
from zun.compute.relay import Relay
from zun.domain.clock import SystemClock
from zun.domain.session import Session, SessionKind, hash_token, new_token
from zun.relay import tls
from zun.store import sessions
from zun.store.database import Database

HOST = "node-1"
NOBODY: Any = None
"""Ports that a relay does not use."""


class RelayBench:
    """``bench`` has the engine; ``relay`` serves its containers as those of ``HOST``."""

    def __init__(self, bench: SessionsBench, folder: Path, options: dict[str, Any]) -> None:
        self.bench = bench
        self.conf = configure(folder, options)
        self.clock = SystemClock()
        self.db = Database.of(self.conf)
        pods = hasattr(bench.port, "run_sandbox")
        self.is_member = pods
        self.node = Node(
            conf=self.conf,
            db=self.db,
            clock=self.clock,
            bus=NOBODY,
            runtime=NOBODY if pods else cast("Any", bench.port),
            pods=cast("Any", bench.port) if pods else None,
            images={},
            network=NOBODY,
            volumes={},
            placement=NOBODY,
            cipher=NOBODY,
            host=HOST,
            deployment_id="d",
            instance="i",
        )
        self.relay = Relay(self.node)

    async def exec_row(self, uuid: str, *command: str, tty: bool = False, stdin: bool = True) -> Session:
        """A session with a command, opened by a proxy just now, as it stands in the database."""
        exec_id = await self.bench.port.open_exec(uuid, command, tty=tty, stdin=stdin)
        self.node.execs.asked(exec_id, uuid)
        return await self.row(uuid, exec_id=exec_id, command=list(command), tty=tty, stdin=stdin)

    async def attach_row(self, uuid: str) -> Session:
        return await self.row(uuid, kind=SessionKind.ATTACH, stdin=True)

    async def row(self, uuid: str, **fields: Any) -> Session:
        now = self.clock.now()
        plain = Session(
            uuid=str(uuid4()),
            token_hash=hash_token(new_token()),
            kind=SessionKind.EXEC,
            container_uuid=uuid,
            capsule_uuid=str(uuid4()) if self.is_member else None,
            host=HOST,
            exec_id=None,
            command=None,
            tty=False,
            stdin=False,
            project_id="p",
            user_id="u",
            request_id="req-1",
            created_at=now,
            expires_at=now + timedelta(seconds=600),
            opened_at=now,
        )
        made = replace(plain, **fields)
        async with self.db.write() as connection:
            await sessions.insert(connection, made)
        return made

    async def stored(self, uuid: str) -> Session:
        async with self.db.read() as connection:
            found = await sessions.get(connection, uuid)
        assert found is not None
        return found

    @asynccontextmanager
    async def proxy(self, session: Session | str, **options: Any) -> AsyncIterator[Proxy]:
        """A proxy's connection for a session (a row, or a path after the relay's address)."""
        path = f"/v1/sessions/{session.uuid}" if isinstance(session, Session) else session
        plain = {"ssl": tls.proxy_context(self.conf), "compression": None, "max_queue": 1, "ping_interval": None}
        async with connect(f"wss://{self.relay.address}{path}", **plain | {"proxy": None} | options) as made:
            yield Proxy(made)


class Proxy:
    """What a proxy sends and hears."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.shown = b""
        self.exit: int | str | None = "not told"

    async def send(self, data: bytes) -> None:
        await self.connection.send(data)

    async def eof(self) -> None:
        await self.connection.send('{"eof": true}')

    async def resize(self, height: int, width: int) -> None:
        await self.connection.send(orjson.dumps({"resize": {"height": height, "width": width}}).decode())

    async def pieces(self) -> AsyncIterator[bytes]:
        """Output to the end."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                message = await self.connection.recv()
                if isinstance(message, str):
                    self.exit = orjson.loads(message)["exit"]
                else:
                    yield message

    async def until(self, text: bytes, limit: float = 60.0) -> bytes:
        """Output up to and with ``text``; what follows is kept for the next call."""
        async with asyncio.timeout(limit):
            while text not in self.shown:
                message = await self.connection.recv()
                assert isinstance(message, bytes), message
                self.shown += message
        found, mark, self.shown = self.shown.partition(text)
        return found + mark

    async def rest(self, limit: float = 60.0) -> bytes:
        async with asyncio.timeout(limit):
            async for piece in self.pieces():
                self.shown += piece
        found, self.shown = self.shown, b""
        return found

    @property
    def closed(self) -> tuple[int | None, str | None]:
        """Close code and reason."""
        return self.connection.close_code, self.connection.close_reason

    def vanish(self) -> None:
        """As a proxy that is killed."""
        self.connection.transport.abort()


@asynccontextmanager
async def relay_bench(bench: SessionsBench, folder: Path, **options: Any) -> AsyncIterator[RelayBench]:
    """A serving relay; options of ``[relay]``. Nothing of it is left afterwards."""
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    named = {"relay.listen": "127.0.0.1", "relay.ping_interval": 1} | {
        f"relay.{name}": value for name, value in options.items()
    }
    made = RelayBench(bench, folder, named)
    create_tables(made.conf)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(made.db.close)
        await stack.enter_async_context(made.relay.serving())
        yield made
