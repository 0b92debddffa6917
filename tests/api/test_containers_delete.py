"""Deleting containers: what is accepted, what is freed from here, and requests side by side (scenario 3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import fault
from tests.support.containers import Plane, make_plane
from zun.domain.lifecycle import ALLOWED, Status
from zun.store.tables import containers, local_volumes, volume_mappings

URL = "/v1/containers"


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    async with make_plane(tmp_path) as made:
        await made.add_host()
        yield made


def told(answer: Any) -> tuple[int, str]:
    return answer.status_code, fault(answer)["code"].removeprefix("container.")


async def test_delete_is_accepted_before_it_is_done(plane: Plane) -> None:
    """S3.4."""
    client, uuid = plane.client(), (await plane.create(plane.client(), "Stopped"))["uuid"]
    answer = await client.delete(f"{URL}/{uuid}?force=False&stop=False&all_projects=False")
    assert (answer.status_code, answer.content) == (204, b"")
    shown = (await client.get(f"{URL}/{uuid}")).json()
    assert (shown["status"], shown["task_state"]) == ("Deleting", "container_deleting")
    (left,) = await plane.operations(uuid)
    assert (left.kind, left.params["force"], left.params["stop"]) == ("delete", False, False)


@pytest.mark.parametrize(
    ("flags", "word"),
    [({}, "delete"), ({"stop": "true"}, "delete_after_stop"), ({"force": "true"}, "delete_force")],
)
async def test_status_decides(plane: Plane, flags: dict[str, str], word: str) -> None:
    """S3.1."""
    admin, uuid = plane.client("admin"), (await plane.create(plane.client()))["uuid"]
    for status in Status:
        await plane.set_row(uuid, status=status, task_state=None)
        if status == Status.CREATING and word != "delete_force":
            continue  # decided by the create operation: see the tests on Creating
        answer = await admin.delete(f"{URL}/{uuid}", params=flags)
        if status in ALLOWED[word]:
            assert answer.status_code == 204, (status, answer.text)
            await plane.finish(uuid)
        else:
            error = fault(answer)
            assert error["title"] == f"Cannot {word} container {uuid} in {status} state"


async def test_flags_have_their_versions_and_rules(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    assert told(await plane.client(version="1.6").delete(f"{URL}/{uuid}?force=true")) == (
        400,
        "invalid-param-in-version",
    )
    assert told(await plane.client(version="1.11").delete(f"{URL}/{uuid}?stop=true")) == (
        400,
        "invalid-param-in-version",
    )
    assert told(await client.delete(f"{URL}/{uuid}?force=true")) == (403, "policy-not-authorized")
    assert told(await client.delete(f"{URL}/{uuid}?force=true&stop=true")) == (403, "policy-not-authorized")
    assert told(await client.delete(f"{URL}/{uuid}?all_projects=true")) == (403, "policy-not-authorized")
    assert told(await client.delete(f"{URL}/{uuid}?bogus=1")) == (400, "schema-validation-error")
    assert await plane.operations(uuid) == []


async def test_delete_with_stop_is_two_actions_of_one_request(plane: Plane) -> None:
    client, uuid = plane.client(version="1.12"), (await plane.create(plane.client()))["uuid"]
    answer = await client.delete(f"{URL}/{uuid}?stop=True")
    stop, delete = await plane.operations(uuid)
    assert (stop.kind, stop.params, delete.kind) == ("stop", {"timeout": 10}, "delete")
    assert stop.request_id == delete.request_id == answer.headers["x-openstack-request-id"]
    one = (await client.get(f"{URL}/{uuid}/container_actions/{stop.request_id}")).json()
    assert one["action"] == "stop"


async def test_deletes_side_by_side_leave_one_operation(plane: Plane) -> None:
    """docs/decisions/0002-parallel-deletes.md."""
    client, uuid = plane.client(), (await plane.create(plane.client(), "Stopped"))["uuid"]
    answers = await asyncio.gather(*(client.delete(f"{URL}/{uuid}") for _ in range(20)))
    assert {answer.status_code for answer in answers} == {204}
    assert len(await plane.operations(uuid)) == 1
    assert (await client.delete(f"{URL}/{uuid}")).status_code == 204
    assert len(await plane.operations(uuid)) == 1


async def test_force_takes_over_from_a_delete_that_hangs(plane: Plane) -> None:
    uuid = (await plane.create(plane.client(), "Stopped"))["uuid"]
    await plane.client().delete(f"{URL}/{uuid}")
    assert (await plane.client("admin").delete(f"{URL}/{uuid}?force=true")).status_code == 204
    (left,) = await plane.operations(uuid)
    assert left.params["force"] is True


async def test_delete_is_accepted_while_the_host_is_down_and_frees_at_once(plane: Plane) -> None:
    """S3.2: done when the node returns; quota and allocation are free before, and given back once."""
    kept = (await plane.create(plane.client(), "Stopped"))["uuid"]
    uuid = (await plane.create(plane.client(), "Stopped"))["uuid"]
    await plane.host_down()
    for _ in range(2):
        assert (await plane.client().delete(f"{URL}/{uuid}")).status_code == 204
        (left,) = await plane.operations(uuid)
        assert (left.host, left.params["freed"], left.params["force"]) == ("node1", True, False)
        assert await plane.api.control.placement.allocation(uuid) is None
        assert (await plane.usage())["containers"] == 1
    shown = (await plane.client().get(f"{URL}/{uuid}")).json()
    assert (shown["status"], shown["status_detail"]) == ("Deleting", "Host down")
    assert shown["status_reason"].endswith("It is removed when the host is back.")
    assert (await plane.client("admin").delete(f"{URL}/{uuid}?force=true")).status_code == 204
    assert (await plane.usage())["containers"] == 1
    assert await plane.api.control.placement.allocation(kept) is not None


async def test_a_host_that_goes_down_after_the_delete_frees_when_it_is_asked_again(plane: Plane) -> None:
    uuid = (await plane.create(plane.client(), "Stopped"))["uuid"]
    assert (await plane.client().delete(f"{URL}/{uuid}")).status_code == 204
    assert (await plane.usage())["containers"] == 1
    await plane.host_down()
    assert (await plane.client().delete(f"{URL}/{uuid}")).status_code == 204
    assert (await plane.usage())["containers"] == 0
    assert await plane.api.control.placement.allocation(uuid) is None
    (left,) = await plane.operations(uuid)
    assert left.params["freed"] is True


async def test_placement_away_does_not_refuse_the_delete(plane: Plane) -> None:
    uuid = (await plane.create(plane.client(), "Stopped"))["uuid"]
    await plane.host_down()
    plane.placement.down = True
    assert (await plane.client().delete(f"{URL}/{uuid}")).status_code == 204
    assert (await plane.usage())["containers"] == 0


async def test_the_operator_may_keep_it_until_the_host_is_back(tmp_path: Path) -> None:
    async with make_plane(tmp_path, {"compute.free_on_lost_host": "false"}) as plane:
        await plane.add_host()
        uuid = (await plane.create(plane.client(), "Stopped"))["uuid"]
        await plane.host_down()
        for _ in range(2):
            assert (await plane.client().delete(f"{URL}/{uuid}")).status_code == 204
        (left,) = await plane.operations(uuid)
        assert "freed" not in left.params
        assert await plane.api.control.placement.allocation(uuid) is not None
        assert (await plane.usage())["containers"] == 1


async def test_what_is_being_made_on_a_host_that_went_down_may_be_deleted(plane: Plane) -> None:
    uuid = (await plane.create(plane.client(), None))["uuid"]
    assert (await plane.client().delete(f"{URL}/{uuid}")).status_code == 409
    await plane.host_down()
    assert (await plane.client().delete(f"{URL}/{uuid}")).status_code == 204
    assert [left.kind for left in await plane.operations(uuid)] == ["delete"]


async def test_a_container_on_a_host_that_is_down_is_shown_as_last_known(plane: Plane) -> None:
    """S3.2: by the record, with the host's state; the host's name for admins only."""
    client, admin = plane.client(), plane.client("admin")
    uuid = (await plane.create(client, "Running"))["uuid"]
    assert (await client.get(f"{URL}/{uuid}")).json()["status_detail"] != "Host down"
    await plane.host_down()
    shown = (await client.get(f"{URL}/{uuid}")).json()
    assert (shown["status"], shown["status_detail"]) == ("Running", "Host down")
    assert shown["status_reason"] == "The container's host was declared down. This is the last known state."
    assert "host node1 was declared down" in (await admin.get(f"{URL}/{uuid}")).json()["status_reason"]
    await plane.set_service(forced_down=False)
    plane.clock.ahead += timedelta(seconds=200)
    reason = (await client.get(f"{URL}/{uuid}")).json()["status_reason"]
    assert reason.startswith("The container's host has not been heard of since 20")
    await plane.set_row(uuid, status="Error", status_reason="its own")
    assert (await client.get(f"{URL}/{uuid}")).json()["status_reason"] == "its own"


async def test_force_frees_at_once_while_the_host_is_down(plane: Plane) -> None:
    """S3.2: row, quota, allocation now; the node finds a tombstone."""
    client = plane.client()
    uuid = (await plane.create(client, "Running", mounts=[{"size": 1, "destination": "/d"}]))["uuid"]
    await plane.client().post(f"{URL}/{uuid}/stop")
    await plane.host_down()
    assert (await plane.client("admin").delete(f"{URL}/{uuid}?force=true")).status_code == 204
    assert (await client.get(f"{URL}/{uuid}")).status_code == 404
    assert (await plane.usage())["containers"] == 0
    assert await plane.api.control.placement.allocation(uuid) is None
    (left,) = await plane.operations(uuid)
    assert (left.kind, left.host, left.params["force"], left.params["tombstone"]) == ("delete", "node1", True, True)
    assert await plane.count(volume_mappings) == 1, "the node needs it to unmount"


async def test_without_host_everything_is_freed_from_here(plane: Plane) -> None:
    """S3.3."""
    client = plane.client()
    uuid = (await plane.create(client, "Error", mounts=[{"size": 1, "destination": "/d"}]))["uuid"]
    await plane.set_row(uuid, host=None)
    assert (await client.delete(f"{URL}/{uuid}")).status_code == 204
    assert (await client.get(f"{URL}/{uuid}")).status_code == 404
    assert await plane.usage() == {"containers": 0, "cpu": 0, "memory": 0, "disk": 0}
    assert await plane.api.control.placement.allocation(uuid) is None
    assert "release_ports" in plane.network.seen
    assert [await plane.count(table) for table in (containers, volume_mappings, local_volumes)] == [0, 0, 0]


async def test_without_host_and_placement_the_row_stays_for_another_try(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client(), "Error"))["uuid"]
    await plane.set_row(uuid, host=None)
    plane.placement.down = True
    assert (await client.delete(f"{URL}/{uuid}")).status_code == 503
    assert (await client.get(f"{URL}/{uuid}")).json()["status"] == "Error"
    plane.placement.down = False
    assert (await client.delete(f"{URL}/{uuid}")).status_code == 204
    assert (await plane.usage())["containers"] == 0


async def test_parallel_deletes_without_host_give_the_quota_back_once(plane: Plane) -> None:
    client = plane.client()
    await plane.create(client)
    uuid = (await plane.create(client, "Error"))["uuid"]
    await plane.set_row(uuid, host=None)
    answers = await asyncio.gather(*(client.delete(f"{URL}/{uuid}") for _ in range(10)))
    codes = [answer.status_code for answer in answers]
    assert 204 in codes
    assert set(codes) <= {204, 404, 409}
    assert (await plane.usage())["containers"] == 1


async def test_creating_may_be_given_up_after_half_its_time(plane: Plane) -> None:
    """S1.26: not deletable at first, deletable by its owner later."""
    client, uuid = plane.client(), (await plane.create(plane.client(), None))["uuid"]
    assert told(await client.delete(f"{URL}/{uuid}")) == (409, "invalid-state-exception")
    plane.clock.ahead = timedelta(seconds=901)
    assert (await client.delete(f"{URL}/{uuid}")).status_code == 204
    (left,) = await plane.operations(uuid)
    assert left.kind == "delete"


async def test_creating_without_a_live_operation_may_be_deleted(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client(), None))["uuid"]
    await plane.finish(uuid, error=True)
    assert (await client.delete(f"{URL}/{uuid}")).status_code == 204


async def test_deleting_of_other_projects_needs_an_admin(plane: Plane) -> None:
    uuid = (await plane.create(plane.client(), "Stopped"))["uuid"]
    assert (await plane.client(project_id="proj2").delete(f"{URL}/{uuid}")).status_code == 404
    answer = await plane.client("admin", project_id="other").delete(f"{URL}/{uuid}?stop=true&all_projects=True")
    assert answer.status_code == 204
