"""Lines of a pull as one progress, and what is sent."""

from __future__ import annotations

import base64
import json

import pytest

from zun.domain.errors import ImageFailed
from zun.runtime.base import PullProgress, RegistryAuth
from zun.runtime.docker_pull import PullMeter, auth_header, pull_params


def downloading(layer: str, current: int, total: int) -> dict[str, object]:
    return {"status": "Downloading", "id": layer, "progressDetail": {"current": current, "total": total}}


def test_layers_are_summed_and_never_counted_twice() -> None:
    meter = PullMeter()
    assert meter.take({"status": "Pulling from a/b", "id": "latest"}) == PullProgress(0, 0, "Pulling from a/b")
    assert meter.take({"status": "Already exists", "id": "l0"}) == PullProgress(0, 0, "Already exists")
    assert meter.take(downloading("l1", 10, 100)) == PullProgress(10, 100, "Downloading")
    assert meter.take(downloading("l2", 5, 50)) == PullProgress(15, 150, "Downloading")
    assert meter.take(downloading("l1", 60, 100)) == PullProgress(65, 150, "Downloading")
    assert meter.take({"status": "Download complete", "id": "l1"}) == PullProgress(105, 150, "Download complete")
    extracting = {"status": "Extracting", "id": "l1", "progressDetail": {"current": 3, "total": 100}}
    assert meter.take(extracting) == PullProgress(105, 150, "Extracting")
    assert meter.take({"status": "Pull complete", "id": "l2"}) == PullProgress(150, 150, "Pull complete")


def test_standing_still_is_no_progress() -> None:
    meter = PullMeter()
    for status in ("Waiting", "Retrying in 5 seconds", ""):
        assert meter.take({"status": status, "id": "l1"}) is None
    assert meter.take({"aux": {}}) is None


def test_size_that_is_not_known_yet() -> None:
    meter = PullMeter()
    assert meter.take(downloading("l1", 10, 0)) == PullProgress(10, 0, "Downloading")
    assert meter.take({"status": "Download complete", "id": "l1"}) == PullProgress(10, 10, "Download complete")


def test_credentials_are_sent_url_safe_and_never_shown() -> None:
    auth = RegistryAuth("r:5000", "u", "pässword>>??")
    header = auth_header(auth)["X-Registry-Auth"]
    assert json.loads(base64.urlsafe_b64decode(header)) == {
        "username": "u",
        "password": "pässword>>??",
        "serveraddress": "r:5000",
    }
    assert auth_header(None) == {}
    assert "pässword" not in repr(auth)


@pytest.mark.parametrize(
    ("reference", "name", "tag"),
    [
        ("busybox", "busybox", "latest"),
        ("r.example:5000/a/b:1", "r.example:5000/a/b", "1"),
        (f"a/b@sha256:{'0' * 64}", "a/b", f"sha256:{'0' * 64}"),
    ],
)
def test_query(reference: str, name: str, tag: str) -> None:
    assert pull_params(reference) == {"fromImage": name, "tag": tag}


def test_query_of_no_reference() -> None:
    with pytest.raises(ImageFailed, match="Image a/B is not a valid reference"):
        pull_params("a/B")
