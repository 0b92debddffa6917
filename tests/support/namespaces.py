"""Network namespaces as a test sees them: made, entered by ``ip`` and ``busybox``, removed."""

from __future__ import annotations

import os
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import testbed

OVS_ENV = {**os.environ, "OVS_RUNDIR": str(testbed.FOLDER / "run" / "ovs")}
OVS_DATABASE = f"unix:{testbed.FOLDER}/run/ovs/db.sock"


def run(*command: str, check: bool = True) -> str:
    """Output of a command."""
    done = subprocess.run(command, capture_output=True, text=True, env=OVS_ENV)
    assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def devices() -> set[str]:
    """Names of the host's network devices."""
    return {name for _, name in socket.if_nameindex()}


def ovs_ports(bridge: str) -> list[str]:
    return run("ovs-vsctl", "list-ports", bridge).split()


class Namespace:
    """A network namespace with a name of its own."""

    def __init__(self) -> None:
        self.name = f"zt{uuid.uuid4().hex[:10]}"
        run("ip", "netns", "add", self.name)
        self.fd = os.open(f"/run/netns/{self.name}", os.O_RDONLY | os.O_CLOEXEC)

    def drop_name(self) -> None:
        """The name goes; the namespace lives as long as somebody holds it."""
        if Path(f"/run/netns/{self.name}").exists():
            run("ip", "netns", "del", self.name)

    def close(self) -> None:
        self.drop_name()
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def run(self, *command: str, check: bool = True) -> str:
        return run("ip", "netns", "exec", self.name, *command, check=check)

    def ip(self, *words: str) -> str:
        return run("ip", "-n", self.name, *words)

    def pings(self, address: str) -> bool:
        return " 0% packet loss" in self.run("busybox", "ping", "-c", "1", "-W", "3", address, check=False)

    @contextmanager
    def serving(self, port: int, text: str) -> Iterator[None]:
        """A TCP server that sends ``text`` to one who connects."""
        inside = ["ip", "netns", "exec", self.name, "busybox"]
        command = [*inside, "nc", "-l", "-p", str(port), "-e", "busybox", "echo", text]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.kill()
            process.wait()

    def fetch(self, address: str, port: int) -> str:
        return self.run("busybox", "nc", "-w", "3", address, str(port), check=False).strip()
