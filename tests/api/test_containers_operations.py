"""Power, questions to the node, size and names: what each status permits, and what is left for the node (§10.5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import fault
from tests.support.containers import Plane, make_plane
from zun.domain.errors import Conflict
from zun.domain.lifecycle import ALLOWED, Status
from zun.domain.resources import MEMORY_MB, VCPU
from zun.store import operations

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


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    async with make_plane(tmp_path) as made:
        await made.add_host()
        yield made


def told(answer: Any) -> tuple[int, str, str]:
    error = fault(answer)
    return answer.status_code, error["code"].removeprefix("container."), error["title"]


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


STATS = {
    "cpu_percent": 1.5, "memory_usage_mib": 64.0, "memory_limit_mib": 512.0, "block_read": 1, "block_write": 2,
    "net_rx": 3, "net_tx": 4,
}  # fmt: skip


async def test_questions_reach_the_node_and_come_back_as_the_contract_shows(plane: Plane) -> None:
    client, made = plane.client(), await plane.create(plane.client(), name="web")
    one = f"{URL}/{made['uuid']}"
    plane.bus.answers = {
        "logs": "hello\n", "execute": {"output": "hi\n", "exit_code": 3}, "stats": STATS, "resize": None,
        "top": {"Titles": ["PID"], "Processes": [["1"]]},
    }  # fmt: skip
    assert (await client.get(f"{one}/logs?tail=5&since=2026-01-01 00:00:00,500&stderr=no")).json() == "hello\n"
    assert plane.bus.calls[-1] == (
        "node1", "logs",
        {"uuid": made["uuid"], "stdout": True, "stderr": False, "timestamps": False, "tail": 5, "since": 1767225600.5},
    )  # fmt: skip
    assert (await client.get(f"{one}/logs?tail=all")).status_code == 200
    assert plane.bus.calls[-1][2]["tail"] is None
    assert (await client.get(f"{one}/logs?since=yesterday")).status_code == 400
    executed = await client.post(f"{one}/execute", json={"command": "sh -c 'a b'"})
    assert executed.json() == {"output": "hi\n", "exit_code": 3, "exec_id": None, "proxy_url": None}
    assert plane.bus.calls[-1][2]["command"] == ["sh", "-c", "a b"]
    assert (await client.get(f"{one}/stats")).json() == {
        "CONTAINER": "web", "CPU %": 1.5, "MEM USAGE(MiB)": 64.0, "MEM LIMIT(MiB)": 512.0, "MEM %": 12.5,
        "BLOCK I/O(B)": "1/2", "NET I/O(B)": "3/4",
    }  # fmt: skip
    assert (await client.get(f"{one}/top?ps_args=None")).json() == {"Titles": ["PID"], "Processes": [["1"]]}
    assert plane.bus.calls[-1][2]["ps_args"] is None
    assert (await client.post(f"{one}/resize?h=24&w=80")).json() is None
    assert plane.bus.calls[-1][2] == {"uuid": made["uuid"], "height": 24, "width": 80}


async def test_a_node_that_does_not_answer_is_503_named_to_admins_only(plane: Plane) -> None:
    uuid = (await plane.create(plane.client()))["uuid"]
    member = await plane.client().get(f"{URL}/{uuid}/logs")
    assert member.status_code == 503
    assert "node1" not in member.text
    assert "node1" in (await plane.client("admin").get(f"{URL}/{uuid}/logs")).text


async def test_the_nodes_refusal_comes_without_suffix(plane: Plane) -> None:
    uuid = (await plane.create(plane.client()))["uuid"]
    plane.bus.answers["execute"] = Conflict("The command ran longer than 5 seconds.")
    answer = await plane.client().post(f"{URL}/{uuid}/execute", json={"command": "sleep 9"})
    assert told(answer) == (409, "conflict", "The command ran longer than 5 seconds.")


@pytest.mark.parametrize("body", [{}, {"command": ""}, {"command": "a 'b"}, {"command": "ls", "bogus": 1}])
async def test_execute_refuses_what_it_cannot_run(plane: Plane, body: dict[str, Any]) -> None:
    uuid = (await plane.create(plane.client()))["uuid"]
    assert (await plane.client().post(f"{URL}/{uuid}/execute", json=body)).status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "more", "code"),
    [
        ("POST", "execute", {"params": {"command": "sh", "run": "False", "interactive": "True"}}, 409),
        ("POST", "execute_resize", {"params": {"exec_id": "a" * 64, "h": "1", "w": "1"}}, 400),
        ("POST", "execute_resize", {"params": {"exec_id": "a", "h": "1", "w": "1"}}, 400),
        ("GET", "attach", {}, 400),
        ("GET", "get_archive", {"params": {"path": "/etc"}}, 409),
        ("GET", "get_archive", {}, 400),
        ("POST", "put_archive", {"params": {"path": "/"}, "json": {"data": "%%%"}}, 400),
        ("POST", "put_archive", {"params": {"path": "/"}, "json": {"data": "YQ=="}}, 409),
        ("POST", "commit", {"params": {"repository": "r"}}, 409),
        ("POST", "commit", {"json": {"repository": "r"}}, 400),
        ("POST", "network_detach", {"params": {"network": "n"}}, 409),
        ("POST", "network_detach", {"params": {"network": "n", "port": "p"}}, 400),
        ("POST", "network_attach", {"params": {"network": "n", "port": "p"}}, 400),
        ("POST", "network_attach", {"json": {"fixed_ip": "nope"}}, 400),
        ("POST", "network_attach", {}, 409),
    ],
)
async def test_what_is_not_offered_is_checked_and_told(
    plane: Plane, method: str, path: str, more: dict[str, Any], code: int
) -> None:
    uuid = (await plane.create(plane.client()))["uuid"]
    answer = await plane.client().request(method, f"{URL}/{uuid}/{path}", **more)
    status, _, title = told(answer)
    assert status == code, title
    if code == 409:
        assert "is not offered by this deployment yet" in title


async def test_attach_needs_the_interactive_flag(plane: Plane) -> None:
    client = plane.client()
    plain, talking = await plane.create(client), await plane.create(client, interactive=True)
    assert told(await client.get(f"{URL}/{plain['uuid']}/attach"))[:2] == (400, "no-interactive-flag")
    assert (await client.get(f"{URL}/{talking['uuid']}/attach")).status_code == 409


@pytest.mark.parametrize(
    ("path", "version", "code"),
    [
        ("add_security_group?name=a", "1.14", 409),
        ("add_security_group?name=a", "1.15", 406),
        ("rename?name=newname", "1.13", 200),
        ("rename?name=newname", "1.14", 406),
        ("resize_container", "1.18", 406),
        ("network_attach", "1.7", 406),
        ("network_detach?network=a", "1.5", 406),
    ],
)
async def test_routes_have_their_versions(plane: Plane, path: str, version: str, code: int) -> None:
    uuid = (await plane.create(plane.client()))["uuid"]
    assert (await plane.client(version=version).post(f"{URL}/{uuid}/{path}")).status_code == code


ADDRESSES = {
    "net1": [
        {"addr": "10.0.0.2", "version": 4, "port": "port1", "subnet_id": "sub4", "preserve_on_delete": False},
        {"addr": "fd00::2", "version": 6, "port": "port1", "subnet_id": "sub6", "preserve_on_delete": False},
    ]
}


async def test_network_list_in_both_shapes(plane: Plane) -> None:
    uuid = (await plane.create(plane.client()))["uuid"]
    await plane.set_row(uuid, addresses=ADDRESSES)
    old = (await plane.client(version="1.17").get(f"{URL}/{uuid}/network_list")).json()
    assert old["networks"][0] == {
        "net_id": "net1", "subnet_id": "sub4", "port_id": "port1", "version": 4, "ip_address": "10.0.0.2",
    }  # fmt: skip
    assert len(old["networks"]) == 2
    new = (await plane.client().get(f"{URL}/{uuid}/network_list")).json()
    assert new == {
        "networks": [
            {
                "net_id": "net1",
                "port_id": "port1",
                "fixed_ips": [
                    {"subnet_id": "sub4", "version": 4, "ip_address": "10.0.0.2"},
                    {"subnet_id": "sub6", "version": 6, "ip_address": "fd00::2"},
                ],
            }
        ]
    }


async def test_patch_name_and_healing_at_once(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    changed = await client.patch(f"{URL}/{uuid}", json={"name": "other", "auto_heal": "True"})
    assert changed.status_code == 200
    assert (changed.json()["name"], changed.json()["auto_heal"]) == ("other", True)
    assert changed.json()["links"]
    assert plane.bus.calls == []
    assert (await client.patch(f"{URL}/{uuid}", json={"name": None})).json()["name"] == "other"
    assert (await client.patch(f"{URL}/{uuid}", json={})).status_code == 200
    assert (await client.patch(f"{URL}/{uuid}", json={"disk": 5})).status_code == 400
    await plane.set_row(uuid, status="Error")
    assert told(await client.patch(f"{URL}/{uuid}", json={"name": "x1"}))[2].startswith("Cannot update container")


async def test_patch_size_changes_quota_claim_engine_and_row(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client(), cpu=1, memory=512))["uuid"]
    plane.bus.answers["update"] = None
    changed = await client.patch(f"{URL}/{uuid}", json={"cpu": "2.5", "memory": 256})
    assert (changed.json()["cpu"], changed.json()["memory"]) == (2.5, "256")
    assert plane.bus.calls == [("node1", "update", {"uuid": uuid, "cpu": 2.5, "memory": 256})]
    assert await plane.usage() == {"containers": 1, "cpu": 2500, "memory": 256, "disk": 0}
    assert await plane.api.control.placement.allocation(uuid) == {VCPU: 3, MEMORY_MB: 256}


async def test_sizes_asked_side_by_side_leave_row_quota_claim_and_engine_alike(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client(), cpu=1, memory=512))["uuid"]
    plane.bus.answers["update"] = None
    wishes = [{"cpu": cores, "memory": 512} for cores in (2, 3, 4, 5)]
    answers = await asyncio.gather(*(client.patch(f"{URL}/{uuid}", json=wish) for wish in wishes))
    assert {answer.status_code for answer in answers} <= {200, 409}
    shown = (await client.get(f"{URL}/{uuid}")).json()
    assert plane.bus.calls[-1][2]["cpu"] == shown["cpu"]
    assert (await plane.usage())["cpu"] == shown["cpu"] * 1000
    assert await plane.api.control.placement.allocation(uuid) == {VCPU: int(shown["cpu"]), MEMORY_MB: 512}


@pytest.mark.parametrize("answer", [Conflict("The engine refuses."), None])
async def test_refused_size_leaves_everything_as_it_was(plane: Plane, answer: Exception | None) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client(), cpu=1, memory=512))["uuid"]
    if answer is not None:
        plane.bus.answers["update"] = answer
    refusal = await client.patch(f"{URL}/{uuid}", json={"cpu": 2, "memory": 1024})
    assert refusal.status_code == (409 if answer else 503)
    shown = (await client.get(f"{URL}/{uuid}")).json()
    assert (shown["cpu"], shown["memory"]) == (1.0, "512")
    assert await plane.usage() == {"containers": 1, "cpu": 1000, "memory": 512, "disk": 0}
    assert await plane.api.control.placement.allocation(uuid) == {VCPU: 1, MEMORY_MB: 512}


async def test_size_beyond_the_quota_is_403_and_the_node_is_not_asked(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    await plane.client("admin").put("/v1/quotas/proj1", json={"cpu": 2})
    assert told(await client.patch(f"{URL}/{uuid}", json={"cpu": 3}))[:2] == (403, "over-quota")
    assert plane.bus.calls == []


async def test_a_resize_whose_process_dies_leaves_no_quota_counted(plane: Plane) -> None:
    """Quota is counted with the row: at the moment the node is asked, nothing is."""
    client, uuid = plane.client(), (await plane.create(plane.client(), cpu=1, memory=512))["uuid"]
    counted = []
    call = plane.bus.call

    async def asked(*given: Any) -> Any:
        counted.append(await plane.usage())
        return await call(*given)

    plane.bus.call = asked  # type: ignore[method-assign]
    plane.bus.answers["update"] = None
    assert (await client.patch(f"{URL}/{uuid}", json={"cpu": 3, "memory": 1024})).status_code == 200
    assert counted == [{"containers": 1, "cpu": 1000, "memory": 512, "disk": 0}]
    assert await plane.usage() == {"containers": 1, "cpu": 3000, "memory": 1024, "disk": 0}


async def test_a_size_the_quota_refuses_at_last_is_taken_back_from_the_engine(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client(), cpu=1, memory=512))["uuid"]
    admin, call = plane.client("admin"), plane.bus.call

    async def asked(*given: Any) -> Any:
        assert (await admin.put("/v1/quotas/proj1", json={"cpu": 1})).status_code == 200
        return await call(*given)

    plane.bus.call = asked  # type: ignore[method-assign]
    plane.bus.answers["update"] = None
    assert told(await client.patch(f"{URL}/{uuid}", json={"cpu": 3}))[:2] == (403, "over-quota")
    assert [sent[2]["cpu"] for sent in plane.bus.calls] == [3, 1]
    assert await plane.usage() == {"containers": 1, "cpu": 1000, "memory": 512, "disk": 0}
    assert await plane.api.control.placement.allocation(uuid) == {VCPU: 1, MEMORY_MB: 512}


async def test_resize_container_answers_the_old_values(plane: Plane) -> None:
    client, uuid = plane.client(), (await plane.create(plane.client()))["uuid"]
    plane.bus.answers["update"] = None
    answer = await client.post(f"{URL}/{uuid}/resize_container", json={"memory": "1024"})
    assert (answer.status_code, answer.json()["memory"]) == (202, "512")
    assert (await client.get(f"{URL}/{uuid}")).json()["memory"] == "1024"


async def test_rename_to_the_same_name_is_409(plane: Plane) -> None:
    client, uuid = plane.client(version="1.13"), (await plane.create(plane.client(), name="same"))["uuid"]
    assert (await client.post(f"{URL}/{uuid}/rename?name=same")).status_code == 409
    assert (await client.post(f"{URL}/same/rename", json={"name": "other"})).json()["name"] == "other"


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


async def test_actions_are_listed_newest_first_with_their_steps(plane: Plane) -> None:
    """§10.6."""
    client = plane.client()
    answer = await client.post(URL, json={"image": "cirros"})
    uuid, request = answer.json()["uuid"], answer.headers["x-openstack-request-id"]
    (operation,) = await plane.operations(uuid)
    now = plane.clock.now()
    async with plane.db.write() as connection:
        event = await operations.start_event(connection, operation.id, "image", now)
        await operations.set_progress(connection, event, {"done": 5, "total": 10, "phase": "Downloading"})
        await operations.add_event(
            connection, operation.id, "allocation", started=now, finished=now, error="secret text"
        )
    await plane.settle(uuid)
    await client.post(f"{URL}/{uuid}/stop")
    listed = (await client.get(f"{URL}/{uuid}/container_actions")).json()["containerActions"]
    assert [one["action"] for one in listed] == ["stop", "create"]
    assert listed[1]["request_id"] == request
    assert listed[0]["finish_time"] is None
    assert listed[1]["start_time"][10] == "T"
    one = (await client.get(f"{URL}/{uuid}/container_actions/{request}")).json()
    assert one["action"] == "create"
    steps = {step["event"]: step for step in one["events"]}
    assert steps["image"]["progress"] == {"done": 5, "total": 10, "phase": "Downloading"}
    assert (steps["allocation"]["result"], steps["allocation"]["traceback"]) == ("Error", None)
    seen = (await plane.client("admin").get(f"{URL}/{uuid}/container_actions/{request}")).json()
    assert {step["traceback"] for step in seen["events"]} == {None, "secret text"}
    missing = await client.get(f"{URL}/{uuid}/container_actions/req-nope")
    assert told(missing)[:2] == (404, "resource-not-found")


async def test_foreign_containers_are_404_and_ambiguous_names_409(plane: Plane) -> None:
    client, stranger = plane.client(), plane.client(project_id="proj2")
    mine = await plane.create(client, name="twin")
    assert told(await stranger.get(f"{URL}/{mine['uuid']}"))[:2] == (404, "container-not-found")
    assert told(await stranger.post(f"{URL}/twin/stop"))[2] == "Container twin could not be found."
    await plane.create(stranger, name="twin")
    assert (await client.get(f"{URL}/twin")).json()["uuid"] == mine["uuid"]
    assert told(await plane.client("admin").get(f"{URL}/twin")) == (
        409, "conflict", "Multiple containers exist with same name. Please use the container uuid instead.",
    )  # fmt: skip
    assert (await client.get(f"{URL}/twin?all_projects=False")).status_code == 200
    assert told(await client.get(f"{URL}/twin?all_projects=True"))[:2] == (403, "policy-not-authorized")


async def test_names_with_dots_are_reached(plane: Plane) -> None:
    client = plane.client()
    await plane.create(client, name="my.txt")
    assert (await client.get(f"{URL}/my.txt")).json()["name"] == "my.txt"


FIELDS = (
    "addresses auto_heal auto_remove command cpu cpu_policy created_at disk entrypoint environment healthcheck "
    "hostname image image_driver interactive labels links memory name ports project_id registry_id restart_policy "
    "security_groups status status_detail status_reason task_state tty updated_at user_id uuid workdir"
)


async def test_a_container_has_the_fields_of_the_contract_and_no_other(plane: Plane) -> None:
    """§10.2: hints, mounts, nets, exposed_ports, zone and engine id are never shown."""
    uuid = (await plane.create(plane.client()))["uuid"]
    shown = (await plane.client().get(f"{URL}/{uuid}")).json()
    assert sorted(shown) == FIELDS.split()
