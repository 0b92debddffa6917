"""Scenario 4 on containers of capsules, in containerd and in Docker: a terminal, its size, the end, attach."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.capsule_cloud import CapsuleCloud
from tests.support.sessions import processes
from tests.support.terminal import terminal
from tests.support.wait import wait_until

pytestmark = [pytest.mark.xdist_group("capsules"), pytest.mark.timeout(600)]


def member_of(capsules: CapsuleCloud, *entries: dict[str, Any]) -> str:
    uuid = capsules.create(*entries)
    return str(capsules.wait(uuid, "Running")["containers"][0]["uuid"])


def test_s4_exec_in_a_member(capsules: CapsuleCloud) -> None:
    member = member_of(capsules, {})
    http, path = capsules.http, f"/v1/containers/{member}"
    asked = {"command": "sh", "interactive": "True", "run": "False"}
    answer = http.post(f"{path}/execute", params=asked).json()
    size = {"exec_id": answer["exec_id"], "h": "31", "w": "101"}
    with terminal(answer["proxy_url"]) as client:
        assert client.run("echo $((6*7))") == "42"
        assert http.post(f"{path}/execute_resize", params=size).status_code == 200
        wait_until(lambda: client.run("stty size") == "31 101", 20, "the size holds")
        client.type("sleep 4714\r")
        wait_until(lambda: processes(["sleep", "4714"]), 30, "the key will be for the program")
        client.type("\x03")
        assert client.run("echo code $?") == "code 130"
        client.type("exit 6\r")
        assert client.end() == (1000, "The command has ended with exit code 6.")
    with terminal(answer["proxy_url"]) as client:
        assert client.end() == (1008, "The token was used already; ask for a new session.")


def test_s4_output_alone_of_a_member(capsules: CapsuleCloud) -> None:
    member = member_of(capsules, {})
    asked = {"command": "sh -c 'echo out; exit 3'", "run": "False"}
    answer = capsules.http.post(f"/v1/containers/{member}/execute", params=asked).json()
    with terminal(answer["proxy_url"]) as client:
        assert client.end() == (1000, "The command has ended with exit code 3.")
        assert client.text == b"out\n"
