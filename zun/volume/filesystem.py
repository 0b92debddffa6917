"""What a block device carries, and making a file system on one that carries nothing.

Data is never overwritten: a device is formatted only when every look at it succeeded and none found anything (S1.18).
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from zun.volume import mounts
from zun.volume.command import CommandFailed, checked, run
from zun.volume.pause import pauses

_FOUND, _NOTHING_FOUND, _AMBIVALENT = 0, 2, 8
"""Exit codes of ``blkid -p``."""
_ENDS = 1024 * 1024
"""Bytes at either end of a device that have to be readable: where signatures are."""
_READ_SECONDS = 60.0
BUSY_SECONDS = 10.0
"""How long a mount or a device in use is waited for."""
_OPTIONS = {"xfs": ",nouuid"}
"""A clone or a snapshot carries the UUID of its original, which XFS refuses beside it."""


@dataclass(frozen=True, slots=True)
class Content:
    """``fstype`` None: the device carries nothing at all."""

    fstype: str | None


async def probe(device: str) -> Content:
    """The file system on a device. Raises CommandFailed when it carries anything else, or when that cannot be told."""
    await readable(device)
    result = await run("blkid", "-p", "-o", "export", device)
    if result.code == _NOTHING_FOUND and not result.output and not result.error:
        await readable(device)  # blkid says "nothing" of what it could not read, too
        return Content(None)
    found = dict(line.partition("=")[::2] for line in result.output.splitlines())
    is_filesystem = found.get("USAGE") == "filesystem" and found.get("TYPE")
    if result.code == _AMBIVALENT or (is_filesystem and found.get("PTTYPE")):
        raise CommandFailed(f"{device} carries signatures of several kinds; it is left as it is")
    if result.code != _FOUND:
        raise CommandFailed(f"blkid cannot tell what is on {device}: {result.text}")
    if is_filesystem:
        return Content(found["TYPE"])
    what = found.get("TYPE") or (f"a partition table ({found['PTTYPE']})" if found.get("PTTYPE") else "unknown data")
    raise CommandFailed(f"{device} carries {what}, no file system; it is left as it is")


async def readable(device: str) -> int:
    """Read both ends; the size in bytes. Raises CommandFailed."""
    try:
        async with asyncio.timeout(_READ_SECONDS):
            return await asyncio.to_thread(_read_ends, device)
    except TimeoutError as error:
        raise CommandFailed(f"{device} cannot be read: no answer within {_READ_SECONDS:g} s") from error
    except OSError as error:
        raise CommandFailed(f"{device} cannot be read: {error.strerror or error}") from error


def _read_ends(device: str) -> int:
    descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        for start in {0, max(0, size - _ENDS)}:
            wanted = min(_ENDS, size - start)
            if len(os.pread(descriptor, wanted, start)) != wanted:
                raise OSError(errno.EIO, "it ends too early")
    finally:
        os.close(descriptor)
    if size == 0:
        raise OSError(errno.ENODATA, "it has no size")
    return size


async def make(device: str, fstype: str, *, anyway: bool = False) -> None:
    """A file system on what carries nothing, a device or a file. Raises CommandFailed, also when it carries any.

    ``anyway``: whatever is on it, for what an earlier call left unfinished.
    """
    if not anyway and (content := await probe(device)).fstype is not None:
        raise CommandFailed(f"{device} carries {content.fstype} and is not formatted")
    options = ["-q", "-m", "0", "-E", "nodiscard"] if fstype.startswith("ext") else ["-q"] if fstype == "xfs" else []
    if anyway:
        options += ["-F"] if fstype.startswith("ext") else ["-f"] if fstype in ("xfs", "btrfs") else []
    await checked(f"mkfs.{fstype}", *options, device, deadline=300)


async def mount(device: str, target: str, fstype: str) -> None:
    """By its own type. Raises CommandFailed."""
    await checked("mount", "-t", fstype, "-o", f"nosuid,nodev{_OPTIONS.get(fstype, '')}", device, target)


async def unmount(target: Path) -> None:
    """All that is on ``target``; nothing there is success. A busy one is tried again, never let go of lazily: its
    device is taken away next. Raises CommandFailed."""
    patience = BUSY_SECONDS
    for pause in pauses():
        if mounts.source_of(target) is None:
            return
        result = await run("umount", str(target))
        if result.code and mounts.source_of(target) is not None:
            patience -= pause
            if patience <= 0:
                raise CommandFailed(f"umount: {result.text}")
            await asyncio.sleep(pause)


def is_mounted(device: int) -> bool:
    """Anywhere this process can see?"""
    return any(number_of(source) == device for source in mounts.sources() if source.startswith("/dev/"))


def number_of(device: str) -> int | None:
    """Which block device it is, whatever its name; None when it is none."""
    try:
        facts = os.stat(device)
    except OSError:
        return None
    return facts.st_rdev if stat.S_ISBLK(facts.st_mode) else None


async def let_go_of(device: str) -> None:
    """Wait until nothing holds the device: a mount may live on in the namespace of a process that is just ending.
    Raises CommandFailed."""
    patience = BUSY_SECONDS
    for pause in pauses():
        if not await asyncio.to_thread(_held, device):
            return
        patience -= pause
        if patience <= 0:
            raise CommandFailed(f"{device} is still in use on this host")
        await asyncio.sleep(pause)


def _held(device: str) -> bool:
    """Does anything on this host hold the device: a mount, in any namespace, or a mapping over it?"""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        return error.errno == errno.EBUSY
    return False
