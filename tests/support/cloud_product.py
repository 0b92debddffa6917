"""The product beside a cloud: zun-api and zun-compute processes on the services of tests/testbed.

Its database, virtual host, API port, host names and owner mark are its own, so products run side by side. Lifecycle
calls block (use ``asyncio.to_thread`` beside requests in flight).
"""

from __future__ import annotations

import configparser
import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.support import forks, readiness
from tests.support.engine import SOCKET, Engine
from tests.support.product import free_port
from tests.support.subnets import SubnetClaim
from tests.support.testbed import AUTH_URL, MACHINE, PASSWORD, REGION, REGISTRY, Account, Testbed
from tests.support.testbed_stores import CloudDatabase, CloudVhost
from tests.support.wait import wait_until

PROGRAMS = Path(sys.executable).parent
START_TIMEOUT = 60.0  # seconds
STOP_TIMEOUT = 30.0


class Service:
    """One process of the product: ``zun-api`` or ``zun-compute`` with a configuration file of its own."""

    def __init__(self, program: str, folder: Path, **sections: Mapping[str, Any]) -> None:
        self.program = program
        self.folder = folder
        self.sections = sections
        """What this process has that the others have not."""
        self.host = str(sections.get("DEFAULT", {}).get("host", ""))
        self.port = int(sections.get("api", {}).get("port", 0))
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [str(PROGRAMS / program)]
        """What is run; tests may put a trap around it."""
        self.env: dict[str, str] = {}
        """Added to the environment."""
        self.conf_file = folder / "zun.conf"
        self.log_file = folder / f"{program}.log"
        self.process: forks.Process | None = None
        self._logged = 0

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.program} was not started"
        return self.process.pid

    def spawn(self, env: Mapping[str, str] | None = None) -> Service:
        """Starts the process and does not wait."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("ZUN_", "OS_"))}
        self._logged = readiness.size(self.log_file)
        with self.log_file.open("ab") as log:
            self.process = forks.start(
                [*self.command, "--config-file", str(self.conf_file)],
                stdout=log,
                stderr=log,
                env={**inherited, **self.env, **(env or {})},
                start_new_session=True,
            )
        return self

    def terminate(self) -> int:
        """SIGTERM, and the exit code. A process that does not end is killed, and fails the test."""
        assert self.process is not None, f"{self.program} was not started"
        self.process.terminate()
        return self.wait_ended()

    def wait_ended(self) -> int:
        """The exit code, once it ends."""
        assert self.process is not None, f"{self.program} was not started"
        try:
            return self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.program} did not end within {STOP_TIMEOUT} s:\n{self.log(4000)}") from None

    def kill(self) -> None:
        """SIGKILL to it and what it started."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(STOP_TIMEOUT)

    @property
    def began(self) -> bool:
        """Of an agent: does it work since its last start?"""
        return readiness.agent_began(self.log_file, self._logged)

    def log(self, last: int | None = None) -> str:
        """All of it, or the ``last`` characters."""
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        return text[-last:] if last else text


