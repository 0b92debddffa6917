"""A Docker engine of a test's own, which may be stopped, killed, hung, or run out of disk; nothing of it is left."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.support.engine import Engine
from tests.support.wait import wait_until

_START_SECONDS = 120.0
_STOP_SECONDS = 90.0


class Dockerd:
    """Not started until ``start``. Containers outlive it (live restore), as where an operator upgrades it. Its data is
    on a disk of ``mib`` MiB."""

    def __init__(self, mib: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="zun-dockerd-", dir="/tmp"))  # sockets have short paths
        self.socket = self.folder / "docker.sock"
        self.data = self.folder / "data"
        self.data.mkdir()
        self.process: subprocess.Popen[bytes] | None = None
        (self.folder / "daemon.json").write_text("{}")
        options = ("-o", f"size={mib}m")
        subprocess.run(["mount", "-t", "tmpfs", *options, "zun-test", str(self.data)], check=True, timeout=30)
        self.engine = Engine(str(self.socket))

    def start(self) -> Dockerd:
        """Returns when it answers."""
        flags = ["--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false", "--userland-proxy=false"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *("unshare", "--net"),  # without a bridge of its own, dockerd removes docker0: another engine's
                    *("dockerd", "--config-file", str(self.folder / "daemon.json"), "--live-restore", *flags),
                    *("--data-root", str(self.data), "--exec-root", str(self.folder / "exec")),
                    *("--pidfile", str(self.folder / "pid"), "--host", f"unix://{self.socket}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        process = self.process
        wait_until(lambda: process.poll() is not None or self._listens(), _START_SECONDS, "the engine listens")
        wait_until(lambda: process.poll() is not None or self.engine.ping(), _START_SECONDS, "the engine answers")
        assert process.poll() is None, self.log()
        return self

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0

    def stop(self) -> None:
        """SIGTERM; its containers go on. A second call is success."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(_STOP_SECONDS)
            self.process = None

    @contextmanager
    def hung(self) -> Iterator[None]:
        """SIGSTOP meanwhile: it takes connections, and says nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    @contextmanager
    def full(self) -> Iterator[None]:
        """No room on its disk meanwhile."""
        filler = self.data / "filler"
        with filler.open("wb", buffering=0) as out, contextlib.suppress(OSError):
            while True:
                out.write(bytes(1 << 16))
        try:
            yield
        finally:
            filler.unlink()

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-4000:]

    def close(self) -> None:
        """Containers, engine, mounts and files go."""
        try:
            if self.process is not None and self.engine.ping():
                for row in self.engine.get("/containers/json", all="true"):
                    self.engine.remove(row["Id"])
            self.engine.close()
            self.stop()
        finally:
            self._end_all()
            for where in sorted(self._mounts(), reverse=True):
                subprocess.run(["umount", "--lazy", where], check=True, timeout=30)
            shutil.rmtree(self.folder)
        assert not self._mounts()

    def _end_all(self) -> None:
        """What was started from here and is still there: its containerd, shims that it did not end."""
        left = [one for one in psutil.process_iter(["cmdline"]) if self._is_ours(one)]
        for one in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(left, 30)

    def _is_ours(self, process: psutil.Process) -> bool:
        return process.pid != os.getpid() and str(self.folder) in " ".join(process.info["cmdline"] or [])

    def _mounts(self) -> list[str]:
        lines = Path("/proc/self/mounts").read_text().splitlines()
        return [where for where in (line.split()[1] for line in lines) if where.startswith(str(self.folder))]
