"""Embedded volumes, with real file systems and loop mounts: nothing is lost, nothing is formatted, nothing stays."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from tests.support.database import make_database
from tests.support.wait import eventually, wait_until
from zun.domain.caller import Caller
from zun.domain.container import VolumeMapping
from zun.domain.errors import (
    Conflict,
    VolumeAttachFailed,
    VolumeCreateFailed,
    VolumeDetachFailed,
    VolumeInUse,
    VolumeNotFound,
    VolumeNotUsable,
)
from zun.store import volume_mappings
from zun.store.database import Database
from zun.store.tables import local_volumes
from zun.volume import command, filesystem, image_file, mounts
from zun.volume.local import LocalVolumes

ADA = Caller(user_id="ada", project_id="blue")
BOB = Caller(user_id="bob", project_id="red")
ROOT = Caller(user_id="root", project_id="admin", is_admin=True)


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database = await make_database(tmp_path)
    yield database
    await database.close()


@pytest.fixture
def volumes(db: Database, tmp_path: Path) -> LocalVolumes:
    options = SimpleNamespace(fstype="ext4", local_dir=str(tmp_path / "data"), volume_dir=str(tmp_path / "mnt"))
    return LocalVolumes(db, SimpleNamespace(volume=options))


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path: Path) -> Iterator[None]:
    """Every test ends without mounts and loop devices; what a failed one left is taken away and told."""
    yield
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    left = [path for path in mounted if path.startswith(str(tmp_path))]
    for path in left:
        subprocess.run(["umount", path], check=False)

    def loops() -> list[str]:
        files = {device.name: mounts.backing_file(device.name) or "" for device in Path("/sys/block").glob("loop*")}
        return [name for name, file in files.items() if file.startswith(str(tmp_path))]

    # A container that is starting beside this has a copy of all mounts for a moment.
    wait_until(lambda: not loops(), 30, "no loop device is left")
    assert left == []


def mapping(volume_id: str | None = None, **changed: object) -> VolumeMapping:
    plain = VolumeMapping(
        uuid=str(uuid.uuid4()),
        container_uuid=str(uuid.uuid4()),
        project_id="blue",
        user_id="ada",
        kind="volume",
        driver="local",
        destination="/data",
        volume_id=volume_id,
    )
    return replace(plain, **changed)  # type: ignore[arg-type]


def bind(content: bytes) -> VolumeMapping:
    return mapping(kind="bind", contents=base64.b64encode(content).decode())


def entries(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


# -- find ------------------------------------------------------------------------------------------


async def test_find_by_id_and_name(volumes: LocalVolumes) -> None:
    made = await volumes.create(ADA, None, "mine")
    assert await volumes.find(ADA, made) == await volumes.find(ADA, "mine") == made
    assert await volumes.find(ROOT, made) == made
    with pytest.raises(VolumeNotUsable):
        await volumes.find(BOB, made)
    for ident in ("mine", "nonsense", "../data"):
        with pytest.raises(VolumeNotFound, match=ident):
            await volumes.find(BOB, ident)


async def test_a_name_twice_is_ambiguous(volumes: LocalVolumes) -> None:
    for _ in range(2):
        await volumes.create(ADA, None, "twin")
    await volumes.create(BOB, None, "twin")
    with pytest.raises(Conflict, match="twin"):
        await volumes.find(ADA, "twin")
    assert await volumes.find(BOB, "twin")


# -- folders ---------------------------------------------------------------------------------------


async def test_folder_volume(volumes: LocalVolumes, tmp_path: Path) -> None:
    made = await volumes.create(ADA, None, "plain")
    one = mapping(made)
    path, _ = await volumes.attach(one)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o755
    Path(path, "kept").write_text("data")  # noqa: ASYNC240
    await volumes.detach(one)
    assert Path((await volumes.attach(mapping(made)))[0], "kept").read_text() == "data"  # noqa: ASYNC240
    await volumes.delete(made)
    await volumes.delete(made)
    assert entries(tmp_path / "data") == []


# -- sized -----------------------------------------------------------------------------------------


async def test_sized_volume_s1_8(volumes: LocalVolumes, tmp_path: Path) -> None:
    made = await volumes.create(ADA, 1, "sized")
    image = tmp_path / "data" / f"{made}.img"
    facts = os.stat(image)
    assert (facts.st_size, stat.S_IMODE(facts.st_mode)) == (1024**3, 0o600)
    assert facts.st_blocks * 512 < 100 * 1024**2  # sparse
    one = mapping(made)
    path, connection = await volumes.attach(one)
    assert (path, dict(connection)) == (str(tmp_path / "mnt" / one.uuid), {"path": str(image)})
    assert mounts.source_of(Path(path)) == mounts.loop_devices(image)[0]
    assert 0.8 * 1024**3 < os.statvfs(path).f_blocks * os.statvfs(path).f_frsize <= 1024**3
    assert await volumes.attach(one) == (path, connection)  # again: one mount
    await volumes.detach(one)
    assert entries(tmp_path / "mnt") == []
    await eventually(lambda: not mounts.loop_devices(image), 30, "no loop device is left")
    await volumes.detach(one)
    await volumes.delete(made)
    await volumes.delete(made)
    assert entries(tmp_path / "data") == []


async def test_data_outlives_a_detach_s1_18(volumes: LocalVolumes) -> None:
    made = await volumes.create(ADA, 1, "sized")
    for expected in ([], ["kept"]):
        one = mapping(made)
        path, _ = await volumes.attach(one)
        assert [name for name in os.listdir(path) if name != "lost+found"] == expected
        Path(path, "kept").write_text("data")  # noqa: ASYNC240
        await volumes.detach(one)


async def test_containers_share_one_loop_device(volumes: LocalVolumes, tmp_path: Path) -> None:
    made = await volumes.create(ADA, 1, "shared")
    many = [mapping(made) for _ in range(5)]
    paths = [path for path, _ in await asyncio.gather(*(volumes.attach(one) for one in many))]
    image = tmp_path / "data" / f"{made}.img"
    assert len(mounts.loop_devices(image)) == 1
    Path(paths[0], "seen").write_text("by all")  # noqa: ASYNC240
    assert [Path(path, "seen").read_text() for path in paths] == ["by all"] * 5  # noqa: ASYNC240
    with pytest.raises(VolumeInUse):
        await volumes.delete(made)
    await volumes.detach(many[0])
    assert Path(paths[1], "seen").read_text() == "by all"  # noqa: ASYNC240
    await asyncio.gather(*(volumes.detach(one) for one in many))
    await eventually(lambda: not mounts.loop_devices(image), 30, "no loop device is left")


async def test_detach_is_safe_though_attach_never_ran(volumes: LocalVolumes) -> None:
    await volumes.detach(mapping(str(uuid.uuid4())))
    await volumes.detach(mapping(await volumes.create(ADA, 1, "never")))
    await volumes.detach(bind(b"x"))


async def test_attach_never_formats(volumes: LocalVolumes, tmp_path: Path) -> None:
    made = await volumes.create(ADA, 1, "broken")
    image = tmp_path / "data" / f"{made}.img"
    with open(image, "r+b") as file:  # noqa: ASYNC230
        file.write(b"\0" * 65536)
    with pytest.raises(VolumeAttachFailed, match=f"Volume {made} could not be mounted: mount: "):
        await volumes.attach(mapping(made))
    assert entries(tmp_path / "mnt") == []
    with open(image, "rb") as file:  # noqa: ASYNC230
        assert file.read(65536) == b"\0" * 65536


async def test_what_is_missing_is_told(volumes: LocalVolumes, tmp_path: Path) -> None:
    unknown = str(uuid.uuid4())
    with pytest.raises(VolumeAttachFailed, match=f"Volume {unknown} does not exist"):
        await volumes.attach(mapping(unknown))
    made = await volumes.create(ADA, 1, "lost")
    os.unlink(tmp_path / "data" / f"{made}.img")
    with pytest.raises(VolumeAttachFailed, match="is missing"):
        await volumes.attach(mapping(made))
    assert entries(tmp_path / "mnt") == []


async def test_without_root_is_told(volumes: LocalVolumes, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await volumes.create(ADA, 1, "sized")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(VolumeAttachFailed, match="run as root"):
        await volumes.attach(mapping(made))


@pytest.mark.parametrize("size", [10_000_000])
async def test_more_than_the_disk_leaves_nothing(
    volumes: LocalVolumes, db: Database, tmp_path: Path, size: int
) -> None:
    with pytest.raises(VolumeCreateFailed, match=r"^The volume of \d+ GiB could not be made: the disk of .* \d+ GiB"):
        await volumes.create(ADA, size, "huge")
    await _nothing_made(db, tmp_path)


async def _nothing_made(db: Database, tmp_path: Path) -> None:
    assert entries(tmp_path / "data") == []
    async with db.read() as connection:
        assert (await connection.execute(sa.select(local_volumes.c.uuid))).first() is None


async def test_full_disk_is_one_sentence(
    volumes: LocalVolumes, db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*arguments: str, deadline: float = 0) -> str:
        raise command.CommandFailed("mkfs.ext4: write failed: No space left on device")

    monkeypatch.setattr(filesystem, "checked", full)
    with pytest.raises(VolumeCreateFailed) as raised:
        await volumes.create(ADA, 1, "full")
    assert raised.value.message == "The volume of 1 GiB could not be made: the disk is full."
    await _nothing_made(db, tmp_path)


async def test_a_real_full_disk(db: Database, tmp_path: Path) -> None:
    """On a file system of 4 MiB: the folder's own disk is what counts."""
    small = tmp_path / "small"
    small.mkdir()
    await command.checked("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small))
    try:
        options = SimpleNamespace(fstype="ext4", local_dir=str(small / "d"), volume_dir=str(small / "m"))
        volumes = LocalVolumes(db, SimpleNamespace(volume=options))
        with pytest.raises(VolumeCreateFailed, match="0 GiB left"):
            await volumes.create(ADA, 1, "full")
        with pytest.raises(VolumeAttachFailed, match=r"^The file for /data could not be written: the disk is full\.$"):
            await volumes.attach(bind(b"x" * 5 * 1024**2))
        assert entries(small / "d") == entries(small / "m") == []
    finally:
        await command.checked("umount", str(small))


async def test_cancelled_create_leaves_nothing(
    volumes: LocalVolumes, db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = asyncio.Event()

    async def slow(*arguments: str, deadline: float = 0) -> str:
        began.set()
        return await command.checked("sleep", "60")

    monkeypatch.setattr(filesystem, "checked", slow)
    task = asyncio.create_task(volumes.create(ADA, 1, "late"))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _nothing_made(db, tmp_path)


async def test_a_file_with_a_signature_is_not_formatted(tmp_path: Path) -> None:
    path = tmp_path / "mine.img"
    await image_file.make(path, 1, "ext4")
    with pytest.raises(command.CommandFailed, match="is not formatted"):
        await filesystem.make(str(path), "ext4")
    with pytest.raises(FileExistsError):
        await image_file.make(path, 1, "ext4")
    assert path.exists()


async def test_a_busy_mount_is_told_and_can_be_tried_again(volumes: LocalVolumes) -> None:
    one = mapping(await volumes.create(ADA, 1, "busy"))
    path, _ = await volumes.attach(one)
    with open(f"{path}/held", "w"), pytest.raises(VolumeDetachFailed, match="busy"):  # noqa: ASYNC230
        await volumes.detach(one)
    await volumes.detach(one)
    assert mounts.source_of(Path(path)) is None


async def test_volumes_mapped_to_stay_are_not_deleted(volumes: LocalVolumes, db: Database) -> None:
    made = await volumes.create(ADA, None, "used")
    one = mapping(made)
    async with db.write() as connection:
        await volume_mappings.insert(connection, one)
    with pytest.raises(VolumeInUse):
        await volumes.delete(made)
    async with db.write() as connection:
        assert await volume_mappings.delete_of_container(connection, one.container_uuid) == 1
    await volumes.delete(made)


async def test_delete_of_what_is_no_id_touches_nothing(volumes: LocalVolumes, tmp_path: Path) -> None:
    os.makedirs(tmp_path / "data")
    (tmp_path / "precious").write_text("x")
    for ident in ("../precious", "", "..", "/"):
        await volumes.delete(ident)
    assert (tmp_path / "precious").read_text() == "x"


# -- files -----------------------------------------------------------------------------------------


async def test_bind_file(volumes: LocalVolumes, tmp_path: Path) -> None:
    one = bind(b"\0binary\xff")
    before = os.umask(0o077)
    try:
        path, _ = await volumes.attach(one)
    finally:
        os.umask(before)
    assert path == str(tmp_path / "mnt" / one.uuid / "file")
    assert Path(path).read_bytes() == b"\0binary\xff"  # noqa: ASYNC240
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o644
    assert stat.S_IMODE(os.stat(tmp_path / "mnt").st_mode) == 0o700
    assert (await volumes.attach(one))[0] == path
    assert entries(tmp_path / "mnt" / one.uuid) == ["file"]
    await volumes.detach(one)
    await volumes.detach(one)
    assert entries(tmp_path / "mnt") == []


async def test_bind_that_is_not_base64_is_told(volumes: LocalVolumes, tmp_path: Path) -> None:
    with pytest.raises(VolumeAttachFailed, match="base64"):
        await volumes.attach(mapping(kind="bind", contents="%%%"))
    assert entries(tmp_path / "mnt") == []


# -- tools and records -----------------------------------------------------------------------------


async def test_tools_have_deadlines() -> None:
    with pytest.raises(command.CommandFailed, match=r"sleep did not end within 0\.05 s"):
        await command.run("sleep", "60", deadline=0.05)
    with pytest.raises(command.CommandFailed, match="cannot be run"):
        await command.run("no-such-tool-anywhere")


async def test_mappings_are_kept_as_given(db: Database) -> None:
    one, two = bind(b"x"), mapping("v")
    two = replace(two, container_uuid=one.container_uuid, auto_remove=True)
    async with db.write() as connection:
        await volume_mappings.insert(connection, one)
        await volume_mappings.insert(connection, two)
        assert await volume_mappings.set_connection(connection, two.uuid, {"path": "/p"})
        assert not await volume_mappings.set_connection(connection, "nonsense", {})
    async with db.read() as connection:
        found = await volume_mappings.of_container(connection, one.container_uuid)
    assert found == [one, replace(two, connection={"path": "/p"})]
