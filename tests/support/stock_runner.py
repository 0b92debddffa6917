"""The `openstack` program in a process that has loaded it, for all commands of a run of tests: see its child."""

from __future__ import annotations

import atexit
import json
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.support.wait import wait_until

_CHILD = Path(__file__).with_name("stock_runner_child.py")
_START = 60.0  # seconds
_STARTING = threading.Lock()


class StockRunner:
    """One for a virtual environment; ends with this process. Commands may run side by side."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._folder = Path(tempfile.mkdtemp(prefix="zun-stock-"))
        self._socket = self._folder / "socket"
        python = program.with_name("python")
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(python), str(_CHILD), str(program), str(self._socket)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        atexit.register(self.close)
        wait_until(self._settled, _START, "the stock client is loaded")
        assert self._process.poll() is None, (self._folder / "log").read_text()

    def _settled(self) -> bool:
        if self._process.poll() is not None:
            return True
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self._socket))
        except OSError:
            return False
        return True

    def run(self, arguments: list[str], env: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
        """Exit code and both streams. Raises TimeoutExpired after ``timeout`` seconds; the command is ended then."""
        argv = [str(self._program), *arguments]
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        out, err = folder / "out", folder / "err"
        asked = {"argv": argv, "env": dict(env), "cwd": str(Path.cwd()), "out": str(out), "err": str(err)}
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(timeout)
                link.connect(str(self._socket))
                link.sendall(json.dumps(asked).encode() + b"\n")
                with link.makefile("r") as lines:
                    answer = lines.readline()
            assert answer, f"the stock client's process ended: {(self._folder / 'log').read_text()}"
            return subprocess.CompletedProcess(argv, json.loads(answer)["code"], out.read_text(), err.read_text())
        except TimeoutError:
            raise subprocess.TimeoutExpired(argv, timeout) from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """It ends when its standard input does."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        shutil.rmtree(self._folder, ignore_errors=True)


def runner(program: Path) -> StockRunner:
    """The one of this process; started when it is first asked for."""
    with _STARTING:
        return _runner(program)


@cache
def _runner(program: Path) -> StockRunner:
    return StockRunner(program)
