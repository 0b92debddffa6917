"""The state directory of a one-machine installation: its files, made on first start, and its lock.

Everything a person may look for lies here: zun.conf, openrc, admin-token, zun.pid, zun.log, the database.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zun.cli.preflight import free_port
from zun.cli.problem import Problem

DEFAULT_PORT = 9517
DEFAULT_PROXY_PORT = 6784

_CONF = """\
# Written by `zun up` on its first start. It is yours now: change it, then restart.
# Every option is described in docs/reference/configuration.md.

[DEFAULT]
# Root of run-time state.
state_path = {root}
# Encrypts stored registry passwords. Keep it: without it they cannot be read any more.
auth_encryption_key = {key}

[api]
host_ip = 127.0.0.1
port = {port}

[websocket_proxy]
# Where terminals and browsers open sessions with containers. To reach it from other machines: wsproxy_host = 0.0.0.0
# and base_url = ws://<a name of this machine>:{proxy_port}/
wsproxy_host = 127.0.0.1
wsproxy_port = {proxy_port}

[cni_daemon]
# Where containerd's plug-in for capsules asks. To install it: zun-cni-daemon install --config-file {root}/zun.conf
socket = {socket}

[database]
connection = sqlite:///{root}/zun.sqlite

[compute]
# Count CPU in thousandths of a core, so that 0.1 CPU takes 0.1 CPU.
fractional_cpu = true
"""

_OPENRC = """\
# Source this file, then use the stock OpenStack client: openstack appcontainer list
for zun_name in $(env | sed -n 's/^\\(OS_[A-Z0-9_]*\\)=.*/\\1/p'); do unset "$zun_name"; done; unset zun_name
export OS_AUTH_TYPE=admin_token
export OS_ENDPOINT={endpoint}
export OS_TOKEN={token}
"""


_LONGEST_SOCKET = 107
"""Bytes of a Unix socket's path."""


class StateDir:
    """Paths and files below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.conf_file = self.root / "zun.conf"
        self.openrc = self.root / "openrc"
        self.admin_token = self.root / "admin-token"
        self.pid_file = self.root / "zun.pid"
        self.started_file = self.root / "zun.started"
        self.log_file = self.root / "zun.log"
        self.lock_file = self.root / "lock"

    def prepare(self, port: int | None = None) -> bool:
        """Make the folder and, on first start, zun.conf. True when it was the first start. Raises Problem."""
        with _readable(self.root):
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._probe()
            if self.conf_file.exists():
                return False
            root, socket = (text.replace("$", "$$") for text in (str(self.root), _cni_socket(self.root)))
            text = _CONF.format(
                root=root,
                key=secrets.token_hex(16),
                port=port or DEFAULT_PORT,
                proxy_port=_proxy_port(port or DEFAULT_PORT),
                socket=socket,
            )
            write_private(self.conf_file, text)
            return True

    def _probe(self) -> None:
        """Fails now, with the disk's own reason, rather than later inside the database."""
        with tempfile.TemporaryFile(dir=self.root) as probe:
            probe.write(b"\0" * 65536)
            probe.flush()

    def write_openrc(self, endpoint: str, token: str) -> None:
        """What the stock clients need; written only when it would change."""
        text = self.openrc_text(endpoint, token)
        with _readable(self.root):
            if not self.openrc.exists() or self.openrc.read_text() != text:
                write_private(self.openrc, text)

    @staticmethod
    def openrc_text(endpoint: str, token: str) -> str:
        """For ``admin_token`` authentication; clears the OS_* variables that would contradict it."""
        return _OPENRC.format(endpoint=endpoint, token=token)

    def read_endpoint(self) -> str | None:
        """The endpoint last served from this folder."""
        try:
            lines = self.openrc.read_text().splitlines()
        except OSError:
            return None
        prefix = "export OS_ENDPOINT="
        return next((line.removeprefix(prefix) for line in lines if line.startswith(prefix)), None)

    def write_admin_token(self, token: str) -> None:
        with _readable(self.root):
            write_private(self.admin_token, token + "\n")

    def read_admin_token(self) -> str | None:
        """None when there is none yet."""
        try:
            return self.admin_token.read_text().strip() or None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Problem(f"{self.admin_token} cannot be read: {error.strerror}.") from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Held while the product runs from this folder, with zun.pid beside it. Raises Problem when it is taken.

        The kernel drops the lock with the process, so a killed product never blocks the next start.
        """
        with _readable(self.root):
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Problem(f"Zun already runs from {self.root} ({self._holder()}).") from error
            with _readable(self.root):
                write_file(self.pid_file, f"{os.getpid()}\n")
                write_file(self.started_file, f"{start_time(os.getpid())}\n")
            try:
                yield
            finally:
                self.pid_file.unlink(missing_ok=True)
                self.started_file.unlink(missing_ok=True)
        finally:
            os.close(descriptor)

    def running_pid(self) -> int | None:
        """The process that runs from this folder now; a stale or recycled pid is None."""
        try:
            pid = int(self.pid_file.read_text())
            started = int(self.started_file.read_text())
        except (OSError, ValueError):
            return None
        return pid if start_time(pid) == started else None

    def _holder(self) -> str:
        pid = self.running_pid()
        return f"process {pid}" if pid else "another process"


def start_time(pid: int) -> int | None:
    """Start of a process in clock ticks since boot (field 22 of its stat); None when it is gone.

    With it a pid file proves that the pid was not given to another process since.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def write_private(path: Path, text: str) -> None:
    """Mode 0600, whole or not at all."""
    write_file(path, text, mode=0o600)


def write_file(path: Path, text: str, *, mode: int = 0o644) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


@contextmanager
def _readable(root: Path) -> Iterator[None]:
    """The operating system's refusal as one sentence about the state directory."""
    try:
        yield
    except OSError as error:
        raise Problem(describe(error, root)) from error


def describe(error: OSError, root: Path) -> str:
    """One sentence for what the operating system refused below ``root``."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk of the state directory {root} is full."
    return f"The state directory {root} cannot be used: {error.strerror or error}. Choose another with --state-dir."


def _proxy_port(api_port: int) -> int:
    """The usual one beside the usual API; a product with another port has a free one: it is not alone here."""
    if api_port == DEFAULT_PORT:
        return DEFAULT_PROXY_PORT
    return free_port()


def _cni_socket(root: Path) -> str:
    """In the folder; elsewhere where its path is too long for a socket."""
    path = str(root / "cni.sock")
    if len(path.encode()) <= _LONGEST_SOCKET:
        return path
    return f"/run/zun-cni-{hashlib.sha256(path.encode()).hexdigest()[:16]}.sock"
