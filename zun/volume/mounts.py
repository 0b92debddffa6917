"""What is mounted on this host: reads the kernel's tables; mounts and unmounts image files through loop devices.

The loop device is freed by the kernel with its last mount (autoclear), so a killed agent leaves none behind.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import re
from array import array
from pathlib import Path

from zun.volume.command import CommandFailed, checked, run

log = logging.getLogger(__name__)

_GET_FLAGS, _SET_FLAGS, _IMMUTABLE = 0x80086601, 0x40086602, 0x10
"""FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_IMMUTABLE_FL (linux/fs.h)."""
_OCTAL = re.compile(r"\\([0-7]{3})")


def source_of(target: Path) -> str | None:
    """The device mounted on ``target`` (the topmost), None when nothing is."""
    wanted, found = str(target), None
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        if _OCTAL.sub(lambda code: chr(int(code[1], 8)), before.split()[4]) == wanted:
            found = after.split()[1]
    return found


def backing_file(device: str) -> str | None:
    """The file behind ``/dev/loopN``."""
    try:
        return Path(f"/sys/block/{Path(device).name}/loop/backing_file").read_text().rstrip("\n")
    except OSError:
        return None


def loop_devices(image: Path) -> list[str]:
    """Loop devices over ``image`` now."""
    return [f"/dev/{path.name}" for path in Path("/sys/block").glob("loop*") if backing_file(path.name) == str(image)]


def holds(target: Path, image: Path) -> bool:
    """Is ``image`` mounted on ``target``? Raises CommandFailed when something else is."""
    source = source_of(target)
    if source is None:
        return False
    if backing_file(source) != str(image):
        raise CommandFailed(f"{target} is a mount of {source} already")
    return True


async def mount_image(image: Path, target: Path, fstype: str) -> None:
    """Mount; an image mounted elsewhere already shares its loop device. A failure leaves no mount.

    Raises CommandFailed. The caller holds the image's lock.
    """
    make_target(target)
    try:
        await checked("mount", "-t", fstype, "-o", "loop,nosuid,nodev", str(image), str(target))
    except BaseException:
        await asyncio.shield(_undo(target))
        raise


async def _undo(target: Path) -> None:
    try:
        await unmount(target)
        remove_target(target)
    except (CommandFailed, OSError) as error:
        log.warning("action=undo-mount target=%s result=failed reason=%r", target, str(error))


def make_target(target: Path) -> None:
    """A folder to mount on. Nothing can be written into it while nothing is mounted: an engine that starts a container
    before its volume is back (the machine was rebooted) would fill the host's own disk, out of sight later."""
    target.mkdir(mode=0o755, exist_ok=True)
    if source_of(target) is None:
        _seal(target, sealed=True)


def remove_target(target: Path) -> None:
    """Absent is success."""
    try:
        _seal(target, sealed=False)
        target.rmdir()
    except FileNotFoundError:
        return


def _seal(folder: Path, *, sealed: bool) -> None:
    """Immutable or not, where the file system knows that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = array("i", [0])
        fcntl.ioctl(descriptor, _GET_FLAGS, flags)
        flags[0] = flags[0] | _IMMUTABLE if sealed else flags[0] & ~_IMMUTABLE
        fcntl.ioctl(descriptor, _SET_FLAGS, flags)
    except OSError as error:
        log.debug("action=seal folder=%s result=unknown to its file system reason=%s", folder, error.strerror)
    finally:
        os.close(descriptor)


async def unmount(target: Path) -> None:
    """Unmount all that is on ``target``, and see the loop devices go. Nothing mounted is success."""
    while (source := source_of(target)) is not None:
        image = backing_file(source)
        result = await run("umount", str(target))
        if result.code and source_of(target) is not None:
            raise CommandFailed(f"umount: {result.text}")
        if image is not None:
            await _freed(source, image)


async def _freed(device: str, image: str, patience: float = 5.0) -> None:
    """Wait until the kernel has let go of the device, unless another mount holds it."""
    pause = 0.005
    while patience > 0 and backing_file(device) == image and device not in sources():
        await asyncio.sleep(pause)
        patience -= pause
        pause = min(pause * 2, 0.2)


def sources() -> set[str]:
    """Everything mounted now, by the name it was mounted as."""
    text = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    return {line.partition(" - ")[2].split()[1] for line in text.splitlines()}


def is_root() -> bool:
    """May this process mount?"""
    return os.geteuid() == 0
