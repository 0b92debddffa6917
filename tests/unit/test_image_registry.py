"""Sharing, cancelling and repeating pulls, on virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.virtual_clock import VirtualClock
from zun.conf import load
from zun.domain.errors import EngineUnreachable, ImageFailed, ImagePullFailed
from zun.image.base import ImageRequest, Images
from zun.image.registry import RegistryImages
from zun.runtime.base import PullProgress, RegistryAuth
from zun.runtime.simulated import SimulatedRuntime

APP = ImageRequest("r.example/app:1", "always")


def ignore(state: PullProgress) -> None:
    """A caller that wants no progress."""


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def runtime(clock: VirtualClock) -> SimulatedRuntime:
    return SimulatedRuntime(clock=clock)


@pytest.fixture
def conf() -> Any:
    return load(files=[])


@pytest.fixture
def images(runtime: SimulatedRuntime, conf: Any, clock: VirtualClock) -> RegistryImages:
    return RegistryImages(runtime, conf, clock)


class Pulls:
    """Replaces the runtime's pull: notes the calls and ends when told."""

    def __init__(self, runtime: SimulatedRuntime) -> None:
        self.runtime = runtime
        self.seen: list[tuple[str, RegistryAuth | None]] = []
        self.cancelled = 0
        self.tell: Any = None
        self.end = asyncio.Event()
        runtime.pull = self.pull  # type: ignore[method-assign]

    async def pull(self, reference: str, auth: RegistryAuth | None, progress: Any) -> Any:
        self.seen.append((reference, auth))
        self.tell = progress
        try:
            await self.end.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.runtime.add_image(reference)


def test_it_is_an_image_driver(images: RegistryImages) -> None:
    port: Images = images
    assert port.name == "docker"


async def test_policies(images: RegistryImages, runtime: SimulatedRuntime) -> None:
    with pytest.raises(ImageFailed) as caught:
        await images.ensure(ImageRequest("app", "never"), ignore)
    assert caught.value.message == "Image app not present with pull policy of Never"
    await images.ensure(ImageRequest("app", "ifnotpresent"), ignore)
    await images.ensure(ImageRequest("app", "ifnotpresent"), ignore)
    await images.ensure(ImageRequest("app", "never"), ignore)
    assert runtime.faults.calls["pull"] == 1
    await images.ensure(ImageRequest("app", "always"), ignore)
    assert runtime.faults.calls["pull"] == 2


async def test_existence_follows_the_policy_and_pulls_nothing(
    images: RegistryImages, runtime: SimulatedRuntime
) -> None:
    runtime.refuse_image("gone:latest", ImageFailed("no such image"))
    runtime.refuse_image("away:latest", ImagePullFailed("no route"))
    assert await images.exists(ImageRequest("app", "always"))
    assert not await images.exists(ImageRequest("gone", "always"))
    assert not await images.exists(ImageRequest("app", "never"))
    with pytest.raises(ImagePullFailed):
        await images.exists(ImageRequest("away", "ifnotpresent"))
    for name in ("app", "gone", "away"):
        runtime.add_image(name)
    assert await images.exists(ImageRequest("app", "never"))
    assert await images.exists(ImageRequest("away", "ifnotpresent"))
    assert not await images.exists(ImageRequest("gone", "always"))
    assert runtime.faults.calls["pull"] == 0


async def test_no_reference(images: RegistryImages) -> None:
    with pytest.raises(ImageFailed, match="Image UPPER/bad::: is not a valid reference"):
        await images.ensure(ImageRequest("UPPER/bad:::", "always"), ignore)


async def test_same_image_is_pulled_once_and_all_hear_of_it(images: RegistryImages, runtime: SimulatedRuntime) -> None:
    pulls = Pulls(runtime)
    told: list[list[PullProgress]] = [[], []]
    first = asyncio.create_task(images.ensure(APP, told[0].append))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    pulls.tell(PullProgress(1, 2, "Downloading"))
    second = asyncio.create_task(images.ensure(APP, told[1].append))
    await asyncio.sleep(0)
    pulls.tell(PullProgress(2, 2, "Downloading"))
    pulls.end.set()
    assert await first == await second
    assert len(pulls.seen) == 1
    assert told[0] == told[1] == [PullProgress(1, 2, "Downloading"), PullProgress(2, 2, "Downloading")]


async def test_other_credentials_are_another_pull(
    images: RegistryImages, runtime: SimulatedRuntime, clock: VirtualClock
) -> None:
    pulls = Pulls(runtime)
    auth = RegistryAuth("r.example", "u", "p")
    private = ImageRequest(APP.reference, "always", auth)
    tasks = [asyncio.create_task(images.ensure(request, ignore)) for request in (APP, private, private)]
    await clock.advance(0)
    pulls.end.set()
    await asyncio.gather(*tasks)
    assert pulls.seen == [(APP.reference, None), (APP.reference, auth)]


