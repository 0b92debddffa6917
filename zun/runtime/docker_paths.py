"""Files into and out of a container, through Docker: its own look-up of paths stays within the container."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from zun.domain.errors import EngineConflict, EngineError, EngineNotFound, EngineUnreachable, PathRefused
from zun.runtime.base import PathStat
from zun.runtime.docker_client import DockerClient

_STAT = "X-Docker-Container-Path-Stat"
_PIECE = 256 * 1024
_HOST_PATH = re.compile(r"/[^ ]*/(?:merged|diff|mnt|rootfs)(?=/)")
"""Where the engine keeps a container's files: nothing for its users."""
_FULL = ("no space left", "disk quota exceeded")


@asynccontextmanager
async def read(client: DockerClient, container: str, path: str) -> AsyncIterator[tuple[PathStat, AsyncIterator[bytes]]]:
    """The path's facts and its tar archive. Raises PathRefused."""
    try:
        async with client.exchange("GET", f"containers/{container}/archive", params={"path": path}) as response:
            yield stat_of(response.headers.get(_STAT, "")), response.content.iter_chunked(_PIECE)
    except EngineError as error:
        raise refusal(error) from error


async def write(client: DockerClient, container: str, path: str, archive: AsyncIterator[bytes]) -> None:
    """Unpack into the folder. Raises PathRefused."""
    headers = {"Content-Type": "application/x-tar"}
    fed = _Fed(archive)
    sent = client.exchange(
        "PUT", f"containers/{container}/archive", params={"path": path}, headers=headers, data=fed.pieces()
    )
    try:
        async with sent as response:
            await response.read()
    except EngineUnreachable as error:
        # An engine that refuses does not read the rest of a large archive, and its words are lost with the connection.
        if not fed.begun or fed.ended:
            raise
        await _ask_why(client, container, path)
        raise PathRefused(f"The archive could not be unpacked in {path}.") from error
    except EngineError as error:
        raise refusal(error) from error


class _Fed:
    """How far the engine took the archive."""

    def __init__(self, archive: AsyncIterator[bytes]) -> None:
        self._archive = archive
        self.begun = self.ended = False

    async def pieces(self) -> AsyncIterator[bytes]:
        self.begun = True
        async for piece in self._archive:
            yield piece
        self.ended = True


async def _ask_why(client: DockerClient, container: str, path: str) -> None:
    """The same with an empty archive: refused for what is wrong with the container or its folder."""

    async def nothing() -> AsyncIterator[bytes]:
        yield b"\0" * 1024
        await asyncio.sleep(0)

    try:
        async with client.exchange(
            "PUT", f"containers/{container}/archive", params={"path": path}, data=nothing()
        ) as response:
            await response.read()
    except EngineError as error:
        raise refusal(error) from error


def stat_of(header: str) -> PathStat:
    """Docker's header to the port's facts. Raises EngineError."""
    try:
        facts = json.loads(base64.b64decode(header, validate=True))
        return PathStat(
            name=str(facts["name"]),
            size=int(facts["size"]),
            mode=int(facts["mode"]),
            mtime=str(facts["mtime"]),
            link_target=str(facts.get("linkTarget") or ""),
        )
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"the engine tells nothing of the path: {error}") from error


def refusal(error: EngineError) -> EngineError:
    """What Docker says of a path; it gives 404 for a missing path as for a missing container, and 500 for the rest."""
    text = _HOST_PATH.sub("", error.text)
    lower = text.lower()
    if isinstance(error, EngineUnreachable | EngineConflict | PathRefused):
        return error
    if isinstance(error, EngineNotFound) and "no such container" in lower:
        return error
    if any(words in lower for words in _FULL):
        return EngineError(text)
    return PathRefused(text)
