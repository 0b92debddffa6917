"""Image archives on their way through: one name, whatever is inside and however it is cut."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zun.runtime.archive import LARGEST_INDEX, BadArchive, Renamed
from zun.runtime.archive_stream import renamed

NAME = "glance.invalid/x:latest"
MANIFEST = [{"Config": "c.json", "RepoTags": ["busybox:latest", "other:1"], "Layers": ["l/layer.tar"]}]
LAYOUT = {
    "schemaVersion": 2,
    "manifests": [{"digest": "sha256:1", "annotations": {"io.containerd.image.name": "busybox:latest", "kept": "1"}}],
}
LAYER = bytes(range(256)) * 999


def archive(
    *,
    manifest: Any = MANIFEST,
    more: Sequence[tuple[tarfile.TarInfo, bytes]] = (),
    format: int = tarfile.GNU_FORMAT,
    layer: str = "l/layer.tar",
) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as tar:
        files = {"c.json": b"{}", layer: LAYER, "repositories": b"{}", "index.json": json.dumps(LAYOUT).encode()}
        if manifest is not None:
            files["manifest.json"] = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        for entry, content in more:
            entry.size = len(content) if entry.isreg() else 0
            tar.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def contents(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = {}
        for entry in tar:
            file = tar.extractfile(entry) if entry.isreg() else None
            found[entry.name] = file.read() if file else b""
        return found


def through(data: bytes, size: int = 1000) -> bytes:
    passing = Renamed(NAME)
    out = b"".join(passing.feed(data[start : start + size]) for start in range(0, len(data), size))
    return out + passing.finish()


@settings(deadline=None, max_examples=40, database=None)
@given(
    size=st.integers(1, 5000), format=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
)
def test_the_only_name_is_ours_however_it_is_cut(size: int, format: int) -> None:
    found = contents(through(archive(format=format), size))
    assert json.loads(found["manifest.json"]) == [{**MANIFEST[0], "RepoTags": [NAME]}]
    annotations = json.loads(found["index.json"])["manifests"][0]["annotations"]
    assert annotations == {
        "kept": "1",
        "io.containerd.image.name": NAME,
        "org.opencontainers.image.ref.name": "latest",
    }
    assert "repositories" not in found
    assert found["l/layer.tar"] == LAYER
    assert found["c.json"] == b"{}"


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_pass(format: int) -> None:
    name = "d" * 90 + "/" + "é" * 60 + "/layer.tar"
    assert contents(through(archive(layer=name, format=format)))[name] == LAYER


@pytest.mark.parametrize(
    "path", ["./manifest.json", "/manifest.json", "a/../manifest.json", "l/layer.tar/manifest.json"]
)
def test_no_spelling_of_the_index_brings_other_names(path: str) -> None:
    entry = tarfile.TarInfo(path)
    data = through(archive(more=[(entry, json.dumps(MANIFEST).encode())]))
    assert b"busybox:latest" not in data


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
def test_an_index_that_is_a_link_is_refused(kind: bytes) -> None:
    entry = tarfile.TarInfo("manifest.json")
    entry.type, entry.linkname = kind, "evil.json"
    with pytest.raises(BadArchive, match="no regular file"):
        through(archive(more=[(entry, b"")]))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"x" * 2000, "no tar archive"),
        (b"", "has no manifest.json"),
        (bytes(10240), "has no manifest.json"),
        (archive(manifest=None), "has no manifest.json"),
        (archive(manifest=b"{"), "no JSON"),
        (archive(manifest=b"{}"), "not the list"),
        (archive(manifest=[]), "0 images"),
        (archive(manifest=MANIFEST * 2), "2 images"),
        (archive(manifest=b" " * (LARGEST_INDEX + 1)), "larger than"),
        (archive()[:5000], "cut short"),
        (archive()[:700], "cut short"),
    ],
)
def test_what_is_no_image_is_told(data: bytes, why: str) -> None:
    with pytest.raises(BadArchive, match=why):
        through(data)


def test_nothing_ends_the_archive_before_it_is_finished() -> None:
    data = archive()
    passing = Renamed(NAME)
    given_on = passing.feed(data) + passing.feed(data)
    assert bytes(1024) not in given_on[-1024:]
    assert passing.finish() == bytes(1024)


async def pieces(data: bytes, size: int = 777) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
async def test_compressed_archives_are_unpacked(pack: Callable[[bytes], bytes]) -> None:
    data = archive()
    half = len(data) // 2
    for packed in (
        pack(data),
        pack(data) + bytes(512) if pack is not bytes else data,
        pack(data[:half]) + pack(data[half:]),
    ):
        out = b"".join([piece async for piece in renamed(pieces(packed), NAME)])
        assert out == through(data)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
async def test_damaged_compression_is_told(pack: Callable[[bytes], bytes]) -> None:
    packed = pack(archive())
    for bad in (packed[:-20], packed[:40] + b"\xff" * 40 + packed[80:]):
        with pytest.raises(BadArchive, match="compressed archive is"):
            _ = [piece async for piece in renamed(pieces(bad), NAME)]


async def test_a_little_that_unpacks_to_much_is_given_on_piece_by_piece() -> None:
    from zun.runtime.archive_stream import PIECE, _unpacked

    packed = gzip.compress(bytes(50 * PIECE))
    sizes = [len(piece) async for piece in _unpacked(pieces(packed))]
    assert sum(sizes) == 50 * PIECE
    assert max(sizes) <= PIECE
