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
from tests.support.wait import wait_until

OVS_ENV = {**os.environ, "OVS_RUNDIR": str(testbed.FOLDER / "run" / "ovs")}
_LISTEN = "0A"
"""State of a socket, in the kernel's list."""
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

    @property
    def inside(self) -> tuple[str, ...]:
        """Before a command that is to run in it. ``ip netns exec`` would give it copies of the machine's mounts, which
        keep other tests' volumes busy as long as it runs."""
        return ("nsenter", f"--net=/run/netns/{self.name}")

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
        return run(*self.inside, *command, check=check)

    def ip(self, *words: str) -> str:
        return run("ip", "-n", self.name, *words)

    def pings(self, address: str) -> bool:
        """One of three is answered: the first may be too early, or late on a busy machine."""
        ping = ("busybox", "ping", "-c", "1", "-W", "3", address)
        return any(" 0% packet loss" in self.run(*ping, check=False) for _ in range(3))

    @contextmanager
    def serving(self, port: int, text: str) -> Iterator[None]:
        """A TCP server that sends ``text`` to one who connects; it listens by then."""
        command = [*self.inside, "busybox", "nc", "-l", "-p", str(port), "-e", "busybox", "echo", text]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_until(lambda: self._listens(port), 30, f"port {port} listens")
            yield
        finally:
            process.kill()
            process.wait()

    def _listens(self, port: int) -> bool:
        rows = [line.split() for line in self.run("cat", "/proc/net/tcp", "/proc/net/tcp6").splitlines()]
        return any(row[1].endswith(f":{port:04X}") and row[3] == _LISTEN for row in rows)

    def fetch(self, address: str, port: int) -> str:
        return self.run("busybox", "nc", "-w", "3", address, str(port), check=False).strip()
