"""The product as a user has it: `zun up` in its own process, with its own port, state and deployment.

Lifecycle calls block (use ``asyncio.to_thread`` beside requests in flight); ``client`` is for async tests.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.support import forks, readiness, server_rows
from tests.support.engine import SOCKET, Engine
from tests.support.plain_http import PLAIN
from tests.support.ports import free_port
from tests.support.subnets import SubnetClaim
from tests.support.wait import wait_until
from zun.cli.state import StateDir

ZUN = Path(sys.executable).with_name("zun")
START_TIMEOUT = 120.0  # seconds; an overloaded machine takes more than thirty
STOP_TIMEOUT = 60.0


class Product:
    """Not started until ``start``. ``stop`` ends it and removes what it left in the engine."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self.state = StateDir(folder)
        self.engine = engine
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.program = [str(ZUN)]
        """What is run as ``zun``; the fault tests put a trap around it."""
        self._process: forks.Process | None = None
        self._logged = 0
        self._subnet = SubnetClaim()
        self._clients: list[httpx.Client] = []
        self.closed = False
        self.state.prepare(self.port)
        self.conf(local={"subnet_pool": self._subnet.cidr}, docker={"api_url": f"unix://{SOCKET}"})

    def conf(self, **sections: Mapping[str, Any]) -> Product:
        """Options to set before the (next) start: ``conf(docker={"default_registry": "…"})``."""
        parser = configparser.RawConfigParser(default_section="")
        parser.read(self.state.conf_file)
        for section, options in sections.items():
            if not parser.has_section(section):
                parser.add_section(section)
            for name, value in options.items():
                parser.set(section, name, str(value))
        with self.state.conf_file.open("w") as file:
            parser.write(file)
        return self

    # -- the process ------------------------------------------------------------------------------

    def spawn(self, env: Mapping[str, str] | None = None) -> forks.Process:
        """Starts the process and does not wait; for tests of starts that fail."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("ZUN_STATE", "ZUN_PORT", "OS_"))}
        self._logged = readiness.size(self.state.log_file)
        with self.state.log_file.open("ab") as log:
            self._process = forks.start(
                [*self.program, "up", "--state-dir", str(self.state.root)],
                stdout=log,
                stderr=log,
                env={**inherited, **(env or {})},
                start_new_session=True,
            )
        return self._process

    def start(self, env: Mapping[str, str] | None = None) -> Product:
        """Returns when the API is healthy and the agent is up. ``env`` adds to the process's environment."""
        process = self.spawn(env)
        try:
            wait_until(lambda: process.poll() is not None or self._is_ready(), START_TIMEOUT, "it is ready")
        except AssertionError as error:
            raise AssertionError(f"{error}; log:\n{self.log()}") from None
        assert process.poll() is None, f"zun up ended with {process.returncode}:\n{self.log()}"
        return self

    def _is_ready(self) -> bool:
        if not readiness.agent_began(self.state.log_file, self._logged):
            return False
        with contextlib.suppress(httpx.TransportError):
            with httpx.Client(base_url=self.url, verify=PLAIN, timeout=5) as http:
                if http.get("/healthcheck").status_code != 200 or not self.admin_token:
                    return False
                headers = {"X-Auth-Token": self.admin_token}
                services = http.get("/v1/services", headers=headers).json().get("services", [])
            return any(row["binary"] == "zun-compute" and row["state"] == "up" for row in services)
        return False

    @property
    def pid(self) -> int:
        assert self._process is not None, "the product was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL: no chance to tidy up."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(STOP_TIMEOUT)

    def terminate(self) -> int:
        """SIGTERM, and the exit code."""
        assert self._process is not None, "the product was not started"
        self._process.terminate()
        try:
            return self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"zun up did not end within {STOP_TIMEOUT} s of SIGTERM:\n{self.log()}") from None

    def restart(self, env: Mapping[str, str] | None = None) -> Product:
        """Ends it (SIGTERM) if it runs, and starts it again on the same state."""
        if self.running:
            self.terminate()
        return self.start(env)

    def wait_ended(self, timeout: float = STOP_TIMEOUT) -> int:
        """The exit code, once it ends by itself."""
        assert self._process is not None, "the product was not started"
        return self._process.wait(timeout)

    def log(self) -> str:
        return self.state.log_file.read_text(errors="replace") if self.state.log_file.exists() else ""

    # -- what a user does -------------------------------------------------------------------------

    @property
    def admin_token(self) -> str:
        return self.state.read_admin_token() or ""

    def token(self, project: str, role: str = "member") -> str:
        """A new token, through the command line."""
        return self.cli("token", "create", "--project", project, "--role", role).stdout.strip()

    def cli(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`zun …` on this state directory."""
        command = [str(ZUN), *arguments, "--state-dir", str(self.state.root)]
        done = forks.run(command, timeout=120)
        assert not check or done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done

    def client(self, token: str | None = None, version: str = "1.40", timeout: float = 60.0) -> httpx.AsyncClient:
        """For async tests; close it (``async with``). The admin's when no token is given."""
        headers = self.headers(token, version)
        return httpx.AsyncClient(base_url=self.url, headers=headers, verify=PLAIN, timeout=timeout)

    def http(self, token: str | None = None, version: str = "1.40", timeout: float = 60.0) -> httpx.Client:
        """For plain tests; closed with the product."""
        headers = self.headers(token, version)
        client = httpx.Client(base_url=self.url, headers=headers, verify=PLAIN, timeout=timeout)
        self._clients.append(client)
        return client

    def headers(self, token: str | None = None, version: str = "1.40") -> dict[str, str]:
        return {"X-Auth-Token": token or self.admin_token, "OpenStack-API-Version": f"container {version}"}

    def wait_status(self, path: str, *wanted: str, timeout: float = 60.0) -> dict[str, Any]:
        """The container at ``/v1/containers/<uuid>`` once its status is one of ``wanted``."""
        http = self.http()

        def reached() -> dict[str, Any] | None:
            row: dict[str, Any] = http.get(path).json()
            assert row.get("status") != "Error" or "Error" in wanted, row
            return row if row.get("status") in wanted else None

        found = wait_until(reached, timeout, f"{path} is {' or '.join(wanted)}")
        assert found is not None
        return found

    # -- what it holds ----------------------------------------------------------------------------

    def query(self, statement: str, *parameters: Any) -> Sequence[Mapping[str, Any] | sqlite3.Row]:
        """Reads the product's database, the embedded one as it is on disk; nothing where there are no tables yet."""
        parser = configparser.RawConfigParser(default_section="")
        parser.read(self.state.conf_file)
        url = parser.get("database", "connection", fallback="sqlite")
        if not url.startswith("sqlite"):
            return server_rows.read(url, statement, parameters)
        database = self.state.root / "zun.sqlite"
        if not database.exists():
            return []
        # Read-write: after a SIGKILL the reader has to recover the write-ahead log.
        with contextlib.closing(sqlite3.connect(f"file:{database}?mode=rw", uri=True, timeout=30)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA query_only = ON")
            try:
                return connection.execute(statement, parameters).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):
                    return []
                raise

    @property
    def deployment_id(self) -> str | None:
        rows = self.query("SELECT value FROM settings WHERE name = 'deployment_id'")
        return str(rows[0]["value"]) if rows else None

    def engine_containers(self) -> list[dict[str, Any]]:
        """What this deployment has in the engine."""
        owner = self.deployment_id
        return self.engine.containers(owner) if owner else []

    def engine_networks(self) -> list[str]:
        """Names of the engine networks of this deployment."""
        return self.engine.networks({str(row["uuid"]) for row in self.query("SELECT uuid FROM local_networks")})

    def mounts(self) -> list[str]:
        """Mount points below the state directory."""
        lines = Path("/proc/self/mounts").read_text().splitlines()
        return [where for where in (line.split()[1] for line in lines) if where.startswith(f"{self.state.root}/")]

    def processes(self) -> list[str]:
        """Command lines of processes of this product that still run."""
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            words = process.info["cmdline"] or []
            if str(self.state.root) in words and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {' '.join(words)}")
        return found

    def clear(self, timeout: float = 60.0) -> None:
        """Deletes every container through the API and waits until nothing of them is left anywhere: the leak check."""
        http = self.http()
        while rows := http.get("/v1/containers", params={"all_projects": "true"}).json()["containers"]:
            for row in rows:
                self._clear_one(http, row["uuid"], timeout)
        wait_until(lambda: not self.leaks(), timeout, f"nothing is held; {self.leaks()}")

    def _clear_one(self, http: httpx.Client, uuid: str, timeout: float) -> None:
        """Force does not delete a paused container (the contract's table): it is resumed first."""
        path = f"/v1/containers/{uuid}"

        def gone() -> bool:
            answer = http.get(path)
            if answer.status_code == 404:
                return True
            row = answer.json()
            if row["status"] == "Paused" and row["task_state"] is None:
                http.post(f"{path}/unpause")
            elif row["task_state"] != "container_deleting":
                deleted = http.delete(path, params={"force": "true"})
                assert deleted.status_code in (204, 404, 409), deleted.text
            return False

        wait_until(gone, timeout, f"{uuid} is deleted; log:\n{self.log()[-4000:]}")

    def leaks(self) -> list[str]:
        """What is held though the records have no container: engine containers, ports, allocations, mounts."""
        found = [f"engine container {row['Names']}" for row in self.engine_containers()]
        found += [f"mount {where}" for where in self.mounts()]
        found += [f"port {row['uuid']}" for row in self.query("SELECT uuid FROM local_ports")]
        found += [f"allocation {row['consumer']}" for row in self.query("SELECT consumer FROM local_allocations")]
        used = "SELECT * FROM quota_usages WHERE containers != 0 OR cpu != 0 OR memory != 0 OR disk != 0"
        return found + [f"quota usage {dict(row)}" for row in self.query(used)]

    # -- the end ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ends it and removes what it has in the engine, so that nothing of the test is left."""
        if self.closed:
            return
        self.closed = True
        try:
            if self.running:
                self.terminate()
        finally:
            self._remove_all()
            self._subnet.close()
            for client in self._clients:
                client.close()

    def _remove_all(self) -> None:
        for row in self.engine_containers():
            if row["State"] == "paused":
                self.engine.post(f"/containers/{row['Id']}/unpause")
            self.engine.remove(row["Id"])
        wait_until(lambda: not self.engine_containers(), 60, "the engine removed the test's containers")
        wait_until(self._networks_gone, 60, "the engine removed the test's networks")
        for where in sorted(self.mounts(), reverse=True):
            subprocess.run(["umount", where], check=True, timeout=30)

    def _networks_gone(self) -> bool:
        with contextlib.suppress(httpx.HTTPStatusError):  # an end point of a container that just went
            for name in self.engine_networks():
                self.engine.remove_network(name)
            return True
        return False

    def remains(self, timeout: float = 20.0) -> list[str]:
        """What is still there so long after ``stop``; empty when all is well. A process that was told to end may take a
        moment."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not self._remains(), timeout, "nothing remains")
        return self._remains()

    def _remains(self) -> list[str]:
        found = [f"container {row['Names']}" for row in self.engine_containers()]
        found += [f"network {name}" for name in self.engine_networks()]
        return found + [f"mount {m}" for m in self.mounts()] + [f"process {p}" for p in self.processes()]
