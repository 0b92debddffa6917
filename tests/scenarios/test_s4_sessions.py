"""Scenario 4, statement by statement: API, proxy, relay and Docker, as a program uses them."""

from __future__ import annotations

import os
import re
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import psutil
import pytest
from websockets.exceptions import InvalidStatus

from tests.support.cloud import Cloud
from tests.support.sessions import processes
from tests.support.terminal import terminal
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(300)
EXEC = "/containers/{}/execute"


def offer(cloud: Cloud, uuid: str, command: str = "sh", *, interactive: bool = True) -> dict[str, Any]:
    """The answer to an execute that is not run yet."""
    asked = {"command": command, "interactive": str(interactive), "run": "False"}
    answer: dict[str, Any] = cloud.post(EXEC.format(uuid), 200, params=asked).json()
    return answer


def query(url: str) -> dict[str, str]:
    return {name: value[0] for name, value in parse_qs(urlsplit(url).query).items()}


def audit(cloud: Cloud, exec_id: str) -> list[str]:
    lines = cloud.product.log().splitlines()
    return [line for line in lines if "zun.wsproxy.audit" in line and exec_id in line]


def test_s4_1_s4_4_execute_answers_with_the_address_of_a_session(member: Cloud) -> None:
    uuid = member.running()["uuid"]
    answer = offer(member, uuid)
    assert (answer["output"], answer["exit_code"]) == (None, None)
    assert re.fullmatch("[0-9a-f]{64}", answer["exec_id"])
    told = query(answer["proxy_url"])
    assert list(told) == ["token", "uuid", "exec_id"]
    assert (told["uuid"], told["exec_id"]) == (uuid, answer["exec_id"])
    assert answer["proxy_url"].startswith("ws://127.0.0.1:")


def test_s4_2_the_node_makes_the_exec_in_the_engine_and_unknown_containers_have_none(member: Cloud) -> None:
    uuid = member.running()["uuid"]
    made = offer(member, uuid)["exec_id"]
    assert member.product.engine.get(f"/exec/{made}/json")["ContainerID"] == member.engine(uuid)["Id"]
    asked = {"command": "sh", "run": "False"}
    assert member.http.post(f"/v1{EXEC.format(uuid4())}", params=asked).status_code == 404
    member.act(uuid, "pause")
    member.wait(uuid, "Paused")
    assert member.http.post(f"/v1{EXEC.format(uuid)}", params=asked).status_code == 409


def test_s4_3_a_token_is_kept_as_a_hash_good_once_for_this_exec_and_gone_with_the_container(member: Cloud) -> None:
    uuid = member.running()["uuid"]
    first, second = offer(member, uuid), offer(member, uuid)
    token = query(first["proxy_url"])["token"]
    held = b"".join(path.read_bytes() for path in member.product.state.root.glob("zun.sqlite*"))
    assert token.encode() not in held
    swapped = second["proxy_url"].replace(query(second["proxy_url"])["token"], token)
    with terminal(swapped) as client:
        assert client.end() == (1008, "The token is not of this exec session.")
    with terminal(first["proxy_url"]) as client:
        client.type("exit\r")
        assert client.end()[0] == 1000
    with terminal(first["proxy_url"]) as client:
        assert client.end() == (1008, "The token was used already; ask for a new session.")
    member.delete(uuid, stop="true")
    member.wait_gone(uuid)
    assert member.product.query("SELECT uuid FROM sessions WHERE container_uuid = ?", uuid) == []
    with terminal(second["proxy_url"]) as client:
        assert client.end() == (1008, "The token is not valid.")
    assert token not in member.product.log()


def test_s4_5_s4_6_who_has_the_address_opens_it_without_any_other_token(member: Cloud) -> None:
    uuid = member.running(name="talk")["uuid"]
    url = offer(member, uuid)["proxy_url"].replace(uuid, "talk")
    with terminal(url, subprotocols=["base64", "binary"], origin=f"http://{urlsplit(url).netloc}") as client:
        assert client.connection.subprotocol == "binary"
        assert client.run("echo $((6*7))") == "42"


