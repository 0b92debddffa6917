"""The runtime port's contract, on every runtime: archives of files in containers."""

from __future__ import annotations

import contextlib
import gzip
import io
import tarfile
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from tests.support.runtimes import Bench
from zun.domain.errors import (
    EngineNotFound,
    PathRefused,
)
from zun.runtime.base import PathStat


def packed(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


async def in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1000):
        yield content[start : start + 1000]


async def fetched(bench: Bench, uuid: str, path: str) -> tuple[PathStat, dict[str, bytes]]:
    async with bench.runtime.get_archive(uuid, path) as (stat, pieces):
        raw = b"".join([piece async for piece in pieces])
    with tarfile.open(fileobj=io.BytesIO(raw)) as opened:
        files = {one.name: opened.extractfile(one) for one in opened if one.isfile()}
        return stat, {name: content.read() for name, content in files.items() if content}


@pytest.mark.parametrize("state", ["created", "running", "paused", "stopped"])
async def test_archives_go_in_and_out_in_every_state(bench: Bench, state: str) -> None:
    uuid = await bench.created() if state == "created" else await bench.running()
    if state == "paused":
        await bench.runtime.pause(uuid)
    if state == "stopped":
        await bench.runtime.stop(uuid, 0)
    await bench.runtime.put_archive(uuid, "/tmp", in_pieces(packed({"a.txt": b"hello", "d/b": bytes(3000)})))
    stat, files = await fetched(bench, uuid, "/tmp/a.txt")
    assert files == {"a.txt": b"hello"}
    assert (stat.name, stat.size, stat.mode & 0o777, stat.link_target) == ("a.txt", 5, 0o644, "")
    _, files = await fetched(bench, uuid, "/tmp/d")
    assert files == {"d/b": bytes(3000)}


async def test_paths_and_archives_that_are_wrong_are_refused(bench: Bench) -> None:
    uuid = await bench.running()
    archive = packed({"a": b"x"})
    await bench.runtime.put_archive(uuid, "/tmp", in_pieces(archive))
    for path in ("/nowhere", "/tmp/a"):
        with pytest.raises(PathRefused):
            await bench.runtime.put_archive(uuid, path, in_pieces(archive))
    for wrong in (b"no archive at all" * 100, packed({"b": bytes(9000)})[:4000]):
        with pytest.raises(PathRefused):
            await bench.runtime.put_archive(uuid, "/tmp", in_pieces(wrong))
    with pytest.raises(PathRefused, match="/nowhere"):
        async with bench.runtime.get_archive(uuid, "/nowhere"):
            pass
    for missing in (str(uuid4()),):
        with pytest.raises(EngineNotFound):
            await bench.runtime.put_archive(missing, "/tmp", in_pieces(archive))
        with pytest.raises(EngineNotFound):
            async with bench.runtime.get_archive(missing, "/tmp"):
                pass


def extended(key: str, value: str) -> bytes:
    """An archive of one file whose extended header says so."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as made:
        member = tarfile.TarInfo("a")
        member.size, member.pax_headers = 5, {key: value}
        made.addfile(member, io.BytesIO(b"hello"))
    return buffer.getvalue()


@pytest.mark.parametrize("wrong", [
    extended("GNU.sparse.map", ""), extended("GNU.sparse.map", "0,x"), extended("size", "-1"),
    gzip.compress(packed({"a": bytes(5000)}))[:60],
], ids=["empty map", "no number in a map", "negative size", "cut gzip"])  # fmt: skip
async def test_archives_whose_inside_is_broken_are_refused_if_not_taken(bench: Bench, wrong: bytes) -> None:
    """What readers of archives make of them differs; no other error comes of it."""
    uuid = await bench.running()
    with contextlib.suppress(PathRefused):
        await bench.runtime.put_archive(uuid, "/tmp", in_pieces(wrong))
    await bench.runtime.put_archive(uuid, "/tmp", in_pieces(packed({"a": b"x"})))


async def test_a_large_archive_for_a_folder_that_is_missing_is_refused_for_that(bench: Bench) -> None:
    """The engine answers before it has read everything."""
    uuid = await bench.running()
    with pytest.raises(PathRefused, match="/nowhere"):
        await bench.runtime.put_archive(uuid, "/nowhere", in_pieces(packed({"big": bytes(8 * 1024 * 1024)})))