async def test_one_who_leaves_stops_nobody_and_the_last_stops_the_pull(
    images: RegistryImages, runtime: SimulatedRuntime, clock: VirtualClock
) -> None:
    pulls = Pulls(runtime)
    first, second = (asyncio.create_task(images.ensure(APP, ignore)) for _ in range(2))
    await clock.advance(0)
    first.cancel()
    await clock.advance(0)
    assert (first.cancelled(), second.done(), pulls.cancelled) == (True, False, 0)
    second.cancel()
    await clock.advance(0)
    assert pulls.cancelled == 1
    third = asyncio.create_task(images.ensure(APP, ignore))
    await clock.advance(0)
    pulls.end.set()
    await third
    assert len(pulls.seen) == 2


async def test_fault_reaches_all_who_wait(images: RegistryImages, runtime: SimulatedRuntime) -> None:
    runtime.refuse_image(APP.reference, ImageFailed("Image r.example/app:1 was not found: x"))
    results = await asyncio.gather(*(images.ensure(APP, ignore) for _ in range(3)), return_exceptions=True)
    assert [str(result) for result in results] == ["Image r.example/app:1 was not found: x"] * 3
    assert runtime.faults.calls["pull"] == 1


async def test_what_may_pass_is_tried_again_after_a_pause(
    images: RegistryImages, runtime: SimulatedRuntime, clock: VirtualClock
) -> None:
    runtime.fail_next("pull", ImagePullFailed("broke off"), times=2)
    task = asyncio.create_task(images.ensure(APP, ignore))
    await clock.advance(0.4)
    assert runtime.faults.calls["pull"] == 1
    await clock.advance(1.2)
    assert runtime.faults.calls["pull"] == 2
    await clock.advance(3.1)
    assert task.done()
    assert (await task).size > 0


async def test_last_try_is_final(images: RegistryImages, runtime: SimulatedRuntime, clock: VirtualClock) -> None:
    runtime.fail_next("pull", ImagePullFailed("broke off"), times=9)
    task = asyncio.create_task(images.ensure(APP, ignore))
    await clock.advance(60)
    with pytest.raises(ImagePullFailed, match="broke off"):
        await task
    assert runtime.faults.calls["pull"] == 3


async def test_silent_engine_goes_through(images: RegistryImages, runtime: SimulatedRuntime) -> None:
    runtime.faults.unreachable = True
    with pytest.raises(EngineUnreachable):
        await images.ensure(APP, ignore)
    assert runtime.faults.calls["pull"] == 1


async def test_pull_without_progress_is_given_up(
    images: RegistryImages, runtime: SimulatedRuntime, clock: VirtualClock
) -> None:
    pulls = Pulls(runtime)
    task = asyncio.create_task(images.ensure(APP, ignore))
    for _ in range(5):
        await clock.advance(100)
        pulls.tell(PullProgress(1, 2, "Downloading"))
    assert (len(pulls.seen), pulls.cancelled) == (1, 0)
    await clock.advance(121)
    assert pulls.cancelled == 1
    await clock.advance(1000)
    with pytest.raises(ImagePullFailed) as caught:
        await task
    assert caught.value.message == "Error on pulling image: r.example/app:1: no progress for 120 seconds"
    assert (len(pulls.seen), pulls.cancelled) == (3, 3)


@pytest.mark.parametrize(
    ("reference", "given", "expected", "user"),
    [
        ("app", None, "default.example/app:latest", "robot"),
        ("other.example/app:2", None, "other.example/app:2", None),
        ("default.example/app", None, "default.example/app:latest", "robot"),
        ("app", "mine.example", "mine.example/app:latest", "me"),
        ("mine.example/app", "https://mine.example/", "mine.example/app:latest", "me"),
        ("other.example/app", "mine.example", "other.example/app:latest", None),
    ],
)
async def test_credentials_go_to_their_registry_only(
    images: RegistryImages,
    runtime: SimulatedRuntime,
    conf: Any,
    reference: str,
    given: str | None,
    expected: str,
    user: str | None,
) -> None:
    for name, value in (("", "default.example"), ("_username", "robot"), ("_password", "secret")):
        conf.set_override(f"default_registry{name}", value, group="docker")
    pulls = Pulls(runtime)
    pulls.end.set()
    auth = RegistryAuth(given, "me", "mine") if given else None
    await images.ensure(ImageRequest(reference, "always", auth), ignore)
    ((pulled, sent),) = pulls.seen
    assert (pulled, sent.username if sent else None) == (expected, user)


async def test_docker_hub_has_many_names(images: RegistryImages, runtime: SimulatedRuntime) -> None:
    pulls = Pulls(runtime)
    pulls.end.set()
    auth = RegistryAuth("https://index.docker.io/v1/", "me", "mine")
    await images.ensure(ImageRequest("team/app", "always", auth), ignore)
    ((_, sent),) = pulls.seen
    assert sent == auth