def test_s4_7_a_wrong_token_or_exec_id_gets_no_byte_and_a_reason(member: Cloud) -> None:
    uuid = member.running()["uuid"]
    answer = offer(member, uuid)
    token = query(answer["proxy_url"])["token"]
    for url, reason in (
        (answer["proxy_url"].replace(token, "x" * len(token)), "The token is not valid."),
        (answer["proxy_url"].replace(answer["exec_id"], "0" * 64), "The token is not of this exec session."),
        (answer["proxy_url"].replace(uuid, str(uuid4())), "The token is not of this container."),
    ):
        with terminal(url) as client:
            assert client.end() == (1008, reason)
            assert client.text == b""
    with terminal(answer["proxy_url"]) as client:
        assert client.run("echo still good") == "still good"


def test_s4_8_bytes_pass_both_ways_unchanged_and_the_end_of_input_ends_the_command(member: Cloud) -> None:
    uuid = member.running()["uuid"]
    data = os.urandom(1024 * 1024) + bytes(range(256)) * 16  # Docker hands a last Ctrl-^ on with the next key only
    answer = offer(member, uuid, f"sh -c 'stty raw -echo; echo ready; head -c {len(data)} | cat; exit 5'")
    with terminal(answer["proxy_url"]) as client, ThreadPoolExecutor(1) as pool:
        client.until("ready\n")
        before = len(client.text)
        typing = pool.submit(lambda: [client.type(data[at : at + 50_000]) for at in range(0, len(data), 50_000)])
        code, reason = client.end(120)
        typing.result()
    assert client.text[before:] == data
    assert (code, reason) == (1000, "The command has ended with exit code 5.")
    wait_until(lambda: audit(member, answer["exec_id"]), 10, "the audit has a line")
    (line,) = audit(member, answer["exec_id"])
    for word in ("result=ended", f"container={uuid}", f"bytes_in={len(data)}", "exit_code=5", "from=127.0.0.1"):
        assert word in line


def test_s4_8_not_interactive_is_output_alone_without_a_terminal(member: Cloud) -> None:
    uuid = member.running()["uuid"]
    answer = offer(member, uuid, "sh -c 'echo out; sleep 0.2; echo err >&2; tty; exit 3'", interactive=False)
    with terminal(answer["proxy_url"]) as client:
        assert client.end() == (1000, "The command has ended with exit code 3.")
    assert sorted(client.text.splitlines()) == [b"err", b"not a tty", b"out"]  # two streams have no order


def test_s4_8_a_client_that_vanishes_ends_its_command_and_all_it_started(member: Cloud) -> None:
    uuid = member.running()["uuid"]
    answer = offer(member, uuid, "sh -c 'sleep 4711 & sleep 4712'")
    with terminal(answer["proxy_url"]) as client:

        def sleeping() -> int:
            said = member.post(EXEC.format(uuid), 200, params={"command": "ps"}).json()["output"]
            return len(re.findall(r"sleep 471[12]$", said, re.M))

        wait_until(lambda: sleeping() >= 2, 20, "both run")
        client.connection.socket.close()
    wait_until(lambda: sleeping() == 0, 30, "none of them runs")


def test_s4_8_commands_of_an_agent_that_was_killed_are_ended_when_it_is_back(member: Cloud) -> None:
    uuid, product = member.running()["uuid"], member.product
    answer = offer(member, uuid, "sh -c 'sleep 4721 & sleep 4722'")
    inside = psutil.Process(product.engine.get(f"/containers/{member.engine(uuid)['Id']}/json")["State"]["Pid"])  # type: ignore[index]

    def sleeping() -> int:
        return len(processes(["sleep", "4721"]) + processes(["sleep", "4722"]))

    with terminal(answer["proxy_url"]):
        wait_until(lambda: sleeping() == 2, 20, "both run")
        product.kill()
    assert sleeping() == 2  # nobody was there to end them
    product.start()
    wait_until(lambda: sleeping() == 0, 30, "none of them runs")
    assert inside.is_running()
    assert member.wait(uuid, "Running")
    asked = ("SELECT ended_at FROM sessions WHERE exec_id = ?", answer["exec_id"])
    wait_until(lambda: product.query(*asked)[0]["ended_at"], 10, "the session's end is written")


