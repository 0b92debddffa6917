"""Connections of the engine's client."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.runtimes import conf_with
from zun.domain.errors import EngineConflict, EngineUnreachable, PluginSilent
from zun.runtime.docker_client import DockerClient

SENT = 8 * 1024 * 1024
"""Bytes given to the client at once: far more than a socket holds."""


class Refusing:
    """An engine that answers a request's head, reads no more until ``read_on`` is set, then counts what comes."""

    def __init__(self, path: Path) -> None:
        self.url = f"unix://{path}"
        self.read_on = threading.Event()
        self.received = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        with self._listener:
            version = b'{"ApiVersion": "1.41", "Version": "20", "MinAPIVersion": "1.12"}'
            self._answer(b"200 OK", version).close()
            with self._answer(b"409 Conflict", b'{"message": "not now"}') as upload:
                assert self.read_on.wait(60)
                upload.settimeout(30)
                while piece := upload.recv(65536):
                    self.received += len(piece)

    def _answer(self, status: bytes, body: bytes) -> socket.socket:
        connection, _ = self._listener.accept()
        connection.recv(1024)
        head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        connection.sendall(head % (status, len(body)) + body)
        return connection


async def test_a_refused_upload_is_dropped_and_not_sent_to_its_end(tmp_path: Path) -> None:
    engine = Refusing(tmp_path / "engine.sock")
    client = DockerClient(conf_with(api_url=engine.url))

    async def archive() -> AsyncIterator[bytes]:
        yield bytes(SENT)

    with pytest.raises(EngineConflict):
        async with client.exchange("PUT", "containers/c/archive", data=archive()):
            pass
    await client.close()
    engine.read_on.set()
    await asyncio.to_thread(engine.thread.join, 60)
    assert not engine.thread.is_alive()
    assert engine.received < SENT / 2


class Waiting:
    """An engine that answers ``version`` and nothing about container ``held``: its plug-in keeps it waiting."""

    def __init__(self, path: Path) -> None:
        self.url = f"unix://{path}"
        self.answers_versions = True

    async def __aenter__(self) -> Waiting:
        self._open: list[asyncio.StreamWriter] = []
        self._server = await asyncio.start_unix_server(self._serve, self.url.removeprefix("unix://"))
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for writer in self._open:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/containers/held" in head or (b"/version" in head and not self.answers_versions):
            return
        body = b'{"ApiVersion": "1.41", "Version": "20", "MinAPIVersion": "1.12"}'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
        writer.write(body)
        await writer.drain()


async def silence(
    client: DockerClient, path: str = "containers/held/start", *, plugs: bool = True
) -> EngineUnreachable:
    with pytest.raises(EngineUnreachable) as caught:
        await client.call("POST", path, plugs=plugs)
    return caught.value


async def test_a_plug_in_that_keeps_the_engine_waiting_is_named(tmp_path: Path) -> None:
    async with Waiting(tmp_path / "engine.sock") as engine:
        client = DockerClient(conf_with(api_url=engine.url, default_timeout=1), plugging=0.5)
        await client.call("POST", "containers/other/start", plugs=True)
        other = await silence(client, "containers/held/pause", plugs=False)
        assert type(other) is EngineUnreachable  # nothing tells of a plug-in yet
        error = await silence(client)
        assert isinstance(error, PluginSilent)
        assert error.message == (
            "Kuryr (the network plug-in of Docker) did not do its part within 1.5 seconds, while Docker itself answers."
        )
        assert type(await silence(client, "containers/held/json", plugs=False)) is PluginSilent
        await client.close()


async def test_an_engine_without_a_plug_in_or_that_answers_nobody_is_named_itself(tmp_path: Path) -> None:
    async with Waiting(tmp_path / "engine.sock") as engine:
        plain = DockerClient(conf_with(api_url=engine.url, default_timeout=1))
        assert type(await silence(plain)) is EngineUnreachable
        await plain.close()
        client = DockerClient(conf_with(api_url=engine.url, default_timeout=1), plugging=0.5)
        await client.connect()
        engine.answers_versions = False
        assert type(await silence(client)) is EngineUnreachable
        await client.close()
