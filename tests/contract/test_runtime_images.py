"""The runtime port's contract, on every runtime: images."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from tests.support.runtimes import Bench, seen, state
from zun.domain.errors import (
    EngineNotFound,
    ImageFailed,
    ImagePullFailed,
)
from zun.runtime.base import PullProgress


async def test_images_are_found_and_missed(bench: Bench) -> None:
    found = await bench.runtime.image(bench.image)
    assert found is not None
    assert found.size > 0
    assert await bench.runtime.image("zun-test/absent:never") is None
    await bench.runtime.remove_image("zun-test/absent:never")


async def exported(bench: Bench, reference: str, name: str) -> bytes:
    async with bench.runtime.export_image(reference, name) as pieces:
        return b"".join([piece async for piece in pieces])


async def pieces_of(data: bytes, fault: Exception | None = None) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 100_000):
        yield data[start : start + 100_000]
    if fault is not None:
        raise fault


def quiet(state: PullProgress) -> None:
    """A caller that wants no progress."""


async def test_commit_makes_an_image_and_lets_the_container_run_on(bench: Bench) -> None:
    uuid, name = await bench.running(), f"{bench.domain}/made:1"
    made = await bench.runtime.commit(uuid, name)
    found = await bench.runtime.image(name)
    assert found is not None
    assert (found.image_id, list(found.command)) == (made.image_id, list(bench.spec().command or ()))
    assert await bench.runtime.images_of(bench.domain) == [name]
    assert await state(bench, uuid) == "running"
    again = await bench.created(image=made.image_id)
    assert (await seen(bench, again)).owner == bench.owner
    assert made.image_id in await bench.runtime.images_in_use()
    await bench.runtime.remove(again, force=True)
    assert made.image_id not in await bench.runtime.images_in_use()
    await bench.runtime.remove_image(name)
    assert await bench.runtime.images_of(bench.domain) == []


async def test_commit_leaves_a_paused_container_paused(bench: Bench) -> None:
    uuid = await bench.running()
    await bench.runtime.pause(uuid)
    await bench.runtime.commit(uuid, f"{bench.domain}/paused:1")
    assert await state(bench, uuid) == "paused"


async def test_commit_of_what_is_not_there_is_not_found(bench: Bench) -> None:
    with pytest.raises(EngineNotFound):
        await bench.runtime.commit(str(uuid4()), f"{bench.domain}/none:1")


async def test_an_exported_image_can_be_loaded_under_another_name_alone(bench: Bench) -> None:
    archive = await exported(bench, bench.image, f"{bench.domain}/elsewhere:9")
    wanted = await bench.runtime.image(bench.image)
    for packed in (archive, gzip.compress(archive, 1)):
        told: list[PullProgress] = []
        loaded = await bench.runtime.load_image(f"{bench.domain}/mine:1", pieces_of(packed), told.append)
        assert loaded.size > 0
        if bench.real:
            assert wanted is not None
            assert loaded.image_id == wanted.image_id
        assert await bench.runtime.images_of(bench.domain) == [f"{bench.domain}/mine:1"]


async def test_an_archive_that_fails_at_its_end_is_not_loaded(bench: Bench) -> None:
    archive = await exported(bench, bench.image, "any:1")
    broken = pieces_of(archive, ImagePullFailed("the checksum is another"))
    with pytest.raises(ImagePullFailed, match="the checksum is another"):
        await bench.runtime.load_image(f"{bench.domain}/broken:1", broken, quiet)
    for bad in (archive[: len(archive) // 2], b"no archive at all" * 100, gzip.compress(archive, 1)[:-100]):
        with pytest.raises(ImageFailed, match="Image cannot be loaded: ") as caught:
            await bench.runtime.load_image(f"{bench.domain}/broken:1", pieces_of(bad), quiet)
        assert not caught.value.retryable
    assert await bench.runtime.images_of(bench.domain) == []


async def test_export_of_no_image_is_not_found(bench: Bench) -> None:
    with pytest.raises(EngineNotFound):
        await exported(bench, "zun-test/absent:never", "any:1")


async def test_pull_of_no_reference_is_no_retry(bench: Bench) -> None:
    with pytest.raises(ImageFailed, match="Image UPPER/bad::: is not a valid reference") as caught:
        await bench.runtime.pull("UPPER/bad:::", None, lambda state: None)
    assert not caught.value.retryable
