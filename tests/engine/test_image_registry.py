"""Images from a real registry, pulled by the real engine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.engine import Engine
from tests.support.registry import Registry, start_registry
from tests.support.runtimes import DockerBench
from zun.domain.clock import SystemClock
from zun.domain.errors import EngineConflict, ImageFailed, ImagePullFailed
from zun.image.base import ImageRequest
from zun.image.registry import RegistryImages
from zun.runtime.base import PullProgress, RegistryAuth

USERS = {"alice": "s3cret"}


def ignore(state: PullProgress) -> None:
    """A caller that wants no progress."""


@pytest.fixture(scope="module")
def open_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    registry = start_registry(tmp_path_factory.mktemp("registry"))
    yield registry
    registry.stop()


@pytest.fixture(scope="module")
def closed_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    registry = start_registry(tmp_path_factory.mktemp("registry"), users=USERS)
    yield registry
    registry.stop()


@pytest.fixture(autouse=True)
def no_image_left(engine: Engine, open_registry: Registry, closed_registry: Registry) -> Iterator[None]:
    """Images of these registries leave the engine with the test."""
    yield
    addresses = (open_registry.address, closed_registry.address)
    for row in engine.get("/images/json"):
        for tag in (*(row["RepoTags"] or ()), *(row["RepoDigests"] or ())):
            if tag.startswith(addresses):
                engine._http.delete(f"/images/{tag}", params={"force": "true"})
    left = [tag for row in engine.get("/images/json") for tag in row["RepoTags"] or () if tag.startswith(addresses)]
    assert not left


@pytest.fixture
async def docker(busybox: str, engine: Engine) -> AsyncIterator[DockerBench]:
    bench = DockerBench(busybox, engine, pull_attempts=2)
    yield bench
    await bench.close()


@pytest.fixture
def images(docker: DockerBench) -> RegistryImages:
    return RegistryImages(docker.runtime, docker.conf, SystemClock())


async def test_pull_gives_the_image_and_tells_its_progress(images: RegistryImages, open_registry: Registry) -> None:
    reference = open_registry.push_busybox("team/app", "1", marker=os.urandom(2_000_000))
    told: list[PullProgress] = []
    facts = await images.ensure(ImageRequest(reference, "always"), told.append)
    assert facts.image_id.startswith("sha256:")
    assert facts.size > 2_000_000
    assert list(facts.command) == ["sh"]
    assert facts.repo_digests[0].startswith(f"{open_registry.address}/team/app@sha256:")
    assert told[-1].done == told[-1].total > 2_000_000
    assert [state.done for state in told] == sorted(state.done for state in told)


async def test_digest_is_pulled(images: RegistryImages, open_registry: Registry) -> None:
    reference = open_registry.push_busybox("team/digest", "1")
    tagged = await images.ensure(ImageRequest(reference, "always"), ignore)
    pinned = next(name for name in tagged.repo_digests if "/team/digest@" in name)
    assert (await images.ensure(ImageRequest(pinned, "always"), ignore)).image_id == tagged.image_id


async def test_policies(images: RegistryImages, docker: DockerBench, open_registry: Registry) -> None:
    reference = open_registry.push_busybox("team/policy", "1", marker=b"old")
    with pytest.raises(ImageFailed) as caught:
        await images.ensure(ImageRequest(reference, "never"), ignore)
    assert caught.value.message == f"Image {reference} not present with pull policy of Never"
    old = await images.ensure(ImageRequest(reference, "ifnotpresent"), ignore)
    open_registry.push_busybox("team/policy", "1", marker=b"new")
    assert await images.ensure(ImageRequest(reference, "ifnotpresent"), ignore) == old
    assert await images.ensure(ImageRequest(reference, "never"), ignore) == old
    new = await images.ensure(ImageRequest(reference, "always"), ignore)
    assert new.image_id != old.image_id
    uuid = await docker.running(image=reference)
    assert (await docker.runtime.execute(uuid, ["cat", "/marker"], 60)).output == "new"


async def test_an_image_whose_name_moved_on_has_none_and_is_removed_by_its_id(
    images: RegistryImages, docker: DockerBench, open_registry: Registry
) -> None:
    reference = open_registry.push_busybox("team/moved", "1", marker=os.urandom(64))
    old = await images.ensure(ImageRequest(reference, "always"), ignore)
    assert old.names == (reference,)
    uuid = await docker.created(image=old.image_id)
    open_registry.push_busybox("team/moved", "1", marker=os.urandom(64))
    new = await images.ensure(ImageRequest(reference, "always"), ignore)
    left = await docker.runtime.image(old.image_id)
    assert left is not None
    assert (left.names, new.names) == ((), (reference,))
    with pytest.raises(EngineConflict):
        await docker.runtime.remove_image(old.image_id)
    await docker.runtime.remove(uuid, force=True)
    await docker.runtime.remove_image(old.image_id)
    assert await docker.runtime.image(old.image_id) is None
    assert await docker.runtime.image(reference) == new


async def test_image_in_use_is_not_removed(
    images: RegistryImages, docker: DockerBench, open_registry: Registry
) -> None:
    reference = open_registry.push_busybox("team/used", "1", marker=os.urandom(64))
    await images.ensure(ImageRequest(reference, "always"), ignore)
    uuid = await docker.created(image=reference)
    with pytest.raises(EngineConflict):
        await docker.runtime.remove_image(reference)
    await docker.runtime.remove(uuid, force=True)
    await docker.runtime.remove_image(reference)
    assert await docker.runtime.image(reference) is None


async def test_missing_image_is_told_once(images: RegistryImages, open_registry: Registry) -> None:
    reference = f"{open_registry.address}/no/such%d:1"
    with pytest.raises(ImageFailed, match="not a valid reference"):
        await images.ensure(ImageRequest(reference, "always"), ignore)
    reference = f"{open_registry.address}/no/such:1"
    with pytest.raises(ImageFailed, match=f"^Image {reference} was not found: ") as caught:
        await images.ensure(ImageRequest(reference, "always"), ignore)
    assert not caught.value.retryable
    assert caught.value.keeps_host


async def test_private_registry_wants_the_right_password(images: RegistryImages, closed_registry: Registry) -> None:
    reference = closed_registry.push_busybox("private/app", "1")
    right = RegistryAuth(closed_registry.address, "alice", "s3cret")
    wrong = RegistryAuth(closed_registry.address, "alice", "guess")
    elsewhere = RegistryAuth("registry.example.org", "alice", "s3cret")
    for auth in (None, wrong, elsewhere):
        with pytest.raises(ImageFailed, match="was refused by the registry") as caught:
            await images.ensure(ImageRequest(reference, "always", auth), ignore)
        assert not caught.value.retryable
        assert "s3cret" not in caught.value.message
    assert (await images.ensure(ImageRequest(reference, "always", right), ignore)).size > 0


async def test_default_registry_and_its_credentials(docker: DockerBench, closed_registry: Registry) -> None:
    closed_registry.push_busybox("default/app", "7")
    docker.conf.set_override("default_registry", closed_registry.address, group="docker")
    docker.conf.set_override("default_registry_username", "alice", group="docker")
    docker.conf.set_override("default_registry_password", "s3cret", group="docker")
    images = RegistryImages(docker.runtime, docker.conf, SystemClock())
    facts = await images.ensure(ImageRequest("default/app:7", "always"), ignore)
    assert any(name.startswith(f"{closed_registry.address}/default/app@") for name in facts.repo_digests)


async def test_many_at_once_share_one_pull(images: RegistryImages, open_registry: Registry) -> None:
    reference = open_registry.push_busybox("team/shared", "1", marker=os.urandom(1_000_000))
    told: dict[int, list[PullProgress]] = {number: [] for number in range(20)}
    facts = await asyncio.gather(
        *(images.ensure(ImageRequest(reference, "always"), told[number].append) for number in range(20))
    )
    assert len({fact.image_id for fact in facts}) == 1
    assert all(told.values())


async def test_unreachable_registry_can_be_tried_again(images: RegistryImages) -> None:
    with pytest.raises(ImagePullFailed, match=r"^Error on pulling image: 127\.0\.0\.1:1/a/b:1: ") as caught:
        await images.ensure(ImageRequest("127.0.0.1:1/a/b:1", "always"), ignore)
    assert caught.value.retryable


async def test_stalled_pull_is_given_up(docker: DockerBench) -> None:
    docker.conf.set_override("pull_stall_timeout", 1, group="docker")
    images = RegistryImages(docker.runtime, docker.conf, SystemClock())
    connections: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda reader, writer: connections.append(writer), "127.0.0.1", 0)
    reference = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}/a/b:1"
    with pytest.raises(ImagePullFailed, match="no progress for 1 seconds"):
        await images.ensure(ImageRequest(reference, "always"), ignore)
    assert len(connections) >= 2
    silent.close()
    for writer in connections:
        writer.close()
        await writer.wait_closed()


async def test_registry_that_dies_is_no_missing_image(images: RegistryImages, tmp_path: Path) -> None:
    registry = start_registry(tmp_path / "dying")
    reference = registry.push_busybox("a/b", "1")
    registry.stop()
    with pytest.raises(ImagePullFailed, match="refused"):
        await images.ensure(ImageRequest(reference, "always"), ignore)
