"""Tar archives, whole and broken: what ``put_archive`` is given."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable, Sequence
from random import Random

_BLOCK = 512
_NAMES = [
    "hello", "a/b/c", "/etc/passwd", "../../out", "..", ".", "", "a/../../b", "x" * 99, "y" * 255, "z" * 5000, "é☃",
    "a\\b", " ", "a\nb", "-rf", "/", "//", "%s{0}", "d/", "\udc80\udcff",
]  # fmt: skip
_KINDS = [
    tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE,
    tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE, b"V", b"M", b"?", b"\x00",
]  # fmt: skip
_FIELDS = {
    "name": (0, 100), "mode": (100, 108), "uid": (108, 116), "size": (124, 136), "mtime": (136, 148),
    "checksum": (148, 156), "kind": (156, 157), "link": (157, 257), "magic": (257, 265), "prefix": (345, 500),
    "sparse": (386, 494),
}  # fmt: skip
_FILLINGS = [
    b"\x00", b"\xff", b"7", b" ", b"8", b"-1 ", b"\x80" + b"\x00" * 9 + b"\x7f", b"\xff" * 12, b"77777777777\x00",
    b"\x80", b"00000000000 ", b"x", b"1", b"\x80" + b"\xff" * 11,
]  # fmt: skip
_PAX = ("", "-1", "9" * 30, "../x", "nan", "0,9223372036854775807", "１")
_PACKERS: Sequence[Callable[[bytes], bytes]] = (gzip.compress, bz2.compress, lzma.compress)


def _member(random: Random) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(random.choice(_NAMES))
    member.type = random.choice(_KINDS)
    member.linkname = random.choice(_NAMES)
    member.mode = random.choice((0o644, 0o7777, 0))
    member.uid = random.choice((0, 1000, 2**31, 2**50))
    member.mtime = random.choice((0, -1, 2**33, 1.5))
    content = random.choice((b"", b"hello", b"x" * _BLOCK, b"\x00" * 1000))
    member.size = len(content) if member.type in tarfile.REGULAR_TYPES else 0
    return member, content


def _packed(random: Random) -> bytes:
    form = random.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form, errors="surrogateescape") as made:
        for _ in range(random.randint(0, 3)):
            member, content = _member(random)
            if form == tarfile.PAX_FORMAT and random.getrandbits(1):
                name = random.choice(("path", "size", "mtime", "GNU.sparse.map", "x"))
                member.pax_headers = {name: random.choice(_PAX)}
            made.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _overwritten(random: Random, archive: bytes) -> bytes:
    """One field of one header, perhaps with a checksum that fits again."""
    changed = bytearray(archive)
    start = _BLOCK * random.randint(0, max(0, min(8, len(changed) // _BLOCK - 1)))
    first, last = _FIELDS[random.choice(sorted(_FIELDS))]
    filling = random.choice(_FILLINGS)
    changed[start + first : start + last] = (filling * (last - first))[: last - first]
    if random.getrandbits(1):
        head = changed[start : start + _BLOCK]
        total = sum(head[:148]) + 256 + sum(head[156:])
        changed[start + 148 : start + 156] = b"%06o\x00 " % total
    return bytes(changed)


def _cut(random: Random, archive: bytes) -> bytes:
    return archive[: random.randint(0, len(archive))]


def _flipped(random: Random, archive: bytes) -> bytes:
    if not archive:
        return b"\xff"
    place = random.randint(0, min(len(archive), 3000) - 1)
    return archive[:place] + bytes([random.randint(0, 255)]) + archive[place + 1 :]


def _squeezed(random: Random, archive: bytes) -> bytes:
    return random.choice(_PACKERS)(archive)


def _doubled(random: Random, archive: bytes) -> bytes:
    return archive + archive


def _padded(random: Random, archive: bytes) -> bytes:
    return archive + b"\x00" * random.choice((1, 511, 100_000))


_CHANGES: list[Callable[[Random, bytes], bytes]] = [
    _overwritten, _overwritten, _cut, _flipped, _squeezed, _doubled, _padded,
]  # fmt: skip


def archive(random: Random) -> bytes:
    """An archive with up to three changes."""
    made = _packed(random)
    for _ in range(random.randint(0, 3)):
        made = random.choice(_CHANGES)(random, made)
    return made


def as_base64(random: Random, content: bytes) -> str:
    """Its base64, one time in three not quite."""
    text = base64.b64encode(content).decode()
    place = random.randint(0, len(text))
    return random.choice([
        text, text, text, text, text, text, text[:place], text.rstrip("="), text + "=", text + "\n",
        f"{text[:place]}\n{text[place:]}", f"{text[:place]}={text[place:]}", f"{text[:place]}é{text[place:]}",
        text.translate(str.maketrans("+/", "-_")), base64.encodebytes(content).decode(), f"data:;base64,{text}",
    ])  # fmt: skip
