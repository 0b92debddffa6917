"""Image archives (what ``docker save`` writes and ``docker load`` reads) as they flow past: one name for the image.

Names inside an archive are its maker's choice. Loaded as they are, they would move any name of the engine, other
tenants' included, to this image; so each archive passes ``Renamed``, which leaves it exactly the name that we give.
Nothing is held but the small files that have names in them. Pure.
"""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass, field
from typing import Any

BLOCK = 512
LARGEST_INDEX = 4 * 1024 * 1024
"""Bytes of ``manifest.json`` that are taken at most."""
_LARGEST_EXTENSION = 64 * 1024
_INDEX, _LAYOUT, _LEGACY = "manifest.json", "index.json", "repositories"
_REGULAR = (b"0", b"\0")
_EXTENDED, _GLOBAL, _LONG_NAME, _LONG_LINK = b"x", b"g", b"L", b"K"
_SPARSE = b"S"
_ANNOTATIONS = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


class BadArchive(Exception):
    """What came is no archive of one image; the text says why."""


@dataclass(slots=True)
class _Entry:
    """One member of the archive on its way through."""

    header: bytes
    kind: bytes
    name: str
    left: int
    """Bytes of content that are still to come."""
    padding: int
    held: bytearray | None = None
    """Content that is collected instead of passed on."""


@dataclass(slots=True)
class Renamed:
    """Feed it a tar archive in pieces of any length; what it gives back is the archive under ``reference``.

    The end of the archive is given by ``finish`` only: an engine that was not told of it has loaded nothing.
    """

    reference: str
    _buffer: bytearray = field(default_factory=bytearray)
    _entry: _Entry | None = None
    _extensions: bytearray = field(default_factory=bytearray)
    """Headers that extend the next member, as they came."""
    _name: str | None = None
    _size: int | None = None
    _ended: bool = False
    _images: int = 0

    def feed(self, data: bytes) -> bytes:
        """Raises BadArchive."""
        if self._ended:  # padding behind the end of the archive
            return b""
        self._buffer += data
        out = bytearray()
        while not self._ended and self._step(out):
            pass
        return bytes(out)

    def finish(self) -> bytes:
        """The end of the archive. Raises BadArchive when it was cut short or holds no image."""
        if self._entry is not None or self._extensions or (self._buffer and not self._ended):
            raise BadArchive("the archive is cut short")
        if not self._images:
            raise BadArchive(f"the archive has no {_INDEX}; it has to be what `docker save` writes")
        return bytes(2 * BLOCK)

    def _step(self, out: bytearray) -> bool:
        """One header, or a piece of content; False when more has to come first."""
        entry = self._entry
        if entry is None:
            if len(self._buffer) < BLOCK:
                return False
            header = bytes(self._buffer[:BLOCK])
            del self._buffer[:BLOCK]
            if not any(header):
                self._ended = True
                self._buffer.clear()
            else:
                self._entry = self._begin(header, out)
            return True
        if entry.left:
            if not self._buffer:
                return False
            piece = bytes(self._buffer[: entry.left])
            del self._buffer[: len(piece)]
            entry.left -= len(piece)
            if entry.held is not None:
                entry.held += piece
            else:
                out += piece
            return True
        if len(self._buffer) < entry.padding:
            return False
        del self._buffer[: entry.padding]
        self._entry = None
        self._end(entry, out)
        return True

    def _begin(self, header: bytes, out: bytearray) -> _Entry:
        _require_checksum(header)
        kind, size = header[156:157], _number(header[124:136])
        if kind in (_EXTENDED, _GLOBAL, _LONG_NAME, _LONG_LINK):
            _require_size(size, _LARGEST_EXTENSION, "an extended header")
            return _Entry(header, kind, "", size, -size % BLOCK, bytearray())
        if kind == _SPARSE:  # has more headers than its own, and nobody saves images so
            raise BadArchive("a member of the archive is a sparse file")
        name = _path(self._name or _header_name(header))
        size = size if self._size is None else self._size
        self._name = self._size = None
        entry = _Entry(header, kind, name, size, -size % BLOCK)
        if posixpath.basename(name) in (_INDEX, _LAYOUT, _LEGACY):
            if kind not in _REGULAR or len(name.encode()) > 100:  # a link could lead to a file with other names
                raise BadArchive(f"{name[:100]} in the archive is no regular file")
            _require_size(size, LARGEST_INDEX, name)
            entry.held = bytearray()
            self._extensions.clear()
        else:
            out += self._extensions + header
            self._extensions.clear()
        return entry

    def _end(self, entry: _Entry, out: bytearray) -> None:
        if entry.held is None:
            out += bytes(entry.padding)
            return
        content = bytes(entry.held)
        if entry.kind in (_EXTENDED, _GLOBAL, _LONG_NAME, _LONG_LINK):
            if entry.kind == _LONG_NAME:
                self._name = content.rstrip(b"\0").decode("utf-8", "replace")
            elif entry.kind == _EXTENDED:
                self._take_extension(content)
            self._extensions += entry.header + content + bytes(entry.padding)
            return
        base = posixpath.basename(entry.name)
        if base == _LEGACY:
            return
        changed = self._manifest(entry.name, content) if base == _INDEX else self._layout(content)
        out += _regular(entry.name, len(changed)) + changed + bytes(-len(changed) % BLOCK)

    def _take_extension(self, content: bytes) -> None:
        """``<length> <key>=<value>\\n`` records: path and size override what the header says."""
        at = 0
        while at < len(content):
            length, blank, _ = content[at : at + 20].partition(b" ")
            if not blank or not length.isdigit() or int(length) <= len(length) + 1:
                raise BadArchive("an extended header cannot be read")
            key, _, value = content[at + len(length) + 1 : at + int(length)].rstrip(b"\n").partition(b"=")
            if key.startswith(b"GNU.sparse"):
                raise BadArchive("a member of the archive is a sparse file")
            if key == b"path":
                self._name = value.decode("utf-8", "replace")
            elif key == b"size":
                if not value.isdigit() or len(value) > 18:
                    raise BadArchive("an extended header cannot be read")
                self._size = int(value)
            at += int(length)

    def _manifest(self, name: str, content: bytes) -> bytes:
        found = _json(content, _INDEX)
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise BadArchive(f"{_INDEX} is not the list that `docker save` writes")
        if len(found) != 1:
            raise BadArchive(f"the archive holds {len(found)} images; it has to hold one")
        self._images += posixpath.dirname(name) == ""
        return json.dumps([{**found[0], "RepoTags": [self.reference]}]).encode()

    def _layout(self, content: bytes) -> bytes:
        """The same image as engines with containerd's store read it."""
        found = _json(content, _LAYOUT)
        manifests = found.get("manifests") if isinstance(found, dict) else None
        if not isinstance(manifests, list) or not all(isinstance(one, dict) for one in manifests):
            raise BadArchive(f"{_LAYOUT} is no index of images")
        tag = self.reference.rpartition(":")[2]
        for one in manifests:
            kept = one.get("annotations") if isinstance(one.get("annotations"), dict) else {}
            kept = {key: value for key, value in kept.items() if key not in _ANNOTATIONS}
            one["annotations"] = kept | dict(zip(_ANNOTATIONS, (self.reference, tag), strict=True))
        return json.dumps(found).encode()


