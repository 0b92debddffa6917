"""The image driver on the real Glance and the real engine: whose images are found, and how they get into the engine."""

from __future__ import annotations

import asyncio
import gzip
import os
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.support.engine import Engine
from tests.support.glance import GlanceBench, save
from tests.support.testbed import Testbed
from tests.support.testbed_project import Project
from zun.domain.errors import Conflict, ImageFailed, ImageNotFound, ImagePullFailed, ServiceUnavailable
from zun.image.base import ImageRequest
from zun.image.glance import engine_name
from zun.runtime.base import PullProgress

pytestmark = pytest.mark.xdist_group("glance")  # images of others in the engine are seen


def quiet(state: PullProgress) -> None:
    """A caller that wants no progress."""


def wanted(uuid: str, policy: str = "always") -> ImageRequest:
    return ImageRequest("an-image", policy, uuid=uuid)


@pytest.fixture
def owner(new_project: Callable[..., Project]) -> Project:
    return new_project()


@pytest.fixture
async def bench(testbed: Testbed, engine: Engine, busybox: str, tmp_path: Path) -> AsyncIterator[GlanceBench]:
    made = await GlanceBench(testbed, engine, busybox, tmp_path).open()
    yield made
    await made.close()


# -- whose, and which ----------------------------------------------------------------------------------


async def test_found_by_id_name_and_tag(bench: GlanceBench, owner: Project) -> None:
    name = f"app-{secrets.token_hex(4)}"
    uuid = bench.add_image(owner.account, name, tags=["v1"])
    caller = bench.caller(owner.account)
    for reference in (uuid, uuid.upper(), name, f"{name}:v1"):
        assert await bench.images.resolve(caller, reference) == uuid, reference
    for reference in (f"{name}:v2", f"{name}x", name[:-1], "in:a,b", 'quo"te', "%", "a b", f"{name},other"):
        with pytest.raises(ImageNotFound, match="could not be found"):
            await bench.images.resolve(caller, reference)


async def test_names_that_glance_could_misread_are_found(bench: GlanceBench, owner: Project) -> None:
    caller = bench.caller(owner.account)
    for name in ("in:trap", "a,b", "registry.example:5000/team/app", "x%20y", "ünï"):
        uuid = bench.add_image(owner.account, name)
        assert await bench.images.resolve(caller, name) == uuid, name


async def test_another_projects_private_image_does_not_exist(
    bench: GlanceBench, owner: Project, new_project: Callable[..., Project]
) -> None:
    uuid = bench.add_image(owner.account, "theirs")
    stranger = bench.caller(new_project().account)
    for reference in (uuid, "theirs"):
        with pytest.raises(ImageNotFound):
            await bench.images.resolve(stranger, reference)
    assert await bench.images.search(stranger, "theirs", exact=True) == []
    assert await bench.images.search(stranger, uuid, exact=False) == []


async def test_shared_and_public_images_are_found(
    bench: GlanceBench, testbed: Testbed, owner: Project, new_project: Callable[..., Project]
) -> None:
    other = new_project()
    name = f"pub-{secrets.token_hex(4)}"
    uuid = bench.add_image(testbed.admin, name, visibility="public")
    assert await bench.images.resolve(bench.caller(other.account), name) == uuid
    # The project's own comes before everybody's.
    mine = bench.add_image(owner.account, name)
    assert await bench.images.resolve(bench.caller(owner.account), name) == mine
    assert await bench.images.resolve(bench.caller(testbed.admin), name) == uuid


async def test_an_ambiguous_name_is_a_conflict_unless_one_is_the_latest(bench: GlanceBench, owner: Project) -> None:
    caller = bench.caller(owner.account)
    bench.add_image(owner.account, "twice", tags=["v1"])
    bench.add_image(owner.account, "twice", tags=["v2"])
    with pytest.raises(Conflict, match="Multiple images exist with same name twice"):
        await bench.images.resolve(caller, "twice")
    latest = bench.add_image(owner.account, "twice", tags=["latest"])
    assert await bench.images.resolve(caller, "twice") == latest


async def test_no_container_image_and_one_without_data_are_told(bench: GlanceBench, owner: Project) -> None:
    caller = bench.caller(owner.account)
    disk = bench.record(owner.account, "disk", container_format="bare")
    with pytest.raises(ImageNotFound, match="no container image: its container_format is 'bare'"):
        await bench.images.resolve(caller, disk)
    with pytest.raises(ImageNotFound, match="could not be found"):
        await bench.images.resolve(caller, "disk")
    bench.record(owner.account, "empty")
    with pytest.raises(ImageNotFound, match="its status in Glance is queued"):
        await bench.images.resolve(caller, "empty")


async def test_search_tells_the_records_of_container_images(bench: GlanceBench, owner: Project) -> None:
    caller = bench.caller(owner.account)
    stem = f"find-{secrets.token_hex(4)}"
    one, two = bench.add_image(owner.account, f"{stem}/a"), bench.add_image(owner.account, f"x{stem}")
    bench.record(owner.account, f"{stem}-disk", container_format="bare")
    found = await bench.images.search(caller, stem, exact=False)
    assert {row["id"] for row in found} == {one, two}
    assert {row["status"] for row in found} == {"active"}
    assert [row["id"] for row in await bench.images.search(caller, f"{stem}/a", exact=True)] == [one]
    assert [row["id"] for row in await bench.images.search(caller, two, exact=True)] == [two]


