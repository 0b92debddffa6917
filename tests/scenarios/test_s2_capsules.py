"""Scenario 2 on a real containerd with our CNI pair and the local bridge, and on Docker: capsules as users have."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.capsule_cloud import SERVES, SLEEPS, CapsuleCloud, DockerCapsuleCloud
from tests.support.stock_client import StockClient
from tests.support.wait import wait_until

pytestmark = [pytest.mark.xdist_group("capsules"), pytest.mark.timeout(600)]


@pytest.fixture
def cloud(capsules: CapsuleCloud) -> CapsuleCloud:
    return capsules


def waits_after(member: dict[str, Any], code: int) -> bool:
    """It ended a second time, with this exit code: it is Stopped for ten seconds, and told so after one."""
    told = f"Exited({code})" in (member["status_detail"] or "")
    return told and "Start 2 by its restart policy at" in (member["status_reason"] or "")


def address_of(shown: dict[str, Any]) -> str:
    ((address, *_),) = shown["addresses"].values()
    return str(address["addr"])


def test_s2_1_to_s2_15_two_capsules_on_one_network_reach_each_other_by_tcp(cloud: CapsuleCloud) -> None:
    server = cloud.create({"script": SERVES.format(port=8080, text="hello")}, {}, name="server")
    client = cloud.create({}, name="client")
    served, asking = cloud.wait(server, "Running"), cloud.wait(client, "Running")
    assert [one["status"] for one in served["containers"]] == ["Running", "Running"]
    assert address_of(served) != address_of(asking)
    member = asking["containers"][0]["uuid"]
    inside = cloud.execute(member, "ip -4 addr show eth0")
    assert address_of(asking) in inside
    cloud.says(member, f"sh -c 'nc -w 3 {address_of(served)} 8080 </dev/null'", "hello")
    cloud.delete(server)
    cloud.delete(client)
    assert cloud.leftovers() == []


def test_s2_2_all_rows_are_written_at_once_and_shown_in_the_capsule(cloud: CapsuleCloud) -> None:
    uuid = cloud.create({}, {}, initContainers=[{"script": "exit 0"}])
    shown = cloud.show(uuid)
    everyone = [*shown["init_containers"], *shown["containers"]]
    assert len(everyone) == 3
    assert shown["name"] == "web"
    assert all(one["name"].startswith("capsule-web-") for one in everyone)
    cloud.wait(uuid, "Running")


def test_s2_13_init_containers_run_in_order_and_share_volumes_with_the_rest(cloud: CapsuleCloud) -> None:
    mount = [{"name": "data", "mountPath": "/data"}]
    read = [{"name": "data", "mountPath": "/data", "readOnly": True}]
    uuid = cloud.create(
        {"volumeMounts": read},
        {"volumeMounts": mount},
        initContainers=[
            {"script": "echo one >> /data/log", "volumeMounts": mount},
            {"script": "echo two >> /data/log", "volumeMounts": mount},
        ],
        volumes=[{"name": "data", "cinder": {"size": 1, "autoRemove": True}}],
    )
    shown = cloud.wait(uuid, "Running")
    assert [one["status"] for one in shown["init_containers"]] == ["Stopped", "Stopped"]
    reader, writer = (one["uuid"] for one in shown["containers"])
    assert cloud.execute(reader, "cat /data/log") == "one\ntwo\n"
    cloud.execute(writer, "sh -c 'echo three >> /data/log'")
    assert cloud.execute(reader, "cat /data/log") == "one\ntwo\nthree\n"
    refused = cloud.http.post(f"/v1/containers/{reader}/execute", params={"command": "touch /data/x", "run": "true"})
    assert refused.json()["exit_code"] != 0
    assert "Read-only" in refused.json()["output"]
    cloud.delete(uuid)
    assert cloud.product.query("SELECT * FROM local_volumes") == []


def test_what_a_refused_delete_has_left_in_part_is_not_healed(cloud: CapsuleCloud) -> None:
    mount = [{"name": "data", "mountPath": "/data"}]
    volumes = [{"name": "data", "cinder": {"size": 1, "autoRemove": True}}]
    uuid = cloud.create({"volumeMounts": mount}, volumes=volumes, restartPolicy="Always")
    cloud.wait(uuid, "Running")
    [where] = [one for one in cloud.product.mounts() if "/mnt/" in one]
    with (Path(where) / "held").open("wb"):
        assert cloud.http.delete(f"/v1/capsules/{uuid}").status_code == 204
        refused = cloud.wait(uuid, "Error")
        assert "busy" in refused["status_reason"]
        seen = cloud.product.log().count("action=compare-capsules")
        wait_until(lambda: cloud.product.log().count("action=compare-capsules") > seen + 1, 60, "it is looked at twice")
        assert cloud.wait(uuid, "Error")["status_reason"] == refused["status_reason"]
    cloud.delete(uuid)
    assert cloud.leftovers() == []


def test_s2_13_an_init_container_that_fails_ends_the_capsule_naming_it_and_its_code(cloud: CapsuleCloud) -> None:
    uuid = cloud.create({}, restartPolicy="Never", initContainers=[{"script": "echo no luck; exit 7"}])
    shown = cloud.until(uuid, lambda one: one["status"] == "Error", 60, "fails")
    init = shown["init_containers"][0]
    assert shown["status_reason"] == f"Init container {init['name']} ended with exit code 7: no luck"
    assert init["status"] == "Error"
    cloud.until(uuid, lambda one: "Exited(7)" in (one["init_containers"][0]["status_detail"] or ""), 60, "its code")
    left = [one for one in cloud.leftovers() if "quota" not in one]
    assert left == []


def test_s2_13_an_init_container_that_fails_twice_and_then_succeeds(cloud: CapsuleCloud) -> None:
    mount = [{"name": "data", "mountPath": "/data"}]
    script = "echo x >> /data/tries; [ $(wc -l < /data/tries) -ge 3 ]"
    uuid = cloud.create(
        {},
        initContainers=[{"script": script, "volumeMounts": mount}],
        volumes=[{"name": "data", "cinder": {"size": 1, "autoRemove": True}}],
    )
    waiting = cloud.until(
        uuid,
        lambda one: waits_after(one["init_containers"][0], 1),
        60,
        "waits, and tells its code",
    )
    assert waiting["status"] == "Creating"
    shown = cloud.wait(uuid, "Running")
    assert shown["init_containers"][0]["status"] == "Stopped"
    assert shown["init_containers"][0]["status_reason"] is None


def test_s3_an_init_container_that_never_ends_is_deleted_within_three_seconds(cloud: CapsuleCloud) -> None:
    uuid = cloud.create({}, initContainers=[{"script": "sleep 3600"}])
    cloud.until(uuid, lambda one: one["init_containers"][0]["status"] == "Running", 60, "its init container runs")
    cloud.delete(uuid, timeout=3)


def test_s5_a_members_death_is_seen_within_seconds_and_it_runs_again(cloud: CapsuleCloud) -> None:
    uuid = cloud.create({}, {})
    shown = cloud.wait(uuid, "Running")
    member = shown["containers"][0]
    pid = cloud.pid_of(member["uuid"])
    os.kill(pid, signal.SIGKILL)
    cloud.until(uuid, lambda one: cloud.pid_of(member["uuid"]) not in (0, pid), 30, "runs again at once")
    again = cloud.pid_of(member["uuid"])
    os.kill(again, signal.SIGKILL)
    shown = cloud.until(
        uuid,
        lambda one: "Start 2 by its restart policy at" in (one["containers"][0]["status_reason"] or ""),
        2,
        "its second end is shown",
    )
    assert shown["containers"][0]["status"] == "Stopped"
    cloud.until(uuid, lambda one: waits_after(one["containers"][0], 137), 12, "its code is told")
    assert [shown["status"], shown["containers"][1]["status"]] == ["Running", "Running"]
    shown = cloud.until(uuid, lambda one: one["containers"][0]["status"] == "Running", 60, "runs a third time")
    assert shown["containers"][0]["status_reason"] is None


def test_s5_policy_never_and_on_failure(cloud: CapsuleCloud) -> None:
    ends = "trap 'exit 0' TERM; sleep 0.2; exit {code}"
    never = cloud.create({"script": ends.format(code=4)}, restartPolicy="Never", name="never")
    well = cloud.create({"script": ends.format(code=0)}, restartPolicy="OnFailure", name="well")
    shown = cloud.until(never, lambda one: one["status"] == "Error", 60, "it ended with a fault")
    assert shown["status_reason"].endswith("ended: exit code 4")
    assert shown["containers"][0]["status"] == "Stopped"
    shown = cloud.wait(well, "Stopped")
    assert shown["status_reason"] == "All containers of the capsule have ended."


def test_s5_a_sandbox_that_somebody_removed(cloud: CapsuleCloud) -> None:
    healed = cloud.create({}, name="healed")
    stays = cloud.create({}, restartPolicy="OnFailure", name="stays")
    before = cloud.wait(healed, "Running")
    cloud.wait(stays, "Running")
    for uuid in (healed, stays):
        cloud.kill_sandbox(uuid)
    shown = cloud.until(stays, lambda one: one["status"] == "Error", 60, "is told")
    assert "The sandbox of the capsule is gone" in shown["status_reason"]
    cloud.until(healed, lambda one: cloud.has_ready_sandbox(healed), 60, "has a sandbox again")
    shown = cloud.wait(healed, "Running")
    assert shown["addresses"] == before["addresses"]
    cloud.says(shown["containers"][0]["uuid"], "echo well", "well")  # its members follow the sandbox


def test_members_answer_under_containers(cloud: CapsuleCloud) -> None:
    uuid = cloud.create({"script": f"echo hello; {SLEEPS}"})
    member = cloud.wait(uuid, "Running")["containers"][0]["uuid"]
    path = f"/v1/containers/{member}"
    assert cloud.http.get(path).json()["status"] == "Running"
    assert "hello" in cloud.logs(member, "hello")
    assert cloud.http.get(f"{path}/stats").json()["MEM USAGE(MiB)"] >= 0
    (action,) = cloud.http.get(f"{path}/container_actions").json()["containerActions"]
    assert (action["action"], action["container_uuid"]) == ("create", uuid)
    steps = cloud.http.get(f"{path}/container_actions/{action['request_id']}").json()["events"]
    assert {"image", "ports", "sandbox", "start"} <= {step["event"] for step in steps}
    for verb in ("stop", "pause", "reboot", "kill"):
        assert cloud.http.post(f"{path}/{verb}").status_code == 409
    assert cloud.http.get(f"{path}/top").status_code == 409
    assert cloud.http.delete(path).status_code == 409
    assert cloud.http.get(f"/v1/containers/{uuid}").status_code == 404


def test_a_capsule_of_ten_members_shares_its_addresses(cloud: CapsuleCloud) -> None:
    serving = {"script": SERVES.format(port=8081, text="inside")}
    uuid = cloud.create(serving, *[{} for _ in range(9)])
    shown = cloud.wait(uuid, "Running")
    assert [one["status"] for one in shown["containers"]] == ["Running"] * 10
    last = shown["containers"][9]["uuid"]
    cloud.says(last, "sh -c 'nc -w 3 127.0.0.1 8081 </dev/null'", "inside")


def test_many_capsules_at_once(cloud: CapsuleCloud) -> None:
    many = 5 if isinstance(cloud, DockerCapsuleCloud) else 20
    made = [cloud.create({}, name=f"many-{number}") for number in range(many)]
    shown = [cloud.wait(uuid, "Running", timeout=180) for uuid in made]
    assert len({address_of(one) for one in shown}) == many


def test_an_agent_killed_while_an_init_container_runs_goes_on_where_it_was(cloud: CapsuleCloud) -> None:
    uuid = cloud.create({}, initContainers=[{"script": "while [ ! -e /tmp/go ]; do sleep 0.1; done"}])
    shown = cloud.until(uuid, lambda one: one["init_containers"][0]["status"] == "Running", 60, "it runs")
    cloud.product.kill()
    cloud.product.start()
    init = shown["init_containers"][0]["uuid"]
    cloud.execute(init, "touch /tmp/go")
    shown = cloud.wait(uuid, "Running")
    assert shown["init_containers"][0]["status"] == "Stopped"


def test_an_image_that_does_not_exist_is_told_and_nothing_held(cloud: CapsuleCloud) -> None:
    uuid = cloud.create({"image": f"localhost:1/{uuid4().hex}", "imagePullPolicy": "never"})
    shown = cloud.until(uuid, lambda one: one["status"] == "Error", 60, "fails")
    assert "not present with pull policy of Never" in shown["status_reason"]
    assert [one for one in cloud.leftovers() if "quota" not in one] == []


def test_a_command_that_does_not_exist_is_told_with_the_members_name(cloud: CapsuleCloud) -> None:
    uuid = cloud.create({"command": ["/no/such/program"]})
    shown = cloud.until(uuid, lambda one: one["status"] == "Error", 60, "fails")
    assert shown["containers"][0]["name"] in shown["status_reason"]
    assert [one for one in cloud.leftovers() if "quota" not in one] == []


def test_the_stock_client(cloud: CapsuleCloud, tmp_path: Path) -> None:
    user = StockClient(cloud.product.url, cloud.product.admin_token)
    file = tmp_path / "capsule.yaml"
    entry = {key: value for key, value in cloud.entry().items() if key != "command"}
    lines = "".join(f"    {key}: {value}\n" for key, value in entry.items())
    file.write_text(
        "capsuleVersion: beta\nkind: capsule\nmetadata:\n  name: stock\n  labels:\n    app: web\n"
        f"restartPolicy: Always\nspec:\n  containers:\n  -\n{lines}"
        "    command: [sleep]\n    args: ['3600']\n    ports:\n    - containerPort: 80\n      protocol: TCP\n"
        "    resources:\n      requests:\n        cpu: 0.5\n        memory: 64\n"
    )
    user.text("capsule", "create", "--file", str(file))
    (row,) = user.json("capsule", "list")
    assert row["name"] == "stock"
    shown = cloud.wait(row["uuid"], "Running")
    told = user.json("capsule", "show", "stock")
    assert (told["uuid"], told["status"], told["cpu"], told["memory"]) == (row["uuid"], "Running", 0.5, "64")
    assert address_of(shown) in str(told["addresses"])
    user.text("capsule", "delete", "stock")
    cloud.until(row["uuid"], lambda one: not one, 60, "is gone")


def test_everything_a_template_can_say(cloud: CapsuleCloud) -> None:
    entry = {
        "command": ["sh"],
        "args": ["-c", f"echo $COLOUR; pwd; {SLEEPS}"],
        "env": {"COLOUR": "red and blue"},
        "workDir": "/var",
        "ports": [{"name": "web", "containerPort": 80, "hostPort": 80, "protocol": "TCP"}, {"containerPort": 53}],
        "resources": {"requests": {"cpu": 0.5, "memory": 64}},
        "stdin": True,
    }
    uuid = cloud.create(entry, restartPolicy="OnFailure", name="every.thing_1")
    shown = cloud.wait(uuid, "Running")
    member = shown["containers"][0]
    assert (shown["cpu"], shown["memory"], member["ports"]) == (0.5, "64", [53, 80])
    assert (member["interactive"], member["tty"], member["workdir"]) == (True, False, "/var")
    assert cloud.logs(member["uuid"], "/var\n") == "red and blue\n/var\n"
    assert cloud.http.get(f"/v1/containers/{member['uuid']}/stats").json()["MEM LIMIT(MiB)"] == 64
    assert cloud.execute(member["uuid"], "hostname").strip() == "every-thing-1"


def test_s2_8_and_s2_18_the_runtime_handler_is_passed_to_containerd_unchanged(cloud: CapsuleCloud) -> None:
    unknown = cloud.show(cloud.create({}, runtime="kata", name="kata"))
    assert (unknown["status"], unknown["status_reason"]) == ("Error", "There are not enough hosts available.")
    cloud.wait(cloud.create({}, runtime="runc", name="default"), "Running")
    if isinstance(cloud, DockerCapsuleCloud):
        return  # handlers are containerd's
    member = cloud.wait(cloud.create({}, runtime="runsc", name="gvisor"), "Running")["containers"][0]["uuid"]
    assert "gVisor" in cloud.execute(member, "dmesg")