def _json(content: bytes, name: str) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise BadArchive(f"{name} in the archive is no JSON") from error


def _path(name: str) -> str:
    return posixpath.normpath("/" + name).lstrip("/")


def _header_name(header: bytes) -> str:
    name = header[:100].partition(b"\0")[0]
    if header[257:263] == b"ustar\0" and (prefix := header[345:500].partition(b"\0")[0]):
        name = prefix + b"/" + name
    return name.decode("utf-8", "replace")


def _number(text: bytes) -> int:
    if text[0] & 0x80:  # base 256, of very large members
        return int.from_bytes(bytes([text[0] & 0x7F]) + text[1:], "big")
    digits = text.strip(b" \0")
    try:
        return int(digits, 8) if digits else 0
    except ValueError as error:
        raise BadArchive("what came is no tar archive") from error


def _require_checksum(header: bytes) -> None:
    if sum(header[:148]) + 8 * 32 + sum(header[156:]) != _number(header[148:156]):
        raise BadArchive("what came is no tar archive")


def _require_size(size: int, largest: int, what: str) -> None:
    if size > largest:
        raise BadArchive(f"{what} in the archive is larger than {largest} bytes")


def _regular(name: str, size: int) -> bytes:
    """A header of a regular file that everybody may read; ``name`` is short."""
    header = bytearray(BLOCK)
    header[: len(name.encode())] = name.encode()
    for at, value in ((100, b"0000644\0"), (108, b"0000000\0"), (116, b"0000000\0"), (136, b"00000000000\0")):
        header[at : at + len(value)] = value
    header[124:136] = f"{size:011o}\0".encode()
    header[156:157] = b"0"
    header[257:265] = b"ustar\x0000"
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    return bytes(header)
