"""The log of a member of a capsule is followed through the API, in containerd and in Docker: every line once."""

from __future__ import annotations

import pytest

from tests.support.capsule_cloud import CapsuleCloud
from tests.support.log_follower import ClientFollower, by_number, counted, counts
from tests.support.wait import wait_until

pytestmark = [pytest.mark.xdist_group("capsules"), pytest.mark.timeout(600)]


def test_a_member_that_ends(capsules: CapsuleCloud) -> None:
    uuid = capsules.create({"script": counts(300)}, restartPolicy="Never")
    capsules.wait(uuid, "Running", "Stopped")
    member = capsules.show(uuid)["containers"][0]["uuid"]
    follower = ClientFollower(capsules.product.http, member)
    follower.read(lambda: len(follower.lines) >= 100)
    follower.read_to_the_end()
    assert by_number(follower.lines) == counted(300)
    assert follower.events[-1].data["exit_code"] == 3


def test_a_member_that_is_deleted_with_its_capsule(capsules: CapsuleCloud) -> None:
    uuid = capsules.create({"script": "echo begun; sleep 1000"})
    capsules.wait(uuid, "Running")
    member = capsules.show(uuid)["containers"][0]["uuid"]
    follower = ClientFollower(capsules.product.http, member)
    follower.read(lambda: follower.lines == ["begun"])
    capsules.delete(uuid)
    assert capsules.product.http().get(f"/v1/containers/{member}/logs/stream").status_code == 404
    wait_until(lambda: not capsules.show(uuid), 30, "it is gone")
