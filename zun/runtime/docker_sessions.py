"""Interactive sessions with a Docker container: a connection of its own, which the engine hands over to the streams."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from zun.domain.errors import EngineConflict, EngineError, EngineNotFound, EngineUnreachable
from zun.runtime import docker_exec
from zun.runtime.detach import KEYS
from zun.runtime.docker_client import DockerClient
from zun.runtime.docker_streams import Demultiplexer
from zun.runtime.wire import Wire, WireClosed

LOG = logging.getLogger(__name__)

_RESIZE_TRIES = 8
_BEGINS_TRIES = 15


class _DockerSession(ABC):
    """What both kinds share."""

    failure = ""
    detached = False

    def __init__(self, client: DockerClient, wire: Wire, *, tty: bool) -> None:
        self._client = client
        self._wire = wire
        self._tty = tty
        self._input_ended = False
        self.exit_code: int | None = None

    async def write(self, data: bytes) -> None:
        if self._input_ended:
            return
        try:
            await self._wire.write(data)
        except WireClosed as error:
            raise self._over(error) from error

    async def close_stdin(self) -> None:
        if self._input_ended:
            return
        self._input_ended = True
        try:
            if not self._wire.end_input():
                LOG.warning("action=session result=input left open reason=the engine is reached over TLS")
        except WireClosed as error:
            raise self._over(error) from error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        frames = Demultiplexer()
        try:
            while piece := await self._wire.read():
                data = piece if self._tty else frames.feed(piece)
                if data:
                    yield data
        except WireClosed as error:
            raise EngineUnreachable(f"{self._client.endpoint} broke off the session: {error}") from error
        await self._ended()

    @abstractmethod
    async def _ended(self) -> None:
        """All output has come: what the engine says of the end is taken."""

    def _over(self, error: WireClosed) -> EngineUnreachable:
        return EngineUnreachable(f"{self._client.endpoint} has ended the session: {error}")

    async def _resize(self, path: str, height: int, width: int) -> None:
        """Right after its start the engine may not know the command yet (S4.9)."""
        params = {"h": str(height), "w": str(width)}
        pause = 0.02
        for _ in range(_RESIZE_TRIES):
            try:
                await self._client.call("POST", path, params=params)
                return
            except EngineUnreachable:
                raise
            except EngineError as error:
                LOG.debug("action=session resize=refused reason=%s", error.text)
            await asyncio.sleep(pause)
            pause *= 1.6


class DockerExec(_DockerSession):
    """A command."""

    def __init__(self, client: DockerClient, wire: Wire, exec_id: str, *, tty: bool) -> None:
        super().__init__(client, wire, tty=tty)
        self._exec_id = exec_id

    async def resize(self, *, height: int, width: int) -> None:
        if self._tty:
            await self._resize(f"exec/{self._exec_id}/resize", height, width)

    async def end_command(self) -> None:
        """Waits for its begin: the engine hands the streams over before there is a process."""
        pause = 0.02
        for _ in range(_BEGINS_TRIES):
            with contextlib.suppress(EngineError):
                if await docker_exec.begun(self._client, self._exec_id):
                    break
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.5)
        await docker_exec.end(self._client, self._exec_id)

    async def _ended(self) -> None:
        try:
            self.exit_code = await docker_exec.exit_code(self._client, self._exec_id)
        except EngineNotFound as error:  # an engine that was restarted has forgotten its commands
            raise EngineUnreachable(f"{self._client.endpoint} broke off the session: {error.text}") from error


class DockerAttach(_DockerSession):
    """A container's own streams."""

    def __init__(self, client: DockerClient, wire: Wire, facts: Mapping[str, Any]) -> None:
        super().__init__(client, wire, tty=bool(facts["Config"]["Tty"]))
        self._facts = facts
        self._last = b""

    async def write(self, data: bytes) -> None:
        self._last = (self._last + data)[-len(KEYS) :]
        await super().write(data)

    async def resize(self, *, height: int, width: int) -> None:
        if self._tty:
            await self._resize(f"containers/{self._facts['Id']}/resize", height, width)

    async def end_command(self) -> None:
        """There is none."""

    async def _ended(self) -> None:
        """With the container, or because somebody typed so, or with the input of one without a terminal; any other end
        is the engine's."""
        try:
            now = await self._client.call("GET", f"containers/{self._facts['Id']}/json")
        except EngineNotFound:
            return
        if not now["State"]["Running"] or now["State"]["StartedAt"] != self._facts["State"]["StartedAt"]:
            return
        self.detached = self._last == KEYS if self._tty else self._input_ended
        if not self.detached:
            raise EngineUnreachable(f"{self._client.endpoint} broke off the session")


@asynccontextmanager
async def run(client: DockerClient, exec_id: str, *, tty: bool) -> AsyncIterator[DockerExec]:
    """A session with a command that was prepared. Raises EngineNotFound, EngineConflict (it ran before)."""
    if await docker_exec.begun(client, exec_id):  # asked again the engine would say so among the output
        raise EngineConflict("the command was run before")
    wire = await client.hijack(f"exec/{exec_id}/start", body={"Detach": False, "Tty": tty})
    try:
        yield DockerExec(client, wire, exec_id, tty=tty)
    finally:
        await wire.close()


@asynccontextmanager
async def attach(client: DockerClient, container: str, *, stdin: bool) -> AsyncIterator[DockerAttach]:
    """A session with a running container's streams, from now on."""
    facts = await client.call("GET", f"containers/{container}/json")
    if not facts["State"]["Running"]:
        raise EngineConflict(f"Container {container} is not running")
    wanted = {"logs": "0", "stream": "1", "stdin": str(int(stdin)), "stdout": "1", "stderr": "1"}
    wire = await client.hijack(f"containers/{facts['Id']}/attach", params=wanted)
    try:
        yield DockerAttach(client, wire, facts)
    finally:
        await wire.close()
