"""What is mounted on this host: reads the kernel's tables; mounts and unmounts image files through loop devices.

The loop device is freed by the kernel with its last mount (autoclear), so a killed agent leaves none behind.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from pathlib import Path

from zun.volume.command import CommandFailed, checked, run

log = logging.getLogger(__name__)

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
    os.makedirs(target, mode=0o755, exist_ok=True)
    try:
        await checked("mount", "-t", fstype, "-o", "loop,nosuid,nodev", str(image), str(target))
    except BaseException:
        await asyncio.shield(_undo(target))
        raise


async def _undo(target: Path) -> None:
    try:
        await unmount(target)
        os.rmdir(target)
    except (CommandFailed, OSError) as error:
        log.warning("action=undo-mount target=%s result=failed reason=%r", target, str(error))


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
    while patience > 0 and backing_file(device) == image and not _mounted(device):
        await asyncio.sleep(pause)
        patience -= pause
        pause = min(pause * 2, 0.2)


def _mounted(device: str) -> bool:
    text = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    return any(line.partition(" - ")[2].split()[1] == device for line in text.splitlines())


def is_root() -> bool:
    """May this process mount?"""
    return os.geteuid() == 0