class CloudProduct:
    """Not started until ``start``. ``close`` ends it and drops its database, virtual host, providers."""

    def __init__(self, folder: Path, testbed: Testbed, engine: Engine, *, nodes: int = 1, apis: int = 1) -> None:
        self.folder, self.testbed, self.engine = folder, testbed, engine
        self.name = f"zun_{secrets.token_hex(4)}"
        self.image = "busybox"
        self.database = CloudDatabase(self.name)
        self.vhost = CloudVhost(self.name)
        self.apis = [self._service("zun-api", f"api{n}", api={"port": free_port()}) for n in range(apis)]
        self.nodes = [
            self._service(
                "zun-compute", f"node{n}", DEFAULT={"host": f"{self.name}-{n}", "state_path": folder / f"node{n}/state"}
            )
            for n in range(nodes)
        ]
        self.others: list[Service] = []
        """Neither API nor node: their files are written with the others', who made them starts and ends them."""
        self.closed = False
        self._subnet = SubnetClaim()  # for network driver local: products side by side share the engine
        self._sections: dict[str, dict[str, str]] = {}
        self._clients: list[httpx.Client] = []
        self._made = False
        self.conf(**self._defaults())

    def _service(self, program: str, name: str, **sections: Mapping[str, Any]) -> Service:
        (self.folder / name).mkdir(parents=True)
        return Service(program, self.folder / name, **sections)

    def _defaults(self) -> dict[str, dict[str, Any]]:
        return {
            "DEFAULT": {
                "transport_url": self.vhost.url,
                "auth_encryption_key": secrets.token_hex(16),
                "state_path": self.folder / "state",
                "sync_container_state_interval": 5,
            },
            "database": {"connection": self.database.url},
            "keystone_authtoken": {
                "www_authenticate_uri": AUTH_URL,
                "auth_url": AUTH_URL,
                "auth_type": "password",
                "username": "zun",
                "password": PASSWORD,
                "project_name": "service",
                "user_domain_id": "default",
                "project_domain_id": "default",
                "region_name": REGION,
            },
            "oslo_messaging_rabbit": {"rabbit_retry_interval": 0.2, "rabbit_interval_max": 1},
            "neutron": {"agent_host": MACHINE},
            "local": {"subnet_pool": self._subnet.cidr},
            "docker": {"api_url": f"unix://{SOCKET}", "default_registry": REGISTRY},
            "quota": {"containers": 1000, "cpu": 1000, "memory": 1024 * 1024, "disk": 10000},
        }

    def conf(self, **sections: Mapping[str, Any]) -> CloudProduct:
        """Options of all processes for their (next) start: ``conf(network={"driver": "direct"})``."""
        for section, options in sections.items():
            self._sections.setdefault(section, {}).update({name: str(value) for name, value in options.items()})
        return self

    def option(self, section: str, name: str) -> str | None:
        """As it was set for all processes."""
        return self._sections.get(section, {}).get(name)

    def write(self) -> None:
        """The configuration files, as ``start`` and ``restart`` write them."""
        for service in (*self.services, *self.others):
            parser = configparser.RawConfigParser(default_section="")
            parser.read_dict(self._sections)
            parser.read_dict(service.sections)
            with service.conf_file.open("w") as file:
                parser.write(file)

    # -- the processes --------------------------------------------------------------------------------

    @property
    def services(self) -> list[Service]:
        return [*self.apis, *self.nodes]

    @property
    def api(self) -> Service:
        return self.apis[0]

    @property
    def node(self) -> Service:
        return self.nodes[0]

    @property
    def url(self) -> str:
        return self.api.url

    def prepare(self) -> CloudProduct:
        """Database with its tables, virtual host, configuration; made once."""
        self.write()
        if not self._made:
            self._made = True
            self.database.create()
            self.vhost.create()
            self.manage("upgrade")
        return self

    def manage(self, *arguments: str) -> str:
        """``zun-db-manage … --config-file``, and what it says."""
        return self.tool("zun-db-manage", "--config-file", str(self.api.conf_file), *arguments)

    def tool(self, program: str, *arguments: str) -> str:
        """A console script of ours that has to succeed."""
        command = [str(PROGRAMS / program), *arguments]
        done = forks.run(command, timeout=120)
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self) -> CloudProduct:
        """Returns when each API answers and each node is up."""
        self.prepare()
        for service in self.services:
            if not service.running:
                service.spawn()
        self.wait_up()
        return self

    def wait_up(self, timeout: float = START_TIMEOUT) -> None:
        """Each running process serves."""
        wanted = {node.host for node in self.nodes if node.running}

        def up() -> bool:
            for service in self.services:
                if service.process is not None and service.process.poll() is not None:
                    raise AssertionError(f"{service.program} ended with {service.process.returncode}:\n{service.log()}")
            if not all(node.began for node in self.nodes if node.running):
                return False
            return all(_healthy(api) for api in self.apis if api.running) and wanted <= self.hosts_up()

        wait_until(up, timeout, f"{self.name} is up;\n{self.tail()}")

    def hosts_up(self) -> set[str]:
        """Hosts whose agent is up, as the administrator sees it."""
        answer = self.http().get("/v1/services")
        if answer.status_code != 200:
            return set()
        rows = answer.json()["services"]
        return {row["host"] for row in rows if row["binary"] == "zun-compute" and row["state"] == "up"}

    def restart(self, *services: Service) -> CloudProduct:
        """Ends these (or all) with SIGTERM where they run, and starts them again."""
        for service in services or tuple(self.services):
            if service.running:
                service.terminate()
        self.write()
        for service in services or tuple(self.services):
            service.spawn()
        self.wait_up()
        return self

    def stop(self) -> None:
        """SIGTERM to all that run, side by side; exit code 0 wanted of each."""
        running = [service for service in self.services if service.running]
        for service in running:
            assert service.process is not None
            service.process.terminate()
        codes = {service.folder.name: service.wait_ended() for service in running}
        assert not any(codes.values()), f"{codes}\n{self.tail()}"

    def tail(self, lines: int = 30) -> str:
        """The end of every log."""
        return "\n".join(
            f"--- {service.folder.name} ({service.program})\n" + "\n".join(service.log().splitlines()[-lines:])
            for service in self.services
        )

    # -- what users do --------------------------------------------------------------------------------

    def http(
        self, account: Account | None = None, version: str = "1.40", timeout: float = 60.0, api: int = 0
    ) -> httpx.Client:
        """For plain tests, the administrator's unless an account is given; closed with the product."""
        client = httpx.Client(base_url=self.apis[api].url, headers=self.headers(account, version), timeout=timeout)
        self._clients.append(client)
        return client

    def client(self, account: Account | None = None, version: str = "1.40", api: int = 0) -> httpx.AsyncClient:
        """For async tests; close it (``async with``)."""
        return httpx.AsyncClient(base_url=self.apis[api].url, headers=self.headers(account, version), timeout=60)

    def headers(self, account: Account | None = None, version: str = "1.40") -> dict[str, str]:
        token = (account or self.testbed.admin).token
        return {"X-Auth-Token": token, "OpenStack-API-Version": f"container {version}"}

    # -- what it holds --------------------------------------------------------------------------------

    def query(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """Reads the product's database (``%s`` marks parameters); nothing before it is made."""
        return self.database.query(statement, *parameters) if self._made else []

    @property
    def deployment_id(self) -> str | None:
        rows = self.query("SELECT value FROM settings WHERE name = 'deployment_id'")
        return str(rows[0]["value"]) if rows else None

    def engine_containers(self) -> list[dict[str, Any]]:
        """What this deployment has in the engine, of all its nodes."""
        owner = self.deployment_id
        return self.engine.containers(owner) if owner else []

    def recorded(self) -> set[str]:
        """UUIDs of all containers the records have."""
        return {str(row["uuid"]) for row in self.query("SELECT uuid FROM containers")}

    def mounts(self) -> list[str]:
        """Mount points below the product's folder."""
        lines = Path("/proc/self/mounts").read_text().splitlines()
        return [where for where in (line.split()[1] for line in lines) if where.startswith(f"{self.folder}/")]

    def leaks(self) -> list[str]:
        """What is held outside for containers of ours that the records do not have (any more)."""
        known = self.recorded()
        found = [f"engine container {c['Names']}" for c in self.engine_containers() if _uuid(c) not in known]
        for node in self.nodes:
            held = self.testbed.allocations_on(node.host)
            found += [f"allocation {consumer} {what}" for consumer, what in held.items() if consumer not in known]
        found += [f"mount {where}" for where in self.mounts() if not any(uuid in where for uuid in known)]
        used = "SELECT * FROM quota_usages WHERE containers != 0 OR cpu != 0 OR memory != 0 OR disk != 0"
        return found + ([] if known else [f"quota usage {row}" for row in self.query(used)])

    def leaks_of(self, *uuids: str) -> list[str]:
        """What the outside systems still hold for these containers."""
        found = [f"engine container zun-{uuid}" for uuid in uuids if self.engine.container(uuid) is not None]
        for uuid in uuids:
            found += [f"port {port['id']} of {uuid}" for port in self.testbed.ports(device_id=uuid)]
            found += [f"allocation {uuid} {held}" for held in [self.testbed.allocation(uuid)] if held]
            found += [f"security group {g['id']}" for g in self.testbed.security_groups(name=f"zun-{uuid}")]
        attached = [(v["id"], a["server_id"]) for v in self.testbed.volumes() for a in v["attachments"]]
        return found + [f"volume {volume} of {uuid}" for volume, uuid in attached if uuid in uuids]

    def check_no_leak(self, *uuids: str, timeout: float = 30.0) -> None:
        """Nothing is held for containers that are gone; ``uuids`` names such of which every system is asked."""
        last: list[str] = []

        def none() -> bool:
            last[:] = self.leaks() + self.leaks_of(*uuids)
            return not last

        try:
            wait_until(none, timeout, "nothing is left")
        except AssertionError as error:
            raise AssertionError(f"{error}: {last}") from None

    def clear(self, timeout: float = 120.0) -> None:
        """Deletes every container through the API and proves that nothing of them is left anywhere."""
        http, seen = self.http(), self.recorded()
        for uuid in seen:
            wait_until(lambda uuid=uuid: _deleted(http, uuid), timeout, f"{uuid} is deleted;\n{self.tail()}")  # type: ignore[misc]
        self.check_no_leak(*seen)

    # -- the end --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the processes and removes what is theirs: nothing of the test is left. A second call is success."""
        if self.closed:
            return
        self.closed = True
        try:
            self.stop()
        finally:
            for service in self.services:
                if service.running:
                    service.kill()
            for client in self._clients:
                client.close()
            self._remove_all()

    def _remove_all(self) -> None:
        for row in self.engine_containers():
            if row["State"] == "paused":
                self.engine.post(f"/containers/{row['Id']}/unpause")
            self.engine.remove(row["Id"])
        for where in sorted(self.mounts(), reverse=True):
            subprocess.run(["umount", where], check=True, timeout=30)
        for uuid in self.recorded():
            for port in self.testbed.ports(device_id=uuid):
                self.testbed.admin.call("network", "DELETE", f"/v2.0/ports/{port['id']}", absent_ok=True)
        for row in self.query("SELECT uuid FROM local_networks"):
            self.engine.remove_network(f"zun-{row['uuid']}")
        for node in self.nodes:
            self.testbed.remove_provider(node.host)
        self.vhost.drop()
        self.database.drop()
        self._subnet.close()


def _uuid(engine_container: Mapping[str, Any]) -> str:
    """Of the container an engine's row belongs to: the engine's name is ``zun-<uuid>``."""
    return str(engine_container["Names"][0]).lstrip("/").removeprefix("zun-")[:36]


def _healthy(api: Service) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{api.url}/healthcheck", timeout=5).status_code == 200
    return False


def _deleted(http: httpx.Client, uuid: str) -> bool:
    """One step towards it: force does not delete a paused container, it is resumed first."""
    everywhere = {"all_projects": "true"}
    answer = http.get(f"/v1/containers/{uuid}", params=everywhere)
    if answer.status_code == 404:
        return True
    row = answer.json()
    if row["status"] == "Paused" and row["task_state"] is None:
        http.post(f"/v1/containers/{uuid}/unpause", params=everywhere)
    elif row["task_state"] != "container_deleting":
        deleted = http.delete(f"/v1/containers/{uuid}", params={"force": "true", **everywhere})
        assert deleted.status_code in (204, 404, 409), deleted.text
    return False
