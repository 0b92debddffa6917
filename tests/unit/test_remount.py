"""A machine that was rebooted: volumes are there again before their containers run, or the container says why not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from zun.compute.operations.power import NO_VOLUMES
from zun.volume import mounts

MOUNT = [{"size": "1", "destination": "/data"}]


def mounted(folder: Path) -> list[str]:
    paths = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [path for path in paths if path.startswith(str(folder))]


@pytest.fixture(autouse=True)
def no_mounts_stay(tmp_path: Path) -> Iterator[None]:
    yield
    left = mounted(tmp_path)
    for path in left:
        subprocess.run(["umount", path], check=True)
    assert left == []


def lose(folder: Path) -> str:
    """The mount goes, as in a reboot; where it was."""
    (path,) = mounted(folder)
    subprocess.run(["umount", path], check=True)
    return path


async def reboots(cloud: SimulatedCloud, uuid: str) -> int:
    actions = (await cloud.http.get(f"/v1/containers/{uuid}/container_actions")).json()
    return sum(action["action"] == "reboot" for action in actions["containerActions"])


async def remove(cloud: SimulatedCloud, uuid: str) -> None:
    await cloud.http.delete(f"/v1/containers/{uuid}", params={"force": "true"})
    await cloud.wait(uuid, "gone")


async def test_what_runs_without_its_volume_is_rebooted(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create(mounts=MOUNT)
        await cloud.wait(uuid, "Running")
        await cloud.die()
        path = lose(tmp_path)
        with pytest.raises(PermissionError):
            Path(path, "lost").touch()  # noqa: ASYNC240 - nothing can be written below a mount that is not there
        await cloud.live()
        await cloud.wait(uuid, "Running")
        assert (mounted(tmp_path), await reboots(cloud, uuid)) == ([path], 1)
        await cloud.die()
        await cloud.live()
        await cloud.wait(uuid, "Running")
        assert await reboots(cloud, uuid) == 1  # what stands is left alone
        await remove(cloud, uuid)


async def test_a_stopped_one_is_mounted_before_its_start(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create(mounts=MOUNT)
        await cloud.wait(uuid, "Running")
        for verb, status in (("stop", "Stopped"), ("start", "Running"), ("reboot", "Running")):
            if verb != "stop":
                lose(tmp_path)
            assert (await cloud.http.post(f"/v1/containers/{uuid}/{verb}")).status_code == 202
            await cloud.wait(uuid, status)
            assert mounted(tmp_path)
        await remove(cloud, uuid)


async def test_a_volume_that_is_lost_is_told(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create(mounts=MOUNT)
        await cloud.wait(uuid, "Running")
        await cloud.die()
        lose(tmp_path)
        (image,) = tmp_path.rglob("*.img")  # noqa: ASYNC240
        kept = image.rename(image.with_suffix(".away"))
        await cloud.live()
        row = await cloud.wait(uuid, "Error", "Stopped")
        assert row["status_reason"] == NO_VOLUMES == "Internal error on recovering container volume"
        kept.rename(image)
        assert (await cloud.http.post(f"/v1/containers/{uuid}/start")).status_code == 202
        await cloud.wait(uuid, "Running")
        await remove(cloud, uuid)


async def test_switched_off_nothing_is_rebooted(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path, compute__remount_container_volume=False) as cloud:
        uuid = await cloud.create(mounts=MOUNT)
        await cloud.wait(uuid, "Running")
        await cloud.die()
        lose(tmp_path)
        await cloud.live()
        await cloud.wait(uuid, "Running")
        assert (mounted(tmp_path), await reboots(cloud, uuid)) == ([], 0)
        await remove(cloud, uuid)


async def test_places_where_a_killed_agent_was_about_to_mount_are_cleared_at_the_next_start(tmp_path: Path) -> None:
    """Nothing can be written into one, nor could it be removed by hand; those of containers that are here stay."""
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create(mounts=MOUNT)
        await cloud.wait(uuid, "Running")
        await cloud.die()
        path = Path(lose(tmp_path))
        left, foreign = path.with_name(str(uuid4())), path.with_name("theirs")
        mounts.make_target(left)
        foreign.mkdir()
        await cloud.live()
        await cloud.wait(uuid, "Running")
        assert sorted(path.parent.iterdir()) == sorted([path, foreign])
        assert mounted(tmp_path) == [str(path)]
        await remove(cloud, uuid)
        assert list(path.parent.iterdir()) == [foreign]
