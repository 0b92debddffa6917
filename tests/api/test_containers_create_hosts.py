"""Creating containers: which host is chosen, and what is told where none is."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import told
from tests.support.containers import Plane, make_plane, refused
from zun.conf import ConfigError
from zun.store.tables import local_volumes

URL = "/v1/containers"


async def test_no_room_is_accepted_and_told_in_the_row(plane: Plane, caplog: pytest.LogCaptureFixture) -> None:
    """S1.10, S1.11, S1.13, S1.25."""
    with caplog.at_level(logging.WARNING):
        wish = {"availability_zone": "elsewhere", "mounts": [{"size": 1, "destination": "/d"}]}
        answer = await plane.client().post(URL, json={"image": "cirros", **wish})
    body = answer.json()
    assert answer.status_code == 202
    assert (body["status"], body["status_reason"]) == ("Error", "There are not enough hosts available.")
    (action,) = (await plane.client().get(f"{URL}/{body['uuid']}/container_actions")).json()["containerActions"]
    assert action["action"] == "create"
    assert action["message"] == "Error"
    assert action["request_id"] == answer.headers["x-openstack-request-id"]
    assert action["finish_time"] is not None
    assert await plane.api.control.placement.allocation(body["uuid"]) is None
    assert await plane.count(local_volumes) == 0
    assert "rejected_by=AvailabilityZoneFilter: 1" in caplog.text


async def test_no_candidate_is_logged_with_what_was_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """S1.25."""
    async with make_plane(tmp_path) as plane:
        with caplog.at_level(logging.WARNING):
            answer = await plane.client().post(URL, json={"image": "cirros"})
    assert answer.json()["status"] == "Error"
    assert "Got no allocation candidates from the Placement API" in caplog.text
    assert "VCPU: 1, MEMORY_MB: 512" in caplog.text


async def test_placement_away_is_503_and_nothing_stays(plane: Plane) -> None:
    plane.placement.down = True
    body = {"image": "cirros", "mounts": [{"size": "1", "destination": "/d"}]}
    status, _, title = await refused(plane, body)
    assert status == 503
    assert "Placement" in title


@pytest.mark.parametrize("change", [{"disabled": True}, {"forced_down": True}])
async def test_disabled_or_down_host_gets_nothing(plane: Plane, change: dict[str, Any]) -> None:
    """S6.5."""
    await plane.set_service(**change)
    assert (await plane.create(plane.client(), None))["status"] == "Error"


async def test_silent_host_gets_nothing(plane: Plane) -> None:
    plane.clock.ahead = timedelta(seconds=181)
    assert (await plane.create(plane.client(), None))["status"] == "Error"


async def test_containers_are_spread(plane: Plane) -> None:
    await plane.add_host("node2")
    for _ in range(4):
        await plane.create(plane.client(), None)
    assert sorted(plane.bus.rings) == ["node1", "node1", "node2", "node2"]


async def test_admin_names_the_host(plane: Plane) -> None:
    await plane.add_host("node2")
    for _ in range(2):
        made = await plane.create(plane.client("admin"), None, host="node2")
        assert made["host"] == "node2"
    status, slug, _ = told(await plane.client("admin").post(URL, json={"image": "cirros", "host": "nowhere"}))
    assert (status, slug) == (404, "requested-host-not-found")


async def test_an_unknown_filter_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown filter NoFilter"):
        async with make_plane(tmp_path, {"scheduler.enabled_filters": "ComputeFilter,NoFilter"}):
            pytest.fail("the application must not start")


@pytest.mark.parametrize("enabled", ["CPUFilter", "RamFilter", "DiskFilter", "LabelFilter", "CpuSetFilter"])
async def test_every_filter_can_be_enabled(tmp_path: Path, enabled: str) -> None:
    async with make_plane(tmp_path, {"scheduler.enabled_filters": enabled}) as plane:
        await plane.add_host(labels={"ssd": "yes"})
        made = await plane.create(plane.client(), None, hints={"label:ssd": "yes"})
        assert made["status"] == "Creating"


async def test_dedicated_cores_go_to_a_host_that_gives_them_whatever_filters_are_on(plane: Plane) -> None:
    await plane.add_host("pinning", enable_cpu_pinning=True, numa_topology={"0": [2, 3], "1": [5]})
    for _ in range(3):
        assert (await plane.create(plane.client("admin"), None, cpu_policy="dedicated"))["host"] == "pinning"
    refused = await plane.create(plane.client("admin"), None, cpu_policy="dedicated")
    assert (refused["status"], refused["status_reason"]) == ("Error", "There are not enough hosts available.")


async def test_dedicated_cores_are_never_given_twice_whoever_asks_at_once(plane: Plane) -> None:
    for host in ("one", "two"):
        await plane.add_host(host, enable_cpu_pinning=True, numa_topology={"0": [0, 1, 2]})
    client = plane.client("admin")
    made = await asyncio.gather(*(plane.create(client, None, cpu_policy="dedicated", cpu=1) for _ in range(9)))
    placed = [row for row in made if row["status"] == "Creating"]
    assert sorted(row["host"] for row in placed) == ["one"] * 3 + ["two"] * 3
    assert len(made) - len(placed) == 3
    for row in made:
        held = await plane.api.control.placement.allocation(row["uuid"])
        assert (held is not None) == (row["status"] == "Creating")


async def test_dedicated_cores_of_a_create_that_fails_are_given_back(plane: Plane) -> None:
    await plane.add_host("one", enable_cpu_pinning=True, numa_topology={"0": [0]})
    client = plane.client("admin")
    refused = await client.post("/v1/containers", json={"image": "busybox", "cpu_policy": "dedicated", "nets": [{}]})
    assert refused.status_code >= 400
    assert (await plane.create(client, None, cpu_policy="dedicated"))["status"] == "Creating"
