"""Power and rebuild: what each status permits, and what is left for the node (§10.5)."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.api import told
from tests.support.containers import STATS, Plane
from zun.domain.lifecycle import ALLOWED, Status
from zun.domain.resources import MEMORY_MB, VCPU

URL = "/v1/containers"


POWER = ("start", "stop", "reboot", "pause", "unpause", "kill", "rebuild")
ANNOUNCED = {
    "start": (None, "container_starting"),
    "stop": (None, "container_stopping"),
    "reboot": ("Restarting", "container_rebooting"),
    "pause": (None, "container_pausing"),
    "unpause": (None, "container_unpausing"),
    "kill": (None, "container_killing"),
    "rebuild": ("Rebuilding", "container_rebuilding"),
}


async def test_every_status_permits_what_the_table_says(plane: Plane) -> None:
    """S3.1's text for every operation and status of §10.5."""
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    plane.bus.answers = {"logs": "", "stats": STATS, "top": {"Titles": [], "Processes": []}, "resize": None}
    calls = {
        **{name: ("POST", name, {}) for name in POWER},
        "resize": ("POST", "resize", {"h": 1, "w": 1}),
        "stats": ("GET", "stats", {}),
        "top": ("GET", "top", {}),
        "logs": ("GET", "logs", {}),
    }
    for status in Status:
        for operation, (method, path, query) in calls.items():
            await plane.set_row(uuid, status=status, task_state=None, host="node1")
            answer = await client.request(method, f"{URL}/{uuid}/{path}", params=query)
            if status in ALLOWED[operation]:
                assert answer.status_code < 300, (operation, status, answer.text)
                await plane.finish(uuid)
            else:
                title = f"Cannot {operation} container {uuid} in {status} state"
                assert told(answer) == (409, "invalid-state-exception", title)


@pytest.mark.parametrize("operation", POWER)
async def test_power_is_announced_and_left_for_the_node(plane: Plane, operation: str) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    before = {"start": "Stopped", "unpause": "Paused"}.get(operation, "Running")
    await plane.set_row(uuid, status=before)
    answer = await client.post(f"{URL}/{uuid}/{operation}")
    assert (answer.status_code, answer.json()) == (202, None)
    status, task = ANNOUNCED[operation]
    shown = (await client.get(f"{URL}/{uuid}")).json()
    assert (shown["status"], shown["task_state"]) == (status or before, task)
    (left,) = await plane.operations(uuid)
    assert (left.kind, left.host, left.params["status_before"]) == (operation, "node1", before)
    assert left.request_id == answer.headers["x-openstack-request-id"]
    if operation == "rebuild":
        assert left.params["run"] is True


async def test_a_task_at_work_keeps_its_label(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    await client.post(f"{URL}/{uuid}/pause")
    await client.post(f"{URL}/{uuid}/stop")
    assert (await client.get(f"{URL}/{uuid}")).json()["task_state"] == "container_pausing"
    assert [one.kind for one in await plane.operations(uuid)] == ["pause", "stop"]


@pytest.mark.parametrize("operation", POWER)
async def test_nothing_is_half_announced_to_a_host_that_is_down(plane: Plane, operation: str) -> None:
    """S3.2."""
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    before = {"start": "Stopped", "unpause": "Paused"}.get(operation, "Running")
    await plane.set_row(uuid, status=before)
    await plane.host_down()
    assert told(await client.post(f"{URL}/{uuid}/{operation}")) == (
        409, "container-host-not-up", f"Container {uuid} host is not up.",
    )  # fmt: skip
    assert "node1" in told(await plane.client("admin").post(f"{URL}/{uuid}/{operation}"))[2]
    shown = (await client.get(f"{URL}/{uuid}")).json()
    assert (shown["status"], shown["task_state"]) == (before, None)
    assert await plane.operations(uuid) == []


async def test_parallel_requests_each_leave_one_operation_or_are_told(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    answers = await asyncio.gather(*(client.post(f"{URL}/{uuid}/reboot") for _ in range(10)))
    codes = sorted(answer.status_code for answer in answers)
    assert codes == [202] + [409] * 9
    assert len(await plane.operations(uuid)) == 1


@pytest.mark.parametrize(
    ("path", "params", "code"),
    [
        ("stop", {"timeout": "5"}, 202),
        ("stop", {"timeout": ""}, 202),
        ("stop", {"timeout": "None"}, 400),
        ("stop", {"timeout": "-1"}, 400),
        ("stop", {"bogus": "1"}, 400),
        ("kill", {"signal": "SIGTERM"}, 202),
        ("kill", {"signal": "usr1"}, 202),
        ("kill", {"signal": "9"}, 202),
        ("kill", {"signal": "None"}, 202),
        ("kill", {"signal": "Term"}, 400),
        ("kill", {"signal": "SIGWHAT"}, 400),
        ("kill", {"signal": "999"}, 400),
        ("rebuild", {"image": "other:1", "image_driver": "docker"}, 202),
        ("rebuild", {"image": "UPPER/bad:::"}, 400),
        ("rebuild", {"image_driver": "glance"}, 400),
    ],
)
async def test_parameters_in_query_and_body_alike(plane: Plane, path: str, params: dict[str, str], code: int) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    for more in ({"params": params}, {"json": params}):
        await plane.settle(uuid)
        answer = await client.post(f"{URL}/{uuid}/{path}", **more)  # type: ignore[arg-type]
        assert answer.status_code == code, answer.text


async def test_kill_refuses_null(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    assert (await client.post(f"{URL}/{uuid}/kill", json={"signal": None})).status_code == 400


@pytest.mark.parametrize("operation", ["start", "reboot", "rebuild"])
async def test_a_container_without_host_is_placed_anew(plane: Plane, operation: str) -> None:
    """S1.28, S1.29: after a failed create the user tries again."""
    client = plane.client()
    wish = {"availability_zone": "nova", "mounts": [{"size": 1, "destination": "/d"}]}
    await plane.host_down()
    uuid = (await plane.create(client, None, **wish))["uuid"]
    refusal = told(await client.post(f"{URL}/{uuid}/{operation}"))
    assert refusal == (409, "conflict", "There are not enough hosts available.")
    await plane.set_service(forced_down=False)
    assert (await client.post(f"{URL}/{uuid}/{operation}")).status_code == 202
    row = await plane.row(uuid)
    assert row is not None
    assert row.host == "node1"
    assert row.status_reason is None
    assert await plane.api.control.placement.allocation(uuid) == {VCPU: 1, MEMORY_MB: 512}
    (left,) = await plane.operations(uuid)
    assert (left.kind, left.host) == (operation, "node1")
    assert (left.deadline - left.start_time).total_seconds() == 1800
