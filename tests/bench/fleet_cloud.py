"""The fleet's surroundings: a MariaDB, a RabbitMQ, one zun-api, and processes of many agents."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import psutil

from tests.support import db_servers
from tests.support.live import ZUN, Live
from tests.support.plain_http import PLAIN
from tests.support.rabbit import Rabbit
from tests.support.wait import wait_until

_AGAIN = 200
PROJECTS = 20
"""A cloud of a thousand nodes has many; all of one would queue for its quota's row."""
_READS = "'Handler_read_first', 'Handler_read_key', 'Handler_read_last', 'Handler_read_next', 'Handler_read_prev',"
_READS += " 'Handler_read_rnd', 'Handler_read_rnd_next'"


class FleetMariaDb(db_servers.MariaDb):
    """With room for a connection a node."""

    def command(self) -> list[str]:
        return [
            *super().command(),
            "--max-connections=8000",
            "--innodb-buffer-pool-size=1G",
            "--open-files-limit=30000",
        ]


class FleetRabbit(Rabbit):
    """With memory for a connection and a queue a node."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        file = folder / "rabbitmq.conf"
        file.write_text(file.read_text().replace("512MB", "4GB"))


class Fleet:
    """``start_nodes`` adds nodes; ``stop`` ends and removes all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self._ran = (0, 0)
        """Id of the last container of which all before run, and how many these are."""
        self._stack = contextlib.ExitStack()
        self._nodes: list[subprocess.Popen[str]] = []
        with contextlib.ExitStack() as stack:
            self.database = db_servers.started(FleetMariaDb)
            stack.callback(self.database.remove)
            broker = Path(tempfile.mkdtemp(prefix="zun-fleet-broker-", dir="/tmp"))
            self.rabbit = FleetRabbit(broker)
            stack.callback(self.rabbit.close)
            self.rabbit.start()
            self.product = Live(folder / "product", self._options())
            self._run("zun-db-manage", "--config-file", str(self.product.state.conf_file), "upgrade")
            self.tokens = [self.product.token(f"project-{number}", "admin") for number in range(PROJECTS)]
            self._start_api(stack)
            self._stack = stack.pop_all()

    def _options(self) -> dict[str, dict[str, str]]:
        """Each project has a network with room for all; nothing but what is measured is limited."""
        return {
            "DEFAULT": {"transport_url": self.rabbit.url(), "log_file": "", "default_log_levels": "zun=WARNING"},
            "database": {"connection": self.database.create_database("fleet"), "max_pool_size": "1"},
            "local": {"subnet_pool": "10.0.0.0/8", "subnet_prefix": "16"},
            "quota": {"containers": "-1", "cpu": "-1", "memory": "-1", "disk": "-1"},
        }

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(ZUN.with_name(program)), *arguments], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _log(self, name: str) -> IO[bytes]:
        return (self.folder / f"{name}.log").open("ab")

    def _start_api(self, stack: contextlib.ExitStack) -> None:
        command = [str(ZUN.with_name("zun-api")), "--config-file", str(self.product.state.conf_file)]
        with self._log("zun-api") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self.api = psutil.Process(process.pid)
        stack.callback(_end, process)

        def answers() -> bool:
            assert process.poll() is None, f"zun-api ended with {process.returncode}; its log is in {self.folder}"
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"{self.product.url}/healthcheck", verify=PLAIN, timeout=10).status_code == 200
            return False

        wait_until(answers, 120, "zun-api answers")

    def start_nodes(self, count: int, processes: int) -> None:
        """So many more, in so many processes; returns when all work."""
        begun = []
        for number in range(processes):
            share = count // processes + (number < count % processes)
            words = ["-m", "tests.bench.fleet_nodes", str(self.product.state.conf_file), str(self.count), str(share)]
            with self._log("zun-compute") as log:
                begun.append(subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stderr=log, text=True))
            self.count += share
        self._nodes += begun
        for process in begun:
            assert process.stdout is not None
            assert "ready\n" in process.stdout, f"agents ended with {process.wait(30)}"

    def stop(self) -> None:
        """Agents, API, broker, database."""
        try:
            for process in self._nodes:
                process.terminate()
            for process in self._nodes:
                _end(process)
        finally:
            self._stack.close()

    # -- what is seen from outside --------------------------------------------------------------------

    def client(self, timeout: float = 60.0) -> httpx.AsyncClient:
        """Of the first project; others' tokens are in ``tokens``."""
        headers = {"X-Auth-Token": self.tokens[0], "OpenStack-API-Version": "container 1.40"}
        return httpx.AsyncClient(base_url=self.product.url, headers=headers, verify=PLAIN, timeout=timeout)

    def rows_read(self) -> int:
        """By the database since it was started."""
        rows = self.database.sql(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({_READS})")
        return sum(int(value) for _, value in rows)

    def api_cpu(self) -> float:
        """Seconds that zun-api has used."""
        times = self.api.cpu_times()
        return float(times.user + times.system)

    def memory(self) -> float:
        """MiB of all agents: what each process has for itself, and its share of the rest."""
        return sum(psutil.Process(one.pid).memory_full_info().pss for one in self._nodes) / 2**20

    def running(self) -> int:
        """Containers whose node says that they run. Those that ran at an earlier look are not read again, but for the
        latest: rows appear in another order than that of their ids."""
        last, running = self._ran
        query = f"SELECT id, status FROM fleet.containers WHERE id > {last} ORDER BY id"
        rows = [(int(number), status == "Running") for number, status in self.database.sql(query)]
        for number, runs in rows[:-_AGAIN]:
            if not runs:
                break
            last, running = number, running + 1
        self._ran = last, running
        return running + sum(runs for number, runs in rows if number > last)

    def listening(self) -> int:
        """Agents that the broker knows."""
        try:
            return sum(
                1 for line in self.rabbit.ctl("list_consumers", "--no-table-headers", "queue_name").splitlines() if line
            )
        except AssertionError:  # it is still starting
            return 0


@contextlib.contextmanager
def fleet() -> Iterator[Fleet]:
    """Running, without nodes; removed at the end. Logs are kept when it fails."""
    with tempfile.TemporaryDirectory(prefix="zun-fleet-") as folder:
        made = Fleet(Path(folder))
        try:
            yield made
        except BaseException:
            for log in Path(folder).glob("*.log"):
                print(f"--- the end of {log.name}\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)
            raise
        finally:
            made.stop()


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(30)