# -- into the engine -----------------------------------------------------------------------------------


async def test_the_image_is_streamed_into_the_engine_once(bench: GlanceBench, owner: Project) -> None:
    uuid = bench.add_image(owner.account, "once")
    told: list[PullProgress] = []
    facts = await bench.images.ensure(wanted(uuid), told.append)
    downloads = [state.done for state in told if state.phase == "Downloading"]
    assert downloads == sorted(downloads)
    assert downloads[-1] == len(bench.archive)
    assert facts.image_id == bench.busybox_id
    assert bench.downloads(uuid) == 1
    again = await asyncio.gather(*(bench.images.ensure(wanted(uuid, policy), quiet) for policy in ("always", "never")))
    assert {one.image_id for one in again} == {facts.image_id}
    assert bench.downloads(uuid) == 1


async def test_many_at_once_share_one_download(bench: GlanceBench, owner: Project) -> None:
    uuid = bench.add_image(owner.account, "shared")
    await asyncio.gather(*(bench.images.ensure(wanted(uuid), quiet) for _ in range(8)))
    assert bench.downloads(uuid) == 1


async def test_images_with_the_same_tags_inside_do_not_mix(bench: GlanceBench, owner: Project) -> None:
    """Both archives say that they are busybox; neither becomes it, and each id gives its own."""
    before = bench.engine.get(f"/images/{bench.busybox}/json")["Id"]
    other = bench.other_image()
    one = bench.add_image(owner.account, "same", data=save(bench.engine, bench.busybox))
    two = bench.add_image(owner.account, "same", data=save(bench.engine, other))
    first, second = await asyncio.gather(*(bench.images.ensure(wanted(uuid), quiet) for uuid in (one, two)))
    assert first.image_id == before
    assert second.image_id == bench.engine.get(f"/images/{other}/json")["Id"] != first.image_id
    assert bench.engine.get(f"/images/{bench.busybox}/json")["Id"] == before
    assert sorted(await bench.docker.runtime.images_of("glance.invalid")) >= sorted(
        [engine_name(one), engine_name(two)]
    )


async def test_compressed_images_work(bench: GlanceBench, owner: Project) -> None:
    uuid = bench.add_image(owner.account, "packed", data=gzip.compress(bench.archive, 1))
    assert (await bench.images.ensure(wanted(uuid), quiet)).image_id == bench.busybox_id


async def test_what_is_no_image_is_told_at_once(bench: GlanceBench, owner: Project) -> None:
    uuid = bench.add_image(owner.account, "noise", data=os.urandom(200_000))
    with pytest.raises(ImageFailed, match=r"Cannot download image from glance: an-image: .*no tar archive") as caught:
        await bench.images.ensure(wanted(uuid), quiet)
    assert not caught.value.retryable


async def test_an_image_that_went_is_told_at_once(bench: GlanceBench, owner: Project) -> None:
    uuid = bench.add_image(owner.account, "gone")
    owner.account.call("image", "DELETE", f"/v2/images/{uuid}")
    with pytest.raises(ImageFailed, match=f"Cannot download image from glance: an-image: Glance has no image {uuid}"):
        await bench.images.ensure(wanted(uuid), quiet)
    with pytest.raises(ImageFailed, match="not present with pull policy of Never"):
        await bench.images.ensure(wanted(uuid, "never"), quiet)


# -- faults of Glance ------------------------------------------------------------------------------------


async def test_changed_data_never_reaches_the_engine(bench: GlanceBench, owner: Project) -> None:
    uuid = bench.add_image(owner.account, "changed")
    stored = bench.stored(uuid)
    data = bytearray(stored.read_bytes())
    data[len(data) // 2] ^= 0xFF
    stored.write_bytes(data)
    with pytest.raises(ImagePullFailed, match="its sha512 checksum is not the one in Glance"):
        await bench.images.ensure(wanted(uuid), quiet)
    assert await bench.docker.runtime.image(engine_name(uuid)) is None


async def test_a_transfer_that_breaks_off_is_tried_again(bench: GlanceBench, owner: Project) -> None:
    uuid = bench.add_image(owner.account, "breaks")
    bench.proxy.cut_downloads = 1
    assert (await bench.images.ensure(wanted(uuid), quiet)).image_id == bench.busybox_id
    assert bench.downloads(uuid) == 2


async def test_glance_that_is_away_is_named(bench: GlanceBench, owner: Project) -> None:
    uuid = bench.add_image(owner.account, "away")
    bench.proxy.mode = "refuse"
    with pytest.raises(ImagePullFailed, match="Glance is not available"):
        await bench.images.ensure(wanted(uuid), quiet)
    with pytest.raises(ServiceUnavailable, match="Glance is not available"):
        await bench.images.resolve(bench.caller(owner.account), "away")


async def test_a_download_that_stands_still_is_given_up(bench: GlanceBench, owner: Project) -> None:
    uuid = bench.add_image(owner.account, "stalls")
    bench.proxy.stall = True
    with pytest.raises(ImagePullFailed, match=r"no (progress for|answer within) 5 seconds"):
        await bench.images.ensure(wanted(uuid), quiet)
    assert bench.downloads(uuid) == 2
    assert await bench.docker.runtime.image(engine_name(uuid)) is None
