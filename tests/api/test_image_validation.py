"""[api]/enable_image_validation: an image that does not exist is 400 before there is a row, and nothing stays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.api import fault
from tests.support.containers import Plane, make_plane
from zun.domain.errors import HostUnreachable, Unavailable
from zun.store.tables import containers, operations, volume_mappings

BODY = {"image": "cirros", "mounts": [{"size": 1, "destination": "/d"}]}
ON = {"api.enable_image_validation": "true"}


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    async with make_plane(tmp_path, ON) as made:
        await made.add_host()
        yield made


async def _nothing_left(plane: Plane) -> None:
    for table in (containers, operations, volume_mappings):
        assert await plane.count(table) == 0, table.name
    assert await plane.usage() == {"containers": 0, "memory": 0, "disk": 0, "cpu": 0}
    assert not [name for name in plane.placement.seen if name == "claim"] or "release" in plane.placement.seen
    assert plane.bus.rings == []


async def test_an_unknown_image_is_refused_and_leaves_nothing(plane: Plane) -> None:
    plane.bus.answers["image_exists"] = False
    error = fault(await plane.client().post("/v1/containers", json=BODY))
    assert (error["status"], error["code"]) == (400, "container.image-not-found")
    assert error["title"] == "Image cirros could not be found."
    await _nothing_left(plane)


async def test_a_known_image_is_created_and_the_chosen_host_is_asked(plane: Plane) -> None:
    plane.bus.answers["image_exists"] = True
    assert (await plane.client().post("/v1/containers", json=BODY)).status_code == 202
    ((host, method, asked),) = plane.bus.calls
    assert (host, method) == ("node1", "image_exists")
    assert asked == {
        "image": "cirros",
        "image_driver": "docker",
        "image_pull_policy": None,
        "registry_id": None,
        "image_uuid": None,
    }


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (HostUnreachable("Host node1 did not answer."), "The chosen host did not say whether the image exists."),
        (Unavailable("It cannot be told now whether the image exists: no route"), "It cannot be told now"),
    ],
)
async def test_when_nobody_can_tell_it_is_503_and_leaves_nothing(plane: Plane, failure: Exception, words: str) -> None:
    plane.bus.answers["image_exists"] = failure
    answer = await plane.client().post("/v1/containers", json=BODY)
    error = fault(answer)
    assert error["status"] == 503
    assert error["title"].startswith(words)
    assert "node1" not in answer.text
    await _nothing_left(plane)


async def test_off_by_default(tmp_path: Path) -> None:
    async with make_plane(tmp_path) as plane:
        await plane.add_host()
        assert (await plane.client().post("/v1/containers", json=BODY)).status_code == 202
        assert plane.bus.calls == []
