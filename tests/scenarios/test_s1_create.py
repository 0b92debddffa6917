"""Scenario 1: create and run a container, on the embedded parts. Test names carry the statements they check."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.cloud import Cloud
from tests.support.registry import Registry, start_registry

NO_HOST = "There are not enough hosts available."


def test_s1_3_s1_15_s1_23_a_run_is_accepted_with_its_location_and_ends_running(member: Cloud) -> None:
    answer = member.ask()
    assert answer.status_code == 202
    created = answer.json()
    assert created["status"] == "Creating"
    assert answer.headers["location"] == f"{member.product.url}/v1/containers/{created['uuid']}"
    shown = member.wait(created["uuid"], "Running")
    assert shown["status_reason"] is None
    engine = member.engine(created["uuid"])
    assert engine
    assert engine["State"]["Running"]


def test_s1_1_s1_2_s1_12_the_allocation_is_there_when_the_202_arrives(member: Cloud) -> None:
    created = member.create(cpu=0.5, memory=64)
    assert member.allocation(created["uuid"]) == {"CUSTOM_ZUN_MILLICPU": 500, "MEMORY_MB": 64}
    rows = member.product.query("SELECT project_id FROM local_allocations WHERE consumer = ?", created["uuid"])
    assert {row["project_id"] for row in rows} == {created["project_id"]}


def test_s1_5_s1_6_over_the_limit_is_403_and_leaves_nothing(cloud: Cloud, member: Cloud) -> None:
    project = member.create()["project_id"]
    assert cloud.http.put(f"/v1/quotas/{project}", json={"containers": 1}).status_code == 200
    try:
        answer = member.ask()
        assert answer.status_code == 403
        assert answer.json()["errors"][0]["code"] == "container.over-quota"
        assert answer.json()["errors"][0]["title"] == "Quota exceeded for resources: ['containers']"
        assert len(member.get("/containers")["containers"]) == 1
    finally:
        assert cloud.http.delete(f"/v1/quotas/{project}").status_code == 200


def test_s1_5_omitted_amounts_count_as_what_is_stored(cloud: Cloud, member: Cloud) -> None:
    body = {"image": "busybox", "command": ["sleep", "1000"]}
    created = member.http.post("/v1/containers", json=body).json()
    usage = cloud.get(f"/quotas/{created['project_id']}?usages=true")
    assert (usage["cpu"]["in_use"], usage["memory"]["in_use"]) == (1.0, 512)


def test_s1_5_parallel_creates_never_pass_the_quota(cloud: Cloud, member: Cloud) -> None:
    first = member.create(run=False)
    cloud.http.put(f"/v1/quotas/{first['project_id']}", json={"containers": 5})
    try:
        with ThreadPoolExecutor(12) as pool:
            codes = list(pool.map(lambda _: member.ask(run=False).status_code, range(12)))
        assert sorted(set(codes)) == [202, 403]
        assert codes.count(202) == 4
        assert len(member.get("/containers")["containers"]) == 5
    finally:
        cloud.http.delete(f"/v1/quotas/{first['project_id']}")


def test_s1_7_a_refused_request_leaves_no_row(member: Cloud) -> None:
    for body, status in (
        ({"mounts": [{"source": "no-such-volume", "destination": "/d"}]}, 404),
        ({"nets": [{"network": "no-such-network"}]}, 404),
        ({"image": "UPPER/bad:::"}, 400),
        ({"workdir": "relative"}, 400),
        ({"registry": "no-such-registry"}, 404),
        ({"security_groups": ["no-such-group"]}, 400),
    ):
        answer = member.ask(**body)
        assert answer.status_code == status, answer.text
        assert answer.json()["errors"][0]["title"]
    assert member.get("/containers")["containers"] == []


def test_s1_10_s1_11_s1_13_no_room_is_202_with_error_and_a_recorded_action(member: Cloud) -> None:
    answer = member.ask(availability_zone="elsewhere")
    assert answer.status_code == 202
    created = answer.json()
    assert (created["status"], created["status_reason"]) == ("Error", NO_HOST)
    (action,) = member.actions(created["uuid"])
    assert (action["action"], action["message"]) == ("create", "Error")
    assert action["request_id"] == answer.headers["x-openstack-request-id"]
    assert member.holds_nothing(created["uuid"])
    member.delete(created["uuid"])
    member.wait_gone(created["uuid"])


def test_s1_8_a_volume_made_for_a_request_without_host_is_removed(member: Cloud) -> None:
    created = member.create(availability_zone="elsewhere", mounts=[{"size": "1", "destination": "/d"}])
    assert created["status"] == "Error"
    assert member.product.query("SELECT uuid FROM local_volumes") == []


def test_s1_13_the_action_has_the_answers_request_id_and_its_steps(member: Cloud, cloud: Cloud) -> None:
    answer = member.ask()
    uuid = answer.json()["uuid"]
    member.wait(uuid, "Running")
    action = member.action(uuid, answer.headers["x-openstack-request-id"])
    assert (action["action"], action["message"]) == ("create", None)
    assert action["finish_time"]
    steps = {event["event"]: event["result"] for event in action["events"]}
    assert steps == dict.fromkeys(("allocation", "volumes", "ports", "image", "engine", "start"), "Success")
    assert all(event["traceback"] is None for event in action["events"])


def test_s1_16_s1_18_a_sized_volume_is_a_file_system_of_that_size_and_keeps_its_data(member: Cloud) -> None:
    uuid = member.running(mounts=[{"size": "1", "destination": "/data"}])["uuid"]
    write = member.act(uuid, "execute", 200, command="sh -c 'echo kept > /data/x; df -m /data | tail -1'").json()
    assert write["exit_code"] == 0
    size = int(re.split(r"\s+", write["output"].strip())[1])
    assert 900 < size <= 1024
    member.act(uuid, "rebuild")
    member.wait(uuid, "Running")
    assert member.act(uuid, "execute", 200, command="cat /data/x").json()["output"] == "kept\n"


def test_s1_18_a_file_given_as_bind_mount_is_readable(member: Cloud) -> None:
    mounts = [{"type": "bind", "source": "aGVsbG8gd29ybGQK", "destination": "/etc/greeting"}]
    uuid = member.running(mounts=mounts)["uuid"]
    assert member.act(uuid, "execute", 200, command="cat /etc/greeting").json()["output"] == "hello world\n"


def test_s1_19_the_target_host_is_recorded_at_once_and_shown_to_admins_only(cloud: Cloud, member: Cloud) -> None:
    created = member.create()
    assert "host" not in created
    shown = cloud.show(created["uuid"])
    assert shown
    assert shown["host"]


def test_s1_20_a_pull_leaves_its_progress_on_the_actions_step(member: Cloud, registry: Registry) -> None:
    registry.push_busybox("fresh", "latest", marker=os.urandom(4_000_000))
    answer = member.ask(image="fresh")
    uuid = answer.json()["uuid"]
    member.wait(uuid, "Running")
    events = member.action(uuid, answer.headers["x-openstack-request-id"])["events"]
    (image,) = [event for event in events if event["event"] == "image"]
    assert image["progress"]["done"] == image["progress"]["total"] > 4_000_000


def test_s1_20_many_containers_of_one_image_need_one_pull(member: Cloud) -> None:
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda _: member.create(), range(8)))
    for container in created:
        member.wait(container["uuid"], "Running")


def test_s1_21_s1_22_the_address_recorded_is_the_engines(member: Cloud) -> None:
    shown = member.running()
    ((network, items),) = shown["addresses"].items()
    engine = member.engine(shown["uuid"])
    assert engine
    (attached,) = engine["NetworkSettings"]["Networks"].values()
    assert items[0]["addr"] == attached["IPAddress"]
    assert set(items[0]) == {"addr", "version", "port", "subnet_id", "preserve_on_delete"}
    assert member.get(f"/containers/{shown['uuid']}/network_list")["networks"][0]["net_id"] == network


def test_s1_21_a_fixed_address_is_given_and_projects_have_networks_of_their_own(cloud: Cloud, member: Cloud) -> None:
    first = member.running()
    (network,) = first["addresses"]
    taken = first["addresses"][network][0]["addr"]
    wanted = taken.rsplit(".", 1)[0] + ".77"
    second = member.running(nets=[{"network": network, "v4-fixed-ip": wanted}])
    assert second["addresses"][network][0]["addr"] == wanted
    assert member.ask(nets=[{"network": network, "v4-fixed-ip": wanted}]).status_code == 400
    other = Cloud(cloud.product, "busybox", cloud.product.token("others"))
    assert other.ask(nets=[{"network": network}]).status_code == 404
    assert set(other.running()["addresses"]) != {network}


def test_s1_24_show_is_fresh(member: Cloud) -> None:
    uuid = member.create(command=["sh", "-c", "sleep 1; exit 3"])["uuid"]
    shown = member.wait(uuid, "Stopped")
    assert re.fullmatch(r"Exited\(3\) .* ago |None", str(shown["status_detail"]))


def test_s1_25_no_candidates_are_logged_and_a_disabled_node_is_not_chosen(cloud: Cloud) -> None:
    (service,) = cloud.get("/services")["services"]
    query = {"host": service["host"], "binary": "zun-compute"}
    assert cloud.http.put("/v1/services/disable", params=query).status_code == 200
    try:
        assert cloud.create()["status_reason"] == NO_HOST
    finally:
        assert cloud.http.put("/v1/services/enable", params=query).status_code == 200
    assert cloud.create(memory=8192, cpu=16)["status"] in ("Creating", "Error")


def test_s1_28_an_image_that_does_not_exist_is_error_with_its_name_and_holds_nothing(member: Cloud) -> None:
    uuid = member.create(image="no/such:image")["uuid"]
    shown = member.wait(uuid, "Error")
    assert "no/such:image" in shown["status_reason"]
    assert member.holds_nothing(uuid)
    member.delete(uuid)
    member.wait_gone(uuid)


def test_s1_28_an_unreachable_registry_is_told_and_a_later_start_works(member: Cloud, cloud: Cloud) -> None:
    uuid = member.create(image="127.0.0.1:1/busybox")["uuid"]
    shown = member.wait(uuid, "Error", timeout=90)
    assert "127.0.0.1:1/busybox" in shown["status_reason"]
    assert member.holds_nothing(uuid)


def test_s1_29_a_create_the_engine_refuses_is_error_and_holds_nothing(member: Cloud) -> None:
    uuid = member.create(command=["no-such-program"])["uuid"]
    shown = member.wait(uuid, "Error")
    assert shown["status_reason"].startswith("Docker internal error: ")
    assert "no-such-program" in shown["status_reason"]
    assert member.holds_nothing(uuid)


def test_a_disk_limit_that_the_storage_driver_cannot_keep_is_refused_clearly(member: Cloud) -> None:
    supported = member.product.query("SELECT disk_quota_supported FROM compute_nodes")[0][0]
    uuid = member.create(disk=1)["uuid"]
    shown = member.wait(uuid, "Running", "Error")
    if supported:
        assert shown["status"] == "Running"
    else:
        assert shown["status_reason"] == "Your host does not support disk quota feature."
        assert member.holds_nothing(uuid)


def test_limits_are_real(member: Cloud) -> None:
    uuid = member.running(cpu=0.5, memory=64)["uuid"]
    engine = member.engine(uuid)
    assert engine
    limits = engine["HostConfig"]
    quota = limits["NanoCpus"] / 1e9 if limits["NanoCpus"] else limits["CpuQuota"] / limits["CpuPeriod"]
    assert quota == pytest.approx(0.5)
    assert limits["Memory"] == limits["MemorySwap"] == 64 * 1024 * 1024
    assert limits["PidsLimit"] > 0


def test_restart_policy_and_health_check_reach_the_engine(member: Cloud) -> None:
    uuid = member.running(
        restart_policy={"Name": "on-failure", "MaximumRetryCount": "2"},
        healthcheck={"cmd": "true", "interval": 5, "retries": 2, "timeout": 3},
    )["uuid"]
    engine = member.engine(uuid)
    assert engine
    assert engine["HostConfig"]["RestartPolicy"] == {"Name": "on-failure", "MaximumRetryCount": 2}
    assert engine["Config"]["Healthcheck"]["Test"] == ["CMD-SHELL", "true"]
    assert engine["Config"]["Healthcheck"]["Interval"] == 5 * 10**9


def test_private_registries_work_with_stored_credentials(
    member: Cloud, tmp_path_factory: pytest.TempPathFactory
) -> None:
    private: Registry = start_registry(tmp_path_factory.mktemp("private"), users={"ann": "s3cret-password"})
    try:
        private.push_busybox("secret", "latest")
        mine = {"name": "mine", "domain": private.address, "username": "ann", "password": "s3cret-password"}
        made = member.http.post("/v1/registries", json={"registry": mine})
        assert made.status_code == 201
        assert made.json()["registry"]["password"] == "***"
        refused = member.create(image=f"{private.address}/secret")
        assert member.wait(refused["uuid"], "Error")["status_reason"]
        uuid = member.running(image="secret", registry="mine")["uuid"]
        shown = member.show(uuid)
        assert shown
        assert shown["registry_id"] == made.json()["registry"]["uuid"]
        assert member.http.delete("/v1/registries/mine").status_code == 409
        for text in (member.product.log(), *(str(tuple(r)) for r in member.product.query("SELECT * FROM registries"))):
            assert "s3cret-password" not in text
        member.delete(uuid, stop="true")
        member.wait_gone(uuid)
        member.delete(refused["uuid"])
        member.wait_gone(refused["uuid"])
        assert member.http.delete("/v1/registries/mine").status_code == 204
    finally:
        private.stop()
