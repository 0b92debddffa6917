"""The simulated engine's files: a small tree for each container, as tar archives come and go."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from zun.domain.errors import EngineNotFound, PathRefused
from zun.runtime.base import PathStat
from zun.runtime.simulated_faults import Faults, faulty

_PIECE = 64 * 1024
_FOLDER_MODE = 0x8000_0000 | 0o755
_ROOM = 256 * 1024 * 1024
"""Bytes that one archive may unpack to."""
_WHEN = "2026-01-01T00:00:00Z"


class SimulatedFiles:
    """The part of ``SimulatedRuntime`` that is about files; a folder is a path that others begin with."""

    faults: Faults
    _containers: Mapping[str, Any]

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        """uuid -> path -> content."""

    @asynccontextmanager
    async def get_archive(self, uuid: str, path: str) -> AsyncIterator[tuple[PathStat, AsyncIterator[bytes]]]:
        late = await self.faults.enter("get_archive")
        tree, place = self._tree(uuid), _clean(path)
        base = posixpath.basename(place) or "/"
        found = {name: content for name, content in tree.items() if name == place or _is_below(name, place)}
        if not found:
            raise PathRefused(f"Could not find the file {path} in container zun-{uuid}")
        whole = tree.get(place)
        stat = PathStat(base, 4096, _FOLDER_MODE, _WHEN) if whole is None else PathStat(base, len(whole), 0o644, _WHEN)
        yield stat, _pieces(_packed(base, place, found))
        if late is not None:
            raise late

    @faulty
    async def put_archive(self, uuid: str, path: str, archive: AsyncIterator[bytes]) -> None:
        tree, place = self._tree(uuid), _clean(path)
        if not any(_is_below(name, place) for name in tree):
            what = "extraction point is not a directory" if place in tree else f"Could not find the file {path}"
            raise PathRefused(what)
        raw = b"".join([piece async for piece in archive])
        if not raw:
            return
        for name, content in _unpacked(raw).items():
            tree[_clean(posixpath.join(place, name.lstrip("/")))] = content

    def _tree(self, uuid: str) -> dict[str, bytes]:
        if uuid not in self._containers:
            raise EngineNotFound(f"No such container: zun-{uuid}")
        return self.files.setdefault(uuid, {"/etc/hostname": b"sim\n", "/tmp/.keep": b""})  # noqa: S108


def _clean(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))


def _unpacked(raw: bytes) -> dict[str, bytes]:
    """The archive's files. Raises PathRefused for what is no archive, or unpacks to more than ``_ROOM``."""
    files: dict[str, bytes] = {}
    left = _ROOM
    try:
        with tarfile.open(fileobj=io.BytesIO(raw)) as opened:
            for member in opened:
                left -= member.size
                if member.size < 0 or left < 0:  # also what a header claims of a file full of holes
                    raise PathRefused("Error processing tar file: no space left")
                content = opened.extractfile(member) if member.isfile() else None
                if content is not None:
                    files[member.name] = content.read()
    except PathRefused:
        raise
    except Exception as error:  # whatever its parts stumble over: ValueError, EOFError, zlib.error, OverflowError, ...
        raise PathRefused(f"Error processing tar file: {error}") from error
    return files


def _is_below(name: str, place: str) -> bool:
    return name.startswith("/" if place == "/" else f"{place}/")


def _packed(base: str, place: str, files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as made:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(posixpath.join(base, name[len(place) :].lstrip("/")).rstrip("/"))
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), _PIECE):
        yield content[start : start + _PIECE]
