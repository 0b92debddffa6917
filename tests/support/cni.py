"""A node's CNI pair as containerd meets it: the installed plug-in, started as a program, and the daemon's process."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support import forks
from tests.support.namespaces import OVS_ENV, Namespace
from tests.support.wait import wait_until
from zun.plumbing.handover import Handover, Handovers
from zun.plumbing.vif import Vif

DAEMON = [str(Path(sys.executable).with_name("zun-cni-daemon"))]


@dataclass(frozen=True)
class Answer:
    """What the plug-in printed, and its exit code."""

    code: int
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    def ok(self) -> Any:
        """The result, None where CNI has none."""
        assert self.code == 0, self.text
        return json.loads(self.text) if self.text else None

    def failed(self) -> str:
        """The error's message."""
        assert self.code == 1, self.text
        assert self.body["cniVersion"]
        assert self.body["code"] > 0
        return str(self.body["msg"])


class CniNode:
    """Not started until ``start``. ``more``: text added to its zun.conf; ``port`` 0 is a Unix socket."""

    def __init__(self, folder: Path, more: str = "", *, port: int = 0) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.conf_file = folder / "zun.conf"
        self.socket = folder / "cni.sock"
        listens = f"cni_daemon_port = {port}" if port else f"socket = {self.socket}"
        self.conf_file.write_text(
            f"[DEFAULT]\nstate_path = {folder}/state\n{more}\n[cni_daemon]\n{listens}\n"
            f"zun_cni_config_file = {folder}/net.d/10-zun-cni.conf\n"
        )
        self.port = port
        self.handovers = Handovers(f"{folder}/state")
        self.plugin = folder / "bin" / "zun-cni"
        self.log_file = folder / "daemon.log"
        self._process: forks.Process | None = None

    def option(self, **values: Any) -> CniNode:
        """Options of [cni_daemon], which is the file's last section."""
        with self.conf_file.open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in values.items())
        return self

    # -- the processes --------------------------------------------------------------------------------

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """``zun-cni-daemon`` with these words, to its end."""
        command = [*DAEMON, *words, "--config-file", str(self.conf_file)]
        return forks.run(command, env=OVS_ENV, timeout=60)

    def install(self) -> CniNode:
        done = self.run("install", "--bin-dir", str(self.plugin.parent))
        assert done.returncode == 0, done.stderr
        return self

    def impatient(self) -> CniNode:
        """From the next start of the plug-in on it gives a daemon that is not there up at once."""
        text = self.plugin.read_text()
        assert "\nPATIENCE = 20 " in text
        self.plugin.write_text(text.replace("\nPATIENCE = 20 ", "\nPATIENCE = 0 "))
        return self

    def spawn(self, **env: str) -> forks.Process:
        with self.log_file.open("ab") as log:
            command = [*DAEMON, "--config-file", str(self.conf_file)]
            self._process = forks.start(command, stdout=log, stderr=log, env=OVS_ENV | env)
        return self._process

    def start(self) -> CniNode:
        process = self.spawn()
        wait_until(lambda: process.poll() is not None or self.healthy(), 90, f"ready; log:\n{self.log()}")
        assert process.poll() is None, self.log()
        return self

    def http(self) -> httpx.Client:
        if self.port:
            return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30)
        return httpx.Client(base_url="http://node", transport=httpx.HTTPTransport(uds=str(self.socket)), timeout=30)

    def healthy(self) -> bool:
        with socket.socket(socket.AF_INET if self.port else socket.AF_UNIX) as probe:
            if probe.connect_ex(("127.0.0.1", self.port) if self.port else str(self.socket)):
                return False
        with self.http() as http:
            try:
                return http.get("/healthz").status_code == 200
            except httpx.TransportError:
                return False

    def waiting(self) -> int:
        """ADDs that wait for Neutron."""
        with self.http() as http:
            return int(http.get("/healthz").json()["waiting"])

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)

    def terminate(self) -> int:
        """SIGTERM, and the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)

    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    # -- what containerd does ---------------------------------------------------------------------------

    def hand_over(self, vifs: Sequence[Vif], **more: Any) -> str:
        """The agent's part, for interfaces of one capsule."""
        self.handovers.put(Handover(vifs[0].container, tuple(vifs), **more))
        return vifs[0].container

    def call(
        self,
        command: str,
        capsule: str = "",
        sandbox: str = "",
        namespace: str = "",
        *,
        version: str = "1.0.0",
        config: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Answer:
        """One start of the plug-in."""
        process = self.begin(command, capsule, sandbox, namespace, version=version, config=config, env=env)
        out, errors = process.communicate(timeout=120)
        assert not errors, errors.decode()
        return Answer(process.returncode, out.decode())

    def begin(
        self,
        command: str,
        capsule: str = "",
        sandbox: str = "",
        namespace: str = "",
        *,
        version: str = "1.0.0",
        config: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """The same, not waited for; it has its input."""
        uid = f"K8S_POD_UID={capsule};" if capsule else ""
        variables = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": sandbox,
            "CNI_NETNS": namespace,
            "CNI_IFNAME": "eth0",
            "CNI_PATH": str(self.plugin.parent),
            "CNI_ARGS": f"K8S_POD_NAME=web;{uid}IgnoreUnknown=1;K8S_POD_NAMESPACE=zun",
            **(env or {}),
        }
        text = config if config is not None else json.dumps(self.config(version)).encode()
        process = subprocess.Popen(
            [str(self.plugin)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables
        )
        assert process.stdin is not None
        try:
            process.stdin.write(text)
            process.stdin.close()
        except BrokenPipeError:
            pass
        process.stdin = None
        return process

    @staticmethod
    def config(version: str = "1.0.0") -> dict[str, Any]:
        return {"cniVersion": version, "name": "zun", "type": "zun-cni"}

    def add(self, capsule: str, sandbox: str, namespace: Namespace, **more: Any) -> Answer:
        return self.call("ADD", capsule, sandbox, path_of(namespace), **more)

    def delete(self, capsule: str, sandbox: str, namespace: Namespace | None = None, **more: Any) -> Answer:
        return self.call("DEL", capsule, sandbox, path_of(namespace) if namespace else "", **more)

    def check(self, capsule: str, sandbox: str, namespace: Namespace, **more: Any) -> Answer:
        return self.call("CHECK", capsule, sandbox, path_of(namespace), **more)


def sandbox_id() -> str:
    return secrets.token_hex(32)


def path_of(namespace: Namespace) -> str:
    return f"/run/netns/{namespace.name}"


def vif(number: int, bridge: str, owner: str, capsule: str = "", **more: Any) -> Vif:
    """An interface on a Linux bridge: 10.94.0.<number>, fd94::<number>."""
    values: dict[str, Any] = {
        "port_id": str(uuid.uuid4()),
        "container": capsule or str(uuid.uuid4()),
        "owner": owner,
        "mac": f"fa:16:3e:00:02:{number:02x}",
        "mtu": 1400,
        "switch": "bridge",
        "bridge": bridge,
        "addresses": (f"10.94.0.{number}/24", f"fd94::{number:x}/64"),
    }
    return Vif(**values | more)


def running(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")