def test_s4_8_no_engine_port_is_open(member: Cloud) -> None:
    """Of what the product listens on, the relay is all that leads to the engine, and it asks for a certificate."""
    uuid = member.running()["uuid"]
    everyone = [psutil.Process(member.product.pid), *psutil.Process(member.product.pid).children(recursive=True)]
    ports = {c.laddr.port for one in everyone for c in one.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    (relay,) = (row["relay"] for row in member.product.query("SELECT relay FROM zun_services"))
    proxy = urlsplit(offer(member, uuid)["proxy_url"]).port
    assert ports == {member.product.port, proxy, int(relay.rpartition(":")[2])}
    listening = {c.laddr.port for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    engines = {process.pid for process in psutil.process_iter(["name"]) if process.info["name"] == "dockerd"}
    assert not {c.laddr.port for c in psutil.net_connections("tcp") if c.pid in engines and c.laddr.port in listening}
    with pytest.raises((ssl.SSLError, ConnectionError)):
        as_a_stranger(relay)


def as_a_stranger(address: str) -> None:
    """Ask for a session without a certificate. Raises when the other side ends it."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as plain, context.wrap_socket(plain) as stranger:
        stranger.sendall(b"GET /v1/sessions/x HTTP/1.1\r\n\r\n")
        if stranger.recv(1) == b"":
            raise ConnectionError("closed without a word")


def test_s4_9_execute_resize_changes_the_terminals_size(member: Cloud) -> None:
    uuid = member.running()["uuid"]
    answer = offer(member, uuid)
    path = f"/containers/{uuid}/execute_resize"
    size = {"exec_id": answer["exec_id"], "h": "31", "w": "101"}
    assert member.post(path, 200, params=size).json() is None  # before it runs
    with terminal(answer["proxy_url"]) as client:
        wait_until(lambda: client.run("stty size") == "31 101", 20, "the size given before the start holds")
        assert member.post(path, 200, params=size | {"h": "17", "w": "55"}).json() is None
        wait_until(lambda: client.run("stty size") == "17 55", 20, "the new size holds")
        client.type("exit\r")
        assert client.end()[0] == 1000
    member.post(path, 400, params=size | {"exec_id": "0" * 64})
    wait_until(lambda: member.http.post(f"/v1{path}", params=size).status_code == 400, 20, "it is over, and unknown")


def test_s4_10_a_relay_that_is_not_there_is_told(member: Cloud) -> None:
    """The original's refused connection to port 2375 cannot be; ours says that the node is lost."""
    uuid = member.running()["uuid"]
    answer = offer(member, uuid)
    product = member.product
    with terminal(answer["proxy_url"]) as client:
        client.run("true")
        product.terminate()
        assert client.end()[0] in (1001, 1011)
    product.start()


def test_s4_11_another_origin_is_refused_until_it_is_named(member: Cloud) -> None:
    uuid, origin = member.running()["uuid"], "http://skyline.example.org:9999"
    with pytest.raises(InvalidStatus) as refused, terminal(offer(member, uuid)["proxy_url"], origin=origin):
        pass
    assert refused.value.response.status_code == 403
    assert b"Origin header does not match this host." in (refused.value.response.body or b"")
    member.product.conf(websocket_proxy={"allowed_origins": "skyline.example.org"}).restart()
    try:
        with terminal(offer(member, uuid)["proxy_url"], origin=origin) as client:
            assert client.run("echo in") == "in"
    finally:
        member.product.conf(websocket_proxy={"allowed_origins": ""}).restart()


def test_attach_side_by_side_with_input_size_and_the_end(member: Cloud) -> None:
    uuid = member.running(command=["sh"], interactive=True, tty=True)["uuid"]
    urls = [member.get(f"/containers/{uuid}/attach") for _ in range(2)]
    with terminal(urls[0]) as one, terminal(urls[1]) as other:
        assert other.run("echo here") == "here"  # Docker answers before it attaches
        assert one.run("echo $((40+2))") == "42"
        other.until("42")
        assert member.post(f"/containers/{uuid}/resize", 200, params={"h": "21", "w": "77"}).json() is None
        wait_until(lambda: one.run("stty size") == "21 77", 20, "the size holds")
        other.connection.close()
        assert one.run("echo still") == "still"
        one.type("exit\r")
        assert one.end() == (1000, "Target closed")
    member.wait(uuid, "Stopped")


def test_certificates_of_the_relay_are_private(member: Cloud) -> None:
    files = [path for path in (Path(member.product.state.root) / "relay").iterdir() if path.suffix == ".key"]
    assert files
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
