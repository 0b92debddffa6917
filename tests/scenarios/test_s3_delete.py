"""Scenario 3: delete a container, on the embedded parts. Test names carry the statements they check."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.cloud import Cloud
from tests.support.wait import wait_until


def test_s3_1_a_status_that_does_not_allow_it_is_409_with_the_contracts_text(member: Cloud) -> None:
    uuid = member.running()["uuid"]
    answer = member.delete(uuid, 409)
    error = answer.json()["errors"][0]
    assert error["code"] == "container.invalid-state-exception"
    assert error["title"] == f"Cannot delete container {uuid} in Running state"


def test_s3_3_a_container_without_host_is_removed_at_once(member: Cloud) -> None:
    uuid = member.create(availability_zone="elsewhere")["uuid"]
    member.delete(uuid)
    assert member.show(uuid) is None


def test_s3_4_the_answer_comes_before_the_work_is_done(member: Cloud) -> None:
    uuid = member.running(command=["sh", "-c", "trap '' TERM; sleep 1000 & wait; wait"])["uuid"]
    member.delete(uuid, stop="true")
    shown = member.show(uuid)
    assert shown
    assert (shown["status"], shown["task_state"]) == ("Deleting", "container_deleting")
    member.wait_gone(uuid)


def test_s3_5_s3_7_s3_11_s3_12_everything_is_given_back(member: Cloud) -> None:
    uuid = member.running()["uuid"]
    assert member.allocation(uuid)
    assert member.ports(uuid)
    member.delete(uuid, stop="true")
    member.wait_gone(uuid)
    assert member.holds_nothing(uuid)
    answer = member.http.get(f"/v1/containers/{uuid}")
    assert answer.json()["errors"][0]["code"] == "container.container-not-found"
    assert member.http.get(f"/v1/containers/{uuid}/container_actions").status_code == 404


def test_s3_8_s3_9_volumes_made_for_it_go_and_leave_no_mount(member: Cloud) -> None:
    uuid = member.running(mounts=[{"size": "1", "destination": "/d"}])["uuid"]
    assert member.product.mounts()
    member.delete(uuid, stop="true")
    member.wait_gone(uuid)
    assert member.product.mounts() == []
    assert member.product.query("SELECT uuid FROM local_volumes") == []


def test_s3_13_what_a_refused_delete_has_left_in_part_is_not_healed(cloud: Cloud) -> None:
    uuid = cloud.running(mounts=[{"size": "1", "destination": "/d"}], auto_heal=True)["uuid"]
    [mount] = cloud.product.mounts()
    with (Path(mount) / "held").open("wb"):
        cloud.delete(uuid, stop="true")
        shown = cloud.wait(uuid, "Error")
        assert "busy" in shown["status_reason"]
        cloud.running()
        rounds = cloud.product.log().count("action=sync ")
        wait_until(lambda: cloud.product.log().count("action=sync ") > rounds + 1, 60, "the node has looked twice")
        assert cloud.wait(uuid, "Error")["status_reason"] == shown["status_reason"]
    assert [action["action"] for action in cloud.actions(uuid)] == ["delete", "stop", "create"]
    cloud.delete(uuid)
    cloud.wait_gone(uuid)
    assert cloud.product.mounts() == []


def test_s3_10_the_hosts_usage_falls(cloud: Cloud) -> None:
    def used() -> float:
        return float(cloud.get("/hosts")["hosts"][0]["cpu_used"])

    wait_until(lambda: used() == 0, 30, "what earlier tests used is free again")
    before = used()
    uuid = cloud.running(cpu=1.5)["uuid"]
    wait_until(lambda: used() >= before + 1.5, 30, "the host shows what is used")
    cloud.delete(uuid, force="true")
    cloud.wait_gone(uuid)
    wait_until(lambda: used() == before, 30, "the host shows what is free again")


def test_s3_13_an_engines_refusal_without_force_is_error_and_the_row_stays(cloud: Cloud) -> None:
    uuid = cloud.running()["uuid"]
    cloud.act(uuid, "stop", timeout="0")
    cloud.wait(uuid, "Stopped")
    cloud.product.engine.post(f"/containers/zun-{uuid}/start")
    answer = cloud.http.delete(f"/v1/containers/{uuid}")
    if answer.status_code == 409:  # the watcher was faster: the start is seen already
        assert cloud.wait(uuid, "Running")
        return
    shown = cloud.wait(uuid, "Error")
    assert shown["status_reason"].startswith("Docker internal error: ")
    cloud.delete(uuid, force="true")
    cloud.wait_gone(uuid)


def test_force_needs_the_rule_also_together_with_stop(member: Cloud) -> None:
    uuid = member.running()["uuid"]
    for query in ({"force": "true"}, {"force": "true", "stop": "true"}):
        error = member.delete(uuid, 403, **query).json()["errors"][0]
        assert error["code"] == "container.policy-not-authorized"
    assert member.show(uuid)


def test_force_removes_a_running_container(cloud: Cloud) -> None:
    uuid = cloud.running()["uuid"]
    cloud.delete(uuid, force="true")
    cloud.wait_gone(uuid)
    wait_until(lambda: cloud.holds_nothing(uuid), 30, "what a forced delete left is given back")


def test_parallel_deletes_never_fail(member: Cloud) -> None:
    uuids = [member.create(run=False)["uuid"] for _ in range(4)]
    for uuid in uuids:
        member.wait(uuid, "Created")
    with ThreadPoolExecutor(12) as pool:
        codes = list(pool.map(lambda uuid: member.http.delete(f"/v1/containers/{uuid}").status_code, uuids * 3))
    assert set(codes) <= {204, 404}
    for uuid in uuids:
        member.wait_gone(uuid)
        assert member.holds_nothing(uuid)


def test_a_delete_during_the_create_ends_both(cloud: Cloud) -> None:
    for _ in range(5):
        uuid = cloud.create()["uuid"]
        cloud.delete(uuid, force="true")
        cloud.wait_gone(uuid)
        wait_until(lambda uuid=uuid: cloud.holds_nothing(uuid), 60, "nothing is held")


def test_another_projects_container_is_404(cloud: Cloud, member: Cloud) -> None:
    uuid = member.create(run=False)["uuid"]
    member.wait(uuid, "Created")
    other = Cloud(cloud.product, "busybox", cloud.product.token("others"))
    for method, path in (("GET", ""), ("DELETE", ""), ("PATCH", ""), ("POST", "/start"), ("GET", "/logs")):
        assert other.http.request(method, f"/v1/containers/{uuid}{path}", json={}).status_code == 404
    assert other.get("/containers")["containers"] == []


def test_containers_of_others_in_the_engine_are_never_touched(cloud: Cloud, busybox: str) -> None:
    foreign = str(uuid4())
    engine = cloud.product.engine
    made = engine.post("/containers/create", {"Image": busybox, "Cmd": ["sleep", "1000"]}, name=f"zun-{foreign}").json()
    try:
        engine.post(f"/containers/{made['Id']}/start")
        before = len(cloud.product.log())
        wait_until(lambda: cloud.product.log()[before:].count("action=sync") >= 3, 120, "three syncs went by")
        found = engine.container(foreign)
        assert found
        assert found["State"]["Running"]
    finally:
        engine.remove(made["Id"])


@pytest.mark.parametrize("policy", ["no", "always"])
def test_stop_is_kept_whatever_the_restart_policy(member: Cloud, policy: str) -> None:
    uuid = member.running(restart_policy={"Name": policy})["uuid"]
    member.act(uuid, "stop", timeout="1")
    assert member.wait(uuid, "Stopped")
    member.delete(uuid)
    member.wait_gone(uuid)
