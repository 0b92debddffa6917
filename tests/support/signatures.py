"""Things that are on volumes: file systems with a file in them, and what is no file system."""

from __future__ import annotations

import hashlib
import struct
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import uuid4

_SECTOR = 512


def make_filesystem(image: Path, fstype: str, folder: Path, name: str) -> None:
    """On a volume's file, with one file ``name`` that holds "data"."""
    subprocess.run([f"mkfs.{fstype}", str(image)], check=True, capture_output=True)
    target = folder / f"made-{uuid4()}"
    target.mkdir()
    subprocess.run(["mount", "-o", "loop", str(image), str(target)], check=True)
    try:
        (target / name).write_text("data")
    finally:
        subprocess.run(["umount", str(target)], check=True)


def digest(image: Path) -> str:
    """Of the beginning, where all of these are."""
    with image.open("rb") as file:
        return hashlib.sha256(file.read(4 * 1024**2)).hexdigest()


def _put(image: Path, *parts: tuple[int, bytes]) -> None:
    with image.open("r+b") as file:
        for offset, data in parts:
            file.seek(offset)
            file.write(data)


def _luks(image: Path) -> str:
    _put(image, (0, b"LUKS\xba\xbe\x00\x01aes"), (168, str(uuid4()).encode()))
    return "crypto_LUKS"


def _lvm(image: Path) -> str:
    """A physical volume's label, with its checksum."""
    label = struct.pack("<I8s", 32, b"LVM2 001") + uuid4().hex.encode()
    body = label.ljust(_SECTOR - 20, b"\0")
    header = b"LABELONE" + struct.pack("<QI", 1, _lvm_crc(body))
    _put(image, (_SECTOR, header + body))
    return "LVM2_member"


def _lvm_crc(data: bytes) -> int:
    crc = 0xF597A6CF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return crc


def _partitions(image: Path) -> str:
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0x83, b"\0\0\0", 2048, 100_000)
    _put(image, (446, entry), (510, b"\x55\xaa"))
    return r"a partition table \(dos\)"


def _swap(image: Path) -> str:
    subprocess.run(["mkswap", str(image)], check=True, capture_output=True)
    return "swap"


def _two_filesystems(image: Path) -> str:
    """ext4, and the head of an XFS, which lies before it."""
    other = image.with_name(f"{image.name}.xfs")
    with other.open("wb") as file:
        file.truncate(1024**3)
    try:
        subprocess.run(["mkfs.xfs", "-q", str(other)], check=True)
        with other.open("rb") as file:
            head = file.read(_SECTOR)
    finally:
        other.unlink()
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    _put(image, (0, head))
    return "several kinds"


def _partitioned_filesystem(image: Path) -> str:
    """A partition table before an ext4."""
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    _partitions(image)
    return "several kinds"


KINDS: Mapping[str, Callable[[Path], str]] = {
    "LUKS": _luks,
    "LVM": _lvm,
    "partitions": _partitions,
    "swap": _swap,
    "ext4 and xfs": _two_filesystems,
    "ext4 and partitions": _partitioned_filesystem,
}
"""Each puts it on a volume's file and says what the reason names."""
