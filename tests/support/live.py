"""The product as a process on a real port, with the simulated engine: API, agent, reaper, database, no Docker.

``with live(folder) as zun: zun.http(zun.admin).get("/v1/containers")``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.support import forks, readiness
from tests.support.plain_http import PLAIN
from tests.support.ports import free_port
from tests.support.wait import wait_until
from zun.cli.state import StateDir

ZUN = Path(sys.executable).with_name("zun")
_TAKEN = "A port was taken by another program meanwhile"
_TAKEN_WITHIN = 300
"""Characters at the end of the log that hold a last word."""
_START = 120.0  # seconds; an overloaded machine takes more than thirty
_STOP = 60.0


class Live:
    """One process; ``start`` and ``stop`` may alternate on the same state."""

    def __init__(self, folder: Path, options: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.state = StateDir(folder)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: forks.Process | None = None
        self._logged = 0
        self.state.prepare(self.port)
        self._write({"DEFAULT": {"container_driver": "simulated"}})
        self._write(options or {})

    def _write(self, options: Mapping[str, Mapping[str, Any]]) -> None:
        """Adds options; oslo.config merges sections of one name."""
        with self.state.conf_file.open("a") as file:
            for section, values in options.items():
                file.write(f"\n[{section}]\n" + "".join(f"{name} = {value}\n" for name, value in values.items()))

    def start(self, *, through: tuple[str, ...] = ()) -> Live:
        """Returns when a container could be made. ``through``: a command the process is started by. Tried again, as its
        own message says, when a connection of somebody else's had the port for a moment."""
        for _ in range(3):
            self._begin(through)
            wait_until(lambda: self.ended or self._ready(), _START, "the product is ready")
            if not (self.ended and _TAKEN in self.log()[-_TAKEN_WITHIN:]):
                break
        assert not self.ended, self.log()
        return self

    def _begin(self, through: tuple[str, ...]) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("ZUN_", "OS_"))}
        self._logged = readiness.size(self.state.log_file)
        with self.state.log_file.open("ab") as log:
            command = [*through, str(ZUN), "up", "--state-dir", str(self.state.root)]
            self.process = forks.start(command, stdout=log, stderr=log, env=env, start_new_session=True)

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def _ready(self) -> bool:
        if not readiness.agent_began(self.state.log_file, self._logged):
            return False
        with contextlib.suppress(httpx.TransportError):
            token = self.state.read_admin_token()
            headers = {"X-Auth-Token": token or ""}
            answer = httpx.get(f"{self.url}/v1/services", headers=headers, verify=PLAIN, timeout=5)
            return answer.status_code == 200 and any(row["state"] == "up" for row in answer.json()["services"])
        return False

    def stop(self) -> None:
        """SIGTERM; a second call is success."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(_STOP)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(_STOP)
            raise AssertionError(f"the product did not end on SIGTERM:\n{self.log()}") from None

    def log(self) -> str:
        return self.state.log_file.read_text(errors="replace")

    @property
    def admin(self) -> str:
        """The admin's token."""
        return self.state.read_admin_token() or ""

    def token(self, project: str, role: str = "member") -> str:
        """A new token, made by the command line."""
        command = ["token", "create", "--project", project, "--role", role, "--state-dir", str(self.state.root)]
        done = forks.run([str(ZUN), *command], timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @contextlib.contextmanager
    def http(self, token: str, version: str = "1.40") -> Iterator[httpx.Client]:
        """A client with this token."""
        headers = {"X-Auth-Token": token, "OpenStack-API-Version": f"container {version}"}
        with httpx.Client(base_url=self.url, headers=headers, verify=PLAIN, timeout=60) as client:
            yield client

    def raw(self, data: bytes, *, until: bytes | None = None, timeout: float = 60.0) -> bytes:
        """Bytes as sent and as answered: read to the end of the connection, or until ``until`` was seen."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as link:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                link.sendall(data)
            return read(link, until)


def read(link: socket.socket, until: bytes | None = None) -> bytes:
    """What comes until the other side closes, or ``until`` has been seen."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while until is None or until not in found:
            part = link.recv(65536)
            if not part:
                break
            found += part
    return found


@contextlib.contextmanager
def live(folder: Path, options: Mapping[str, Mapping[str, Any]] | None = None) -> Iterator[Live]:
    """A running one, stopped at the end. Simulated containers go with it; mounts of their volumes would stay."""
    product = Live(folder, options)
    try:
        yield product.start()
    finally:
        product.stop()
        mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for where in sorted((one for one in mounted if one.startswith(f"{product.state.root}/")), reverse=True):
            subprocess.run(["umount", where], check=True, timeout=60)
