"""A private RabbitMQ on free ports of 127.0.0.1, plain and TLS, with its own data, port mapper and user."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import psutil

from tests.support.certificates import Certificates, make_certificates
from tests.support.ports import free_port
from tests.support.wait import wait_until

PROGRAMS = Path("/usr/lib/rabbitmq/bin")
"""Debian's /usr/sbin/rabbitmq-server expects its own user and folders; the script below it does not."""
USER, PASSWORD = "zun", "p@ss/w,rd%"
URL_PASSWORD = "p%40ss%2Fw%2Crd%25"
_ACCOUNT = "rabbitmq"
_START_SECONDS = 180.0
_STOP_SECONDS = 90.0
_FEW_THREADS = "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}"


class Rabbit:
    """Not started until ``start``; the same ports after each restart. ``folder`` must be short-lived and ours."""

    def __init__(self, folder: Path) -> None:
        if not (PROGRAMS / "rabbitmq-server").exists():
            raise AssertionError("RabbitMQ is not installed; `make test` installs Debian's rabbitmq-server.")
        self.folder = folder
        self.port, self.tls_port, self._dist, self._epmd = (free_port() for _ in range(4))
        self.node = f"zun-tests-{self.port}@localhost"
        self.certificates: Certificates = make_certificates(folder / "tls", "rabbitmq")
        self._process: subprocess.Popen[bytes] | None = None
        self._mapper: subprocess.Popen[bytes] | None = None
        self._stopped: list[psutil.Process] = []
        self._write_configuration()
        self._owner: dict[str, Any] = {}
        if os.geteuid() == 0:  # the server is not run as root
            account = pwd.getpwnam(_ACCOUNT)
            self._owner = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            for path in (folder, *folder.rglob("*")):
                os.chown(path, account.pw_uid, account.pw_gid)

    def url(self, *, user: str = USER, password: str = URL_PASSWORD, vhost: str = "", query: str = "") -> str:
        """A ``transport_url``; ``password`` percent-encoded."""
        return f"rabbit://{user}:{password}@127.0.0.1:{self.port}/{vhost}{'?' if query else ''}{query}"

    def tls_url(self) -> str:
        return f"rabbit://{USER}:{URL_PASSWORD}@127.0.0.1:{self.tls_port}/?ssl=1&ssl_ca_file={self.certificates.ca}"

    def _write_configuration(self) -> None:
        tls = self.certificates
        lines = [
            f"listeners.tcp.local = 127.0.0.1:{self.port}",
            f"listeners.ssl.local = 127.0.0.1:{self.tls_port}",
            f"ssl_options.cacertfile = {tls.ca}",
            f"ssl_options.certfile = {tls.certificate}",
            f"ssl_options.keyfile = {tls.key}",
            "ssl_options.verify = verify_none",
            f"default_user = {USER}",
            f"default_pass = {PASSWORD}",
            "loopback_users = none",
            "log.console = false",
            "log.file.level = warning",
            "vm_memory_high_watermark.absolute = 512MB",
            "disk_free_limit.absolute = 50MB",
            "collect_statistics_interval = 1000",
        ]
        (self.folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        (self.folder / "enabled_plugins").write_text("[].\n")
        cookie = self.folder / ".erlang.cookie"
        cookie.touch(mode=0o600)
        cookie.write_text(os.urandom(16).hex())
        cookie.chmod(0o400)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
        return kept | {
            "HOME": str(self.folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd),
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self._dist),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_PID_FILE": str(self.folder / "rabbit.pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _FEW_THREADS,
            "ERL_CRASH_DUMP_SECONDS": "0",
            "LANG": "C.UTF-8",
        }

    def _launch(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.out").open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self._environment(),
                start_new_session=True,
                **self._owner,
            )

    # -- its life -------------------------------------------------------------------------------------

    def start(self) -> Rabbit:
        """Returns when it takes connections."""
        if self._mapper is None:
            self._mapper = self._launch("epmd", "epmd", "-address", "127.0.0.1", "-port", str(self._epmd))
            wait_until(lambda: _listens(self._epmd), 30, "Erlang's port mapper listens")
        process = self._process = self._launch("server", str(PROGRAMS / "rabbitmq-server"))
        wait_until(lambda: process.poll() is not None or self.answers(), _START_SECONDS, "RabbitMQ answers")
        assert process.poll() is None, f"RabbitMQ ended with {process.returncode}:\n{self.log()}"
        return self

    def answers(self) -> bool:
        """An AMQP handshake gets its first frame, on both ports' behalf: they are opened together."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as probe:
                probe.sendall(b"AMQP\x00\x00\x09\x01")
                return bool(probe.recv(1)) and _listens(self.tls_port)
        except OSError:
            return False

    def stop(self) -> None:
        """SIGTERM; the data stays. A second call is success."""
        self.resume()
        if self._process is not None:
            _end(self._process)
            self._process = None

    def kill(self) -> None:
        """As if the power failed; the data stays."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(_STOP_SECONDS)
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def hang(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered, new ones are accepted by the kernel only."""
        assert self._process is not None
        shell = psutil.Process(self._process.pid)
        self._stopped = [shell, *shell.children(recursive=True)]
        for process in self._stopped:
            process.suspend()

    def resume(self) -> None:
        for process in self._stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
        self._stopped = []

    def close(self) -> None:
        """Everything ends, and the folder goes."""
        self.stop()
        if self._mapper is not None:
            _end(self._mapper)
            self._mapper = None
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- what an operator would do --------------------------------------------------------------------

    def ctl(self, *arguments: str) -> str:
        """``rabbitmqctl``."""
        done = subprocess.run(
            [str(PROGRAMS / "rabbitmqctl"), "--quiet", "-n", self.node, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env=self._environment(),
            cwd=self.folder,
            check=False,
            **self._owner,
        )
        assert done.returncode == 0, done.stderr or done.stdout
        return done.stdout

    def delete_queue(self, name: str) -> bool:
        """False where it is gone already."""
        try:
            self.ctl("delete_queue", name)
        except AssertionError as error:
            if "not found" in str(error):
                return False
            raise
        return True

    def queues(self, *columns: str) -> list[list[str]]:
        """One row a queue: its name, then ``columns``."""
        lines = self.ctl("list_queues", "--no-table-headers", "name", *columns).splitlines()
        return [line.split("\t") for line in lines if line]

    def log(self) -> str:
        files = [*self.folder.glob("*.out"), *self.folder.glob("log/*.log")]
        return "\n".join(file.read_text(errors="replace")[-3000:] for file in files)


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2):
            return True
    except OSError:
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """TERM to the group, then KILL: the server is a shell with Erlang below it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(_STOP_SECONDS)
