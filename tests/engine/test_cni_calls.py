"""What the CNI pair answers to what is wrong: no daemon, malformed input, strangers, things that are not there."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cni import CniNode, path_of, sandbox_id
from tests.support.cni import vif as any_vif
from tests.support.namespaces import Namespace, devices
from tests.support.ports import free_port
from tests.support.wait import wait_until
from zun.plumbing.handover import Handover

CAPSULE = "7f0f6d50-52b1-4c0f-9c43-2b8f04b3f0aa"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CniNode]:
    made = CniNode(tmp_path_factory.mktemp("cni")).install().start()
    yield made
    assert made.terminate() == 0


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    yield made
    made.close()


def test_without_a_daemon_every_command_says_so_and_names_it(tmp_path: Path, namespace: Namespace) -> None:
    node = CniNode(tmp_path).install().impatient()
    for command in ("ADD", "CHECK", "DEL"):
        answer = node.call(command, CAPSULE, sandbox_id(), path_of(namespace))
        assert answer.failed() == f"zun-cni-daemon at {node.socket}: [Errno 2] No such file or directory"
        assert answer.body["code"] == 11
    assert node.call("VERSION").ok()["supportedVersions"] == ["0.4.0", "1.0.0"]


@pytest.mark.parametrize(
    ("config", "code", "told"),
    [
        (b"", 6, "not JSON"),
        (b"{", 6, "not JSON"),
        (b"\xff\xfe", 6, "not JSON"),
        (b"[" * 100000, 6, "not JSON"),
        (b"[]", 7, "not a JSON object"),
        (b'{"cniVersion": "1.0.0"}', 7, "no name"),
        (b'{"cniVersion": "1.0.0", "name": 7}', 7, "no name"),
        (b'{"name": "zun"}', 1, "cniVersion 'None' is not supported"),
        (b'{"cniVersion": "0.3.1", "name": "zun"}', 1, "'0.3.1' is not supported; use 0.4.0 or 1.0.0"),
        (b'{"cniVersion": ["1.0.0"], "name": "zun"}', 1, "is not supported"),
        (b'{"cniVersion": "1.0.0", "name": "' + b"x" * (1 << 20) + b'"}', 7, "larger than 1 MiB"),
    ],
)
def test_a_configuration_that_cannot_be_used(
    node: CniNode, namespace: Namespace, config: bytes, code: int, told: str
) -> None:
    answer = node.call("ADD", CAPSULE, sandbox_id(), path_of(namespace), config=config)
    assert told in answer.failed()
    assert answer.body["code"] == code


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"CNI_IFNAME": "net1"}, "CNI_IFNAME has to be eth0, not 'net1'"),
        ({"CNI_IFNAME": ""}, "CNI_IFNAME"),
        ({"CNI_CONTAINERID": ""}, "CNI_CONTAINERID is not an id"),
        ({"CNI_CONTAINERID": "../../etc"}, "CNI_CONTAINERID is not an id"),
        ({"CNI_CONTAINERID": "a\nb"}, "CNI_CONTAINERID has a line break"),
        ({"CNI_ARGS": ""}, "K8S_POD_UID has to be its uuid"),
        ({"CNI_ARGS": "K8S_POD_UID=../../../etc/passwd"}, "K8S_POD_UID has to be its uuid"),
        ({"CNI_NETNS": ""}, "CNI_NETNS has to be an absolute path"),
        ({"CNI_NETNS": "relative"}, "CNI_NETNS has to be an absolute path"),
        ({"CNI_COMMAND": "GC"}, "CNI_COMMAND has to be ADD, DEL, CHECK or VERSION"),
        ({"CNI_COMMAND": ""}, "CNI_COMMAND has to be"),
    ],
)
def test_variables_that_are_wrong(node: CniNode, namespace: Namespace, changed: dict[str, str], told: str) -> None:
    answer = node.call("ADD", CAPSULE, sandbox_id(), path_of(namespace), env=changed)
    assert told in answer.failed()
    assert answer.body["code"] == 4 or "line break" in told


def test_namespaces_that_are_none_and_the_hosts_own_are_refused(node: CniNode, tmp_path: Path) -> None:
    one = any_vif(1, "br-unused", node.handovers.owner)
    capsule = node.hand_over([one])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, told in (
        (str(tmp_path / "absent"), "No such file"),
        ("/etc/hostname", "is not a network namespace"),
        (str(pipe), "is not a network namespace"),
        ("/proc/self/ns/pid", "is not a network namespace"),
        (f"/proc/{os.getpid()}/ns/net", "is the host's own namespace"),
    ):
        assert told in node.call("ADD", capsule, sandbox_id(), path).failed()
    assert one.tap not in devices()
    node.handovers.remove(capsule)


def test_a_pod_that_is_not_ours_and_data_that_is_broken_are_told(node: CniNode, namespace: Namespace) -> None:
    answer = node.add(CAPSULE, sandbox_id(), namespace)
    assert answer.failed() == f"This node has no interface data of capsule {CAPSULE}."
    assert answer.body["code"] == 3
    capsule = node.hand_over([any_vif(1, "br-unused", node.handovers.owner)])
    file = node.handovers.root / "capsules" / f"{capsule}.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for text in ("", "{", '{"version": 2}', '{"version": 1, "capsule": 7}', "[1]"):
        file.write_text(text)
        assert "is no interface data of this version" in node.add(capsule, sandbox_id(), namespace).failed()
        assert node.delete(capsule, sandbox_id()).ok() is None
    node.handovers.remove(capsule)
    node.handovers.put(Handover(capsule, ()))
    assert "has no port" in node.add(capsule, sandbox_id(), namespace).failed()
    node.handovers.remove(capsule)


def test_the_socket_is_for_root_alone_and_a_second_daemon_is_refused(node: CniNode) -> None:
    assert stat.S_IMODE(node.socket.stat().st_mode) == 0o600
    done = node.run()
    assert done.returncode == 1
    assert "another daemon listens there" in done.stderr
    assert node.healthy()


def test_what_is_no_request_is_refused_and_the_daemon_goes_on(node: CniNode) -> None:
    for text in (b"hello\r\n\r\n", b"POST /addNetwork HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"\0" * 5000):
        with socket.socket(socket.AF_UNIX) as raw:
            raw.settimeout(60)
            raw.connect(str(node.socket))
            raw.sendall(text)
            assert b" 400 " in raw.recv(65536).split(b"\r\n")[0]
    with node.http() as http:
        assert http.get("/addNetwork").status_code == 405
        answer = http.post("/nothing", content=b"{}")
        assert answer.status_code == 404
        assert answer.json()["msg"] == "POST /nothing: Not Found."
        large = http.post("/addNetwork", content=b"x" * ((1 << 20) + 1))
        assert large.status_code == 413
        assert http.get("/healthz").json() == {"status": "ok", "waiting": 0}


def test_on_a_port_only_who_has_the_key_is_answered(tmp_path: Path, namespace: Namespace) -> None:
    node = CniNode(tmp_path, port=free_port()).install().start()
    try:
        key = node.handovers.root / "key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
        assert key.read_text() not in node.plugin.read_text()
        assert "no interface data" in node.add(CAPSULE, sandbox_id(), namespace).failed()
        assert node.delete(CAPSULE, sandbox_id()).ok() is None
        headers = {"CNI-CONTAINERID": "a", "CNI-IFNAME": "eth0", "CNI-ARGS": f"K8S_POD_UID={CAPSULE}"}
        with node.http() as http:
            for wrong in ({}, {"Zun-Cni-Key": "wrong"}, {"Zun-Cni-Key": b"\xe9"}):
                answer = http.post("/delNetwork", json=node.config(), headers={**headers, **wrong})
                assert answer.status_code == 403
                assert "run zun-cni-daemon install" in answer.json()["msg"]
            good = {**headers, "Zun-Cni-Key": key.read_text()}
            assert http.post("/delNetwork", json=node.config(), headers=good).status_code == 204
        key.unlink()
        assert str(key) in node.add(CAPSULE, sandbox_id(), namespace).failed()
        taken = node.run()
        assert taken.returncode == 1
        assert f"127.0.0.1:{node.port} cannot be listened on: Address already in use" in taken.stderr
    finally:
        assert node.terminate() == 0


def test_a_daemon_tells_systemd_and_stops_in_order(tmp_path: Path) -> None:
    node = CniNode(tmp_path)
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(120)
        node.spawn(NOTIFY_SOCKET=str(path))
        assert listener.recv(64) == b"READY=1"
        assert node.healthy()
        assert node.terminate() == 0
        assert listener.recv(64) == b"STOPPING=1"
    assert not node.socket.exists()


def test_a_socket_left_by_a_killed_daemon_is_taken_over(tmp_path: Path) -> None:
    node = CniNode(tmp_path).start()
    node.kill()
    assert node.socket.exists()
    node.start()
    assert node.terminate() == 0


def test_a_call_waits_for_a_daemon_that_is_restarted(tmp_path: Path, namespace: Namespace) -> None:
    """Whether its socket is gone or left by one that was killed."""
    node = CniNode(tmp_path).install()
    for gone in (True, False):
        begun = node.begin("DEL", CAPSULE, sandbox_id(), path_of(namespace))
        with pytest.raises(subprocess.TimeoutExpired):
            begun.wait(0.2)
        node.start()
        out, _ = begun.communicate(timeout=120)
        assert (begun.returncode, out) == (0, b"")
        if gone:
            node.kill()
            assert node.socket.exists()
    assert node.terminate() == 0


def test_a_daemon_that_hangs_up_is_told(tmp_path: Path, namespace: Namespace) -> None:
    node = CniNode(tmp_path).install()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(node.socket))
        listening.listen()
        process = node.begin("ADD", CAPSULE, sandbox_id(), path_of(namespace))
        accepted, _ = listening.accept()
        wait_until(lambda: accepted.recv(65536), 30, "it asks")
        accepted.close()
        out, _ = process.communicate(timeout=120)
    assert json.loads(out)["msg"] == f"zun-cni-daemon at {node.socket}: it ended the connection without an answer"
