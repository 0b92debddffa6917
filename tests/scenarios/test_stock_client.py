"""What a user types: the unmodified `openstack` command of python-zunclient 5.5, on a real image from a real registry.

Each process takes a second or two: commands that belong together share a test, independent ones run side by side.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from tests.support.cloud import SLEEP, Cloud
from tests.support.stock_client import StockClient, refused, together
from tests.support.wait import wait_until

TALK = "echo out; echo err >&2; trap 'exit 0' TERM; sleep 1000 & wait"
"""Says something on both streams, runs on, and ends at once when told to."""
COLUMNS = ["uuid", "name", "image", "status", "task_state", "addresses", "ports"]


# -- the life of a container ------------------------------------------------------------------------------------


def test_run_wait_shows_a_running_container_with_everything_that_was_asked(team: Cloud, user: StockClient) -> None:
    shown = user.container(
        "run", "-f", "json", "--name", "web", "--cpu", "0.5", "--memory", "64", "--environment", "COLOUR=red",
        "--environment", "SIZE=a=b", "--label", "tier=front", "--workdir", "/tmp", "--hostname", "webhost",
        "--restart", "on-failure:2", "--net", "network=default", "--mount", "size=1,destination=/data", "--hint", "a=b",
        "--healthcheck", "cmd=true,interval=1s,retries=2,timeout=1m", "--auto-heal", "--entrypoint", "sh -c",
        "--wait", "busybox", TALK,
    )  # fmt: skip
    assert (shown["status"], shown["task_state"], shown["status_reason"]) == ("Running", None, None)
    assert (shown["cpu"], shown["memory"], shown["disk"]) == (0.5, "64", 0)
    assert shown["environment"] == {"COLOUR": "red", "SIZE": "a=b"}
    assert (shown["labels"], shown["workdir"], shown["hostname"]) == ({"tier": "front"}, "/tmp", "webhost")
    assert shown["restart_policy"] == {"Name": "on-failure", "MaximumRetryCount": "2"}
    assert shown["healthcheck"] == {"test": "true", "interval": 1, "retries": 2, "timeout": 60}
    assert (shown["entrypoint"], shown["command"], shown["auto_heal"]) == (["sh", "-c"], [TALK], True)
    assert not {"host", "runtime", "privileged", "image_pull_policy"} & set(shown)
    ran = user.raw(
        "appcontainer", "exec", "web", "sh", "-c", "echo $COLOUR $SIZE; hostname; pwd; df -m /data | tail -1"
    )
    colour, hostname, where, volume = ran.stdout.splitlines()[:4]
    assert (colour, hostname, where) == ("red a=b", "webhost", "/tmp")
    assert 900 < int(volume.split()[1]) <= 1024


def test_looking_at_a_container(team: Cloud, user: StockClient) -> None:
    uuid = team.running(name="look", command=["sh", "-c", TALK], cpu=0.5, memory=64)["uuid"]
    both_lines = {"err", "out"}
    wait_until(lambda: both_lines <= set(team.get(f"/containers/{uuid}/logs").split()), 60, "both lines are in the log")
    wait_until(lambda: team.get(f"/containers/{uuid}")["status_detail"], 30, "its age is over a second")
    # The engine counts the lines of both streams for --tail, whichever it then shows, and their order is not fixed.
    show, both, errors, tail, stats, three, quoted, missing, listed, actions = together(
        lambda: user.container("show", "look"),
        lambda: user.text("appcontainer", "logs", "look"),
        lambda: user.text("appcontainer", "logs", "--stderr", uuid),
        lambda: user.text("appcontainer", "logs", "--stdout", "--timestamps", "--tail", "2", "--since", "0", "look"),
        lambda: user.container("stats", "look"),
        lambda: user.raw("appcontainer", "exec", "look", "sh", "-c", "echo gone; exit 3"),
        lambda: user.raw("appcontainer", "exec", "look", "echo", "a  b", "$HOME", "ü"),
        lambda: user.raw("appcontainer", "exec", "look", "no-such-program"),
        lambda: user.container("list", "--name", "look"),
        lambda: user.container("action", "list", "look"),
    )
    address = show["addresses"]
    ((network, (port,)),) = team.get(f"/containers/{uuid}")["addresses"].items()
    assert (show["networks"], address) == (network, port["addr"])
    assert show["status_detail"].startswith("Up ")
    assert sorted(both.split()) == ["err", "out"]
    assert errors.strip() == "err"
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z out", tail)
    assert (stats["CONTAINER"], stats["MEM LIMIT(MiB)"]) == ("look", 64)
    assert 0 < stats["MEM USAGE(MiB)"] < 64
    assert (three.returncode, three.stdout.strip()) == (3, "gone")
    assert (quoted.returncode, quoted.stdout.rstrip()) == (0, "a  b $HOME ü")
    assert missing.returncode != 0
    assert "no-such-program" in missing.stdout + missing.stderr
    assert [list(row) for row in listed] == [COLUMNS]
    assert (listed[0]["uuid"], listed[0]["status"], listed[0]["addresses"]) == (uuid, "Running", address)
    assert [(row["action"], row["message"]) for row in actions] == [("create", None)]
    action = user.container("action", "show", "look", actions[0]["request_id"])
    assert action["container_uuid"] == uuid
    assert {event["event"]: event["result"] for event in action["events"]}["start"] == "Success"


def test_power_each_way(team: Cloud, user: StockClient) -> None:
    """Several containers in one command, as the client permits; each refusal is told beside the accepted ones."""
    uuid, other = (team.begun(team.running(name=name)["uuid"]) for name in ("one", "two"))
    for verb, status, options in (
        ("stop", "Stopped", ("--timeout", "1")),
        ("start", "Running", ()),
        ("pause", "Paused", ()),
        ("unpause", "Running", ()),
        ("restart", "Running", ("--timeout", "0")),
        ("kill", "Stopped", ("--signal", "TERM")),
    ):
        done = user.raw("appcontainer", verb, *options, "one", "two")
        assert done.stdout.count("has been accepted") == 2, done
        for ident in (uuid, other):
            assert team.wait(ident, status)["status_reason"] is None
            if status == "Running":  # the next signal finds the trap
                team.begun(ident)
    engine = team.engine(uuid)
    assert engine
    assert not engine["State"]["Running"]
    rows, mixed = together(
        lambda: user.container("action", "list", uuid),
        lambda: user.raw("appcontainer", "unpause", "one", "no-such-container"),
    )
    assert [row["action"] for row in rows] == ["kill", "reboot", "unpause", "pause", "start", "stop", "create"]
    assert {row["message"] for row in rows} == {None}
    refused(mixed, 409, f"unpause for container one failed: Cannot unpause container {uuid} in Stopped state")
    refused(
        mixed, 404, "unpause for container no-such-container failed: Container no-such-container could not be found."
    )


def test_set_changes_the_container_and_the_engine(team: Cloud, user: StockClient) -> None:
    uuid = team.running(name="before")["uuid"]
    renamed = user.container("set", "before", "--name", "after", "--auto-heal")
    assert (renamed["uuid"], renamed["name"], renamed["auto_heal"]) == (uuid, "after", True)
    sized = user.container("set", "after", "--cpu", "0.3", "--memory", "96", "--no-auto-heal")
    assert (sized["cpu"], sized["memory"], sized["auto_heal"]) == (0.3, "96", False)
    engine = team.engine(uuid)
    assert engine
    assert engine["HostConfig"]["Memory"] == 96 << 20
    assert team.allocation(uuid) == {"CUSTOM_ZUN_MILLICPU": 300, "MEMORY_MB": 96}


def test_waiting_for_create_rebuild_and_delete(team: Cloud, user: StockClient) -> None:
    """The client polls every five seconds, so its waits run side by side."""
    rebuilt = team.running(name="rebuilt")["uuid"]
    gone = team.running(name="gone")["uuid"]
    failed = team.create(name="failed", image="no-such-image")["uuid"]
    team.wait(failed, "Error")
    before = team.engine(rebuilt)
    created, rebuild, stop_delete, error_delete, bad_run = together(
        lambda: user.container("create", "-f", "json", "--wait", "--name", "made", "busybox", *SLEEP),
        lambda: user.text("appcontainer", "rebuild", "--wait", "--image", "other", "rebuilt"),
        lambda: user.text("appcontainer", "delete", "--stop", "--wait", "gone"),
        lambda: user.text("appcontainer", "delete", "--wait", failed),
        lambda: user.raw("appcontainer", "run", "--wait", "--name", "bad", "no-such-image"),
    )
    assert (created["status"], created["command"]) == ("Created", SLEEP)
    assert "rebuild container rebuilt success." in rebuild
    assert "Delete for container gone success." in stop_delete
    assert f"Delete for container {failed} success." in error_delete
    assert "Failed to run container." in bad_run.stdout
    after = team.wait(rebuilt, "Running")
    assert after["image"] == "other"
    engine = team.engine(rebuilt)
    assert before
    assert engine
    assert engine["Image"] != before["Image"]
    assert team.holds_nothing(gone)
    assert "no-such-image:latest was not found" in user.container("show", "bad")["status_reason"]


def test_a_file_and_a_named_volume_are_mounted(team: Cloud, user: StockClient, tmp_path: Path) -> None:
    (tmp_path / "greeting").write_text("hello\n")
    team.product.cli("volume", "create", "kept", "--project", "team")
    try:
        created = user.container(
            "run", "-f", "json", "--name", "files", "--mount", "source=kept,destination=/kept",
            "--mount", f"type=bind,source={tmp_path}/greeting,destination=/etc/greeting", "busybox", *SLEEP,
        )  # fmt: skip
        team.wait(created["uuid"], "Running")
        read = user.raw("appcontainer", "exec", "files", "sh", "-c", "cat /etc/greeting; mount | grep -c ' /kept '")
        assert read.stdout.split() == ["hello", "1"], read
        team.http.delete(f"/v1/containers/{created['uuid']}", params={"stop": "true"})
        team.wait_gone(created["uuid"])
    finally:
        team.product.cli("volume", "delete", "kept", "--project", "team")


def test_copying_files_in_and_out(team: Cloud, user: StockClient, tmp_path: Path) -> None:
    uuid = team.running(name="copies")["uuid"]
    (tmp_path / "in").mkdir()
    content = os.urandom(5 * 1024 * 1024)
    (tmp_path / "in" / "data").write_bytes(content)
    (tmp_path / "out").mkdir()
    user.text("appcontainer", "cp", f"{tmp_path}/in/data", "copies:/tmp")
    inside = user.raw("appcontainer", "exec", "copies", "sha256sum", "/tmp/data")
    assert inside.stdout.split()[0] == hashlib.sha256(content).hexdigest()
    user.text("appcontainer", "cp", "copies:/tmp/data", str(tmp_path / "out"))
    assert (tmp_path / "out" / "data").read_bytes() == content
    team.act(uuid, "pause")
    team.wait(uuid, "Paused")
    missing, folder, paused = together(
        lambda: user.raw("appcontainer", "cp", "copies:/tmp/nothing", str(tmp_path)),
        lambda: user.raw("appcontainer", "cp", f"{tmp_path}/in/data", "copies:/nowhere"),
        lambda: user.raw("appcontainer", "cp", "copies:/etc/hostname", str(tmp_path)),
    )
    refused(missing, 400, f"Could not find the file /tmp/nothing in container zun-{uuid}")
    refused(folder, 400, f"Could not find the file /nowhere in container zun-{uuid}")
    assert paused.returncode == 0
    assert (tmp_path / "hostname").read_text().strip()


def test_leaving_and_joining_a_network(team: Cloud, user: StockClient) -> None:
    uuid = team.running(name="joins")["uuid"]
    (network,) = team.get(f"/containers/{uuid}")["addresses"]
    again = user.raw("appcontainer", "network", "attach", "joins", "--network", network)
    refused(again, 400, f"Container {uuid} is attached to network {network} already.")
    user.text("appcontainer", "network", "detach", "joins", "--network", network)
    wait_until(lambda: not team.get(f"/containers/{uuid}")["addresses"], 60, "the network is left")
    assert "eth" not in user.raw("appcontainer", "exec", "joins", "ip", "link").stdout
    user.text("appcontainer", "network", "attach", "joins", "--network", "default")
    wait_until(lambda: team.get(f"/containers/{uuid}")["addresses"], 60, "the network is joined")
    ((address,),) = team.get(f"/containers/{uuid}")["addresses"].values()
    assert address["addr"] in user.raw("appcontainer", "exec", "joins", "ip", "addr").stdout
    actions = [(row["action"], row["message"]) for row in user.container("action", "list", uuid)]
    assert actions[:2] == [("network_attach", None), ("network_detach", None)]
    newer = user.raw("appcontainer", "add", "security", "group", "joins", "default")
    assert "HTTP 406" in newer.stdout + newer.stderr


# -- lists ------------------------------------------------------------------------------------------------------


def test_lists_pages_and_filters(cloud: Cloud, admin: StockClient, team: Cloud, user: StockClient) -> None:
    uuids = [team.create(run=False, name=name, memory=memory)["uuid"] for name, memory in
             (("first", 32), ("second", 48), ("third", 32), ("fourth", 48))]  # fmt: skip
    foreign = cloud.create(run=False, name="foreign")["uuid"]
    for uuid in uuids:
        team.wait(uuid, "Created")
    cloud.wait(foreign, "Created")
    reader = StockClient(cloud.product.url, cloud.product.token("team", "reader"))

    def names(client: StockClient, *options: str) -> list[str]:
        return [row["name"] for row in client.container("list", *options)]

    every, page, following, by_name, sized, readers, all_of_them, admins = together(
        lambda: names(user),
        lambda: names(user, "--limit", "2"),
        lambda: names(user, "--limit", "3", "--marker", uuids[1]),
        lambda: names(user, "--limit", "10", "--sort-key", "name", "--sort-dir", "desc"),
        lambda: names(user, "--memory", "48", "--status", "Created", "--image", "busybox", "--auto-remove", "False"),
        lambda: names(reader),
        lambda: names(admin, "--all-projects"),
        lambda: names(admin),
    )
    order = ["first", "second", "third", "fourth"]
    assert (every, readers) == (order, order)
    assert (page, following) == (order[:2], order[2:])
    assert by_name == sorted(order, reverse=True)
    assert sized == ["second", "fourth"]
    assert (set(all_of_them), admins) == ({*order, "foreign"}, ["foreign"])
    member_all, by_host, found = together(
        lambda: user.raw("appcontainer", "list", "--all-projects"),
        lambda: user.raw("appcontainer", "list", "--host", "anything"),
        lambda: admin.container("show", "third", "--all-projects"),
    )
    refused(member_all, 403, "Policy doesn't allow container:get_all_all_projects to be performed.")
    refused(by_host, 403, "Policy doesn't allow container:get_one:host to be performed.")
    assert found["uuid"] == uuids[2]
    assert found["host"]


# -- refusals ---------------------------------------------------------------------------------------------------


def test_errors_as_users_read_them(cloud: Cloud, team: Cloud, user: StockClient) -> None:
    uuid = team.running(name="busy")["uuid"]
    stranger = StockClient(cloud.product.url, "no-such-token")
    show, running, forced, anonymous, image = together(
        lambda: user.raw("appcontainer", "show", "no-such-container"),
        lambda: user.raw("appcontainer", "start", "busy"),
        lambda: user.raw("appcontainer", "delete", "--force", "busy"),
        lambda: stranger.raw("appcontainer", "list"),
        lambda: user.raw("appcontainer", "run", "UPPER/bad:::"),
    )
    refused(show, 404, "^Container no-such-container could not be found.")
    assert show.returncode == 1
    refused(running, 409, f"Start for container busy failed: Cannot start container {uuid} in Running state")
    refused(forced, 403, "Policy doesn't allow container:delete_force to be performed.")
    refused(anonymous, 401, "^Unauthorized")
    refused(image, 400, ".*UPPER/bad:::.*")
    assert team.wait(uuid, "Running")


def test_attach_to_what_is_not_interactive_is_refused_in_one_sentence(team: Cloud, user: StockClient) -> None:
    uuid = team.running(name="plain")["uuid"]
    done = user.raw("appcontainer", "attach", "plain")
    refused(done, 400, f"Container {uuid} was not created with the interactive flag.")


# -- older versions ---------------------------------------------------------------------------------------------


def test_commands_of_older_versions_are_one_text(team: Cloud, user: StockClient) -> None:
    """Below 1.20 the client sends each word in double quotes, joined to one text."""

    def run(version: str, *options: str) -> Any:
        words = ("busybox", "sh", "-c", "echo 'a  b' c; sleep 1000")
        return user.json("--os-container-api-version", version, "appcontainer", "run", "-f", "json", *options, *words)

    oldest, last, listed = lambda: run("1.12", "--hostname", "old"), lambda: run("1.19"), lambda: run("1.20")
    for created in together(oldest, last, listed):
        assert created["command"] == ["sh", "-c", "echo 'a  b' c; sleep 1000"]
        team.wait(created["uuid"], "Running")
        logs = f"/containers/{created['uuid']}/logs"
        wait_until(lambda logs=logs: team.get(logs) == "a  b c\n", 60, "the words are kept")  # type: ignore[misc]
